"""Composites: which rule of layer-wise relevance propagation a layer has, by its kind and position.

Names and rules as in Zennit (Anders et al., 2021), and the deep Taylor decomposition of Montavon et al. (2017).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pullback.errors import SaliencyError
from pullback.rules._lrp import (
    lrp_alpha_beta,
    lrp_epsilon,
    lrp_flat,
    lrp_gamma,
    lrp_w_square,
    lrp_z_b,
    lrp_z_plus,
)


@dataclass(frozen=True)
class Composite:
    """Rules by kind of layer and position."""

    convolution: Any
    dense: Any
    first: Any = None  # for layers that read the input, whichever kind they are
    chosen: Mapping[Any, Any] = field(
        default_factory=dict[Any, Any]
    )  # for layers, by themselves, class or name


def epsilon() -> Composite:
    """LRP-ε for all."""
    return Composite(lrp_epsilon(), lrp_epsilon())


def epsilon_gamma() -> Composite:
    """LRP-γ for convolutions and LRP-ε for dense layers."""
    return Composite(lrp_gamma(), lrp_epsilon())


def epsilon_gamma_box(low: Any, high: Any) -> Composite:
    """LRP-γ for convolutions, LRP-ε for dense layers, LRP-z^B for the first; inputs lie between `low` and `high`."""
    return Composite(lrp_gamma(), lrp_epsilon(), lrp_z_b(low, high))


def epsilon_plus() -> Composite:
    """LRP-z⁺ for convolutions and LRP-ε for dense layers."""
    return Composite(lrp_z_plus, lrp_epsilon())


def epsilon_plus_flat() -> Composite:
    """LRP-z⁺ for convolutions, LRP-ε for dense layers, LRP-flat for the first."""
    return Composite(lrp_z_plus, lrp_epsilon(), lrp_flat)


def epsilon_alpha2_beta1() -> Composite:
    """LRP-α2β1 for convolutions and LRP-ε for dense layers."""
    return Composite(lrp_alpha_beta(2.0, 1.0), lrp_epsilon())


def epsilon_alpha2_beta1_flat() -> Composite:
    """LRP-α2β1 for convolutions, LRP-ε for dense layers, LRP-flat for the first."""
    return Composite(lrp_alpha_beta(2.0, 1.0), lrp_epsilon(), lrp_flat)


def deep_taylor() -> Composite:
    """LRP-z⁺ for all, but for the first layer, which has LRP-w²: its inputs have no bounds."""
    return Composite(lrp_z_plus, lrp_z_plus, lrp_w_square)


_ALL: tuple[Callable[..., Composite], ...] = (
    epsilon_plus,
    epsilon_plus_flat,
    epsilon_gamma_box,
    epsilon_gamma,
    epsilon_alpha2_beta1,
    epsilon_alpha2_beta1_flat,
    deep_taylor,
    epsilon,
)
COMPOSITES: Final[Mapping[str, Callable[..., Composite]]] = {made.__name__: made for made in _ALL}


def composite_of(given: Any, low: Any, high: Any) -> Composite:
    """What was written as `composite=`: a name, or rules by layer, which come before those of the default."""
    if isinstance(given, Mapping):
        rules = dict(given)  # pyright: ignore[reportUnknownArgumentType]  # checked one by one
        for target, rule in rules.items():
            if not str(getattr(rule, "name", "")).startswith("lrp_"):
                raise SaliencyError(
                    f"composite gives {target!r} the rule {rule!r}; wanted one of LRP, such as pb.rules.lrp_gamma(0.5)."
                )
        usual = epsilon_plus()
        return Composite(usual.convolution, usual.dense, None, rules)
    if given not in COMPOSITES:
        raise SaliencyError(
            f"composite={given!r} is not known. There are {', '.join(COMPOSITES)}; or write rules by layer, such as "
            '{"conv1": pb.rules.lrp_flat, keras.layers.Dense: pb.rules.lrp_epsilon(0.1)}.'
        )
    bounds = low is not None and high is not None
    if given == "epsilon_gamma_box" and not bounds:
        raise SaliencyError(
            'composite="epsilon_gamma_box" needs low= and high=, between which the inputs of the first layer lie: for '
            "pixels from 0 to 1, low=0, high=1."
        )
    if given != "epsilon_gamma_box" and (low is not None or high is not None):
        raise SaliencyError(
            f'low= and high= are for composite="epsilon_gamma_box", not for {given!r}.'
        )
    return COMPOSITES[given](**({"low": low, "high": high} if bounds else {}))
