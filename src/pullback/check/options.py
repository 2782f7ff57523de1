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
        is_function = isinstance(self.against, str) or callable(self.against)
        is_share = isinstance(self.tolerance, int | float) and 0 <= self.tolerance < 1
        wanted = {
            "kwargs": (_is_by_name(self.kwargs), "a dict by parameter name, such as {'axis': 0}"),
            "wrt": (_are_texts(self.wrt) and len(self.wrt) > 0, _WRT),
            "order": (_is_integer(self.order) and self.order in (1, 2), "1 or 2"),
            "modes": (_are_texts(self.modes), "'all', 'none' or names of ways to run"),
            "against": (is_function, "the function whose derivative is meant"),
            "tolerance": (is_share, "a share of the gradient, such as 1e-3"),
            "quick": (isinstance(self.quick, bool), "True or False"),
            "explain": (isinstance(self.explain, bool), "True or False"),
            "seed": (_is_integer(self.seed) and self.seed >= 0, "a whole number >= 0"),
        }
        for name, (is_right, what) in wanted.items():
            value = getattr(self, name)
            if not is_right and (value is not None or name not in _MAY_BE_LEFT_OUT):
                plain = isinstance(value, str | int | float | list | dict | tuple)
                came = f"{type(value).__name__} {repr(value)[:60] if plain else ''}".rstrip()
                raise CheckError(f"{name} is {what}; got {came}.")

    @property
    def names(self) -> Sequence[str] | None:
        """What the check is limited to."""
        return [self.wrt] if isinstance(self.wrt, str) else self.wrt

    def as_code(self) -> str:
        """What must be written after the function and its arguments to run the same check."""
        plain = {"order": None, "quick": False, "tolerance": 0.0, "explain": True}
        others = [name for name in ("wrt", "modes", "domain") if getattr(self, name) is not None]
        kept = [*(name for name, usual in plain.items() if getattr(self, name) != usual), *others]
        parts = [f"{name}={getattr(self, name)!r}" for name in kept]
        parts += [] if self.against is None else [f"against={as_code(self.against, 'meant')}"]
        return ", ".join([*parts, f"seed={self.seed}"])


_MAY_BE_LEFT_OUT = ("kwargs", "wrt", "order", "modes", "against")
_WRT = "the name of an input or a list of names, such as 'x' or ['x', 'y']"


def as_code(fn: Any, otherwise: str = "fn") -> str:
    """How a user would write a function: an op's type in quotes, a function by its name."""
    if isinstance(fn, str):
        return repr(fn)
    name = getattr(fn, "__name__", "")
    return name if isinstance(name, str) and name.isidentifier() else otherwise


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_by_name(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def _are_texts(value: Any) -> bool:
    plain = isinstance(value, str | list | tuple | set | frozenset)
    return plain and all(isinstance(item, str) for item in value)
