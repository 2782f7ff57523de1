"""What may be asked of a check besides the function: refused early, and written out again as code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.errors import CheckError


@dataclass(frozen=True)
class Options:
    """The options of one check, each known to be of the right kind."""

    kwargs: Any
    wrt: Any
    order: Any
    quick: Any
    modes: Any
    against: Any
    domain: Any
    tolerance: Any
    seed: Any
    explain: Any

    def __post_init__(self) -> None:
        _require(self.kwargs is None or _is_by_name(self.kwargs), "kwargs", self.kwargs, _KWARGS)
        _require(self.wrt is None or _are_names(self.wrt), "wrt", self.wrt, _WRT)
        order = self.order is None or (_is_integer(self.order) and self.order in (1, 2))
        _require(order, "order", self.order, "1 or 2")
        share = isinstance(self.tolerance, int | float) and 0 <= self.tolerance < 1
        _require(share, "tolerance", self.tolerance, "a share of the gradient, such as 1e-3")
        function = self.against is None or isinstance(self.against, str) or callable(self.against)
        _require(function, "against", self.against, "the function whose derivative is meant")
        _require(isinstance(self.quick, bool), "quick", self.quick, "True or False")
        _require(isinstance(self.explain, bool), "explain", self.explain, "True or False")
        _require(
            _is_integer(self.seed) and self.seed >= 0, "seed", self.seed, "a whole number >= 0"
        )
        known = self.modes is None or _are_texts(self.modes)
        _require(known, "modes", self.modes, "'all', 'none' or names of ways to run")

    @property
    def names(self) -> Sequence[str] | None:
        """What the check is limited to."""
        return [self.wrt] if isinstance(self.wrt, str) else self.wrt

    def as_code(self) -> str:
        """What must be written after the function and its arguments to run the same check."""
        parts: list[str] = []
        plain = {"order": None, "quick": False, "tolerance": 0.0, "explain": True}
        parts += [f"{k}={getattr(self, k)!r}" for k, v in plain.items() if getattr(self, k) != v]
        for name in ("wrt", "modes", "domain"):
            value = getattr(self, name)
            parts += [] if value is None else [f"{name}={value!r}"]
        parts += [] if self.against is None else [f"against={as_code(self.against, 'meant')}"]
        return ", ".join([*parts, f"seed={self.seed}"])


_KWARGS = "a dict by parameter name, such as {'axis': 0}"
_WRT = "the name of an input or a list of names, such as 'x' or ['x', 'y']"


def as_code(fn: Any, otherwise: str = "fn") -> str:
    """How a user would write a function: an op's type in quotes, a function by its name."""
    if isinstance(fn, str):
        return repr(fn)
    name = getattr(fn, "__name__", "")
    return name if isinstance(name, str) and name.isidentifier() else otherwise


def _require(right: bool, name: str, value: Any, wanted: str) -> None:
    if not right:
        text = repr(value) if isinstance(value, str | int | float | list | dict | tuple) else ""
        kind = type(value).__name__
        raise CheckError(f"{name} is {wanted}; got {kind} {text[:60]}".rstrip() + ".")


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_by_name(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def _are_texts(value: Any) -> bool:
    plain = isinstance(value, str | list | tuple | set | frozenset)
    return plain and all(isinstance(item, str) for item in value)


def _are_names(value: Any) -> bool:
    return _are_texts(value) and len(value) > 0
