"""What a parameter is to be given, and the numbers of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback._engine import only_engine
from pullback.cli.guess.sizes import Dims, Shape

NOTHING: Any = object()
ANNOTATION, DOCSTRING, NAME, SOURCE, TRIED = "annotation", "docstring", "name", "source", "tried"
DEFAULT = "default"
OF_MATRICES = ("definite", "symmetric")  # kinds of numbers


class ReachedBy(str):
    """The source of an argument that another call came to, which is called as it says."""


_INSIDE = 0.05  # share of a range at either end that is left free: guards set in there


@dataclass(frozen=True)
class Wanted:
    """One value that may suit a parameter: a plain one, or a tensor of some shape, dtype and kind of numbers.

    Without `dims` a tensor may have any shape, or any of so many `axes`, or that of the tensor that it is `like`;
    `values` says how its numbers lie. `items` of them are a list, `parts` the entries of a dict. `soft` marks
    what another reading may well replace.
    """

    source: str = TRIED
    plain: Any = NOTHING
    dims: Dims | None = None
    dtype: str = "float32"
    values: str = ""
    items: int = 0
    soft: bool = False
    axes: tuple[int, ...] = ()
    like: str = ""
    parts: tuple[tuple[str, Wanted], ...] = ()

    @property
    def leaves(self) -> tuple[Wanted, ...]:
        """The tensors of which a shape is asked: its own, or those of its parts."""
        return tuple(part for _, part in self.parts) or (self,)

    @property
    def is_tensor(self) -> bool:
        """Whether numbers have to be made up."""
        return self.plain is NOTHING

    @property
    def is_open(self) -> bool:
        """Whether its shape is to be tried."""
        return self.is_tensor and self.dims is None and not self.like

    @property
    def is_made_up(self) -> bool:
        """Whether nobody has said which shape is meant: it is tried, or taken from a name or a call in the source."""
        return self.is_tensor and (self.is_open or self.source not in (ANNOTATION, DOCSTRING))

    def may_have(self, shape: Shape) -> bool:
        """Whether a shape that is tried has as many axes as it may have."""
        return not self.axes or len(shape) in self.axes

    @property
    def may_vary(self) -> bool:
        """Whether other numbers and dtypes may be tried in place of these."""
        return self.is_real and not self.values

    @property
    def is_real(self) -> bool:
        """Whether it is a tensor of real numbers, which may have more digits."""
        return self.is_tensor and self.dtype == "float32"


def made(wanted: Wanted, shape: Shape, which: int, values: str = "", dtype: str = "") -> Any:
    """The value itself, always the same for a shape and a number."""
    if not wanted.is_tensor:
        return wanted.plain
    if wanted.may_vary:
        values, dtype = values or wanted.values, dtype or wanted.dtype
    else:
        digits = dtype if dtype == "float64" and wanted.is_real else wanted.dtype
        values, dtype = wanted.values, digits
    tensor = only_engine().probes.tensor
    several = [
        tensor(numbers(shape, values, dtype, (which, k)), dtype) for k in range(wanted.items or 1)
    ]
    return several if wanted.items else several[0]


def numbers(shape: Shape, values: str, dtype: str, which: tuple[int, int]) -> Any:
    """Numbers of a kind."""
    rng = np.random.default_rng([len(shape), *which])
    if dtype.startswith(("int", "uint")):
        whole = rng.integers(0, 2 if not shape else min(3, max(shape)), shape)
        whole = np.sort(whole - whole.min()) if len(shape) == 1 else whole  # segments, in order
        return whole + (values == "positive")
    if dtype == "bool" or values == "flags":
        return rng.integers(0, 2, shape) if shape else np.ones(())
    if values.startswith("="):
        return np.full(shape, float(values[1:]))
    if " to " in values:
        low, high = map(float, values.split(" to "))
        return rng.uniform(low + _INSIDE * (high - low), high - _INSIDE * (high - low), shape)
    plain = rng.normal(size=shape)
    if dtype.startswith("complex"):
        return plain + 1j * rng.normal(size=shape)
    return _KINDS.get(values, lambda x, _: x)(plain, rng)


def _definite(x: Any, _: Any) -> Any:
    return x @ np.swapaxes(x, -1, -2) + np.eye(x.shape[-1]) if _is_square(x) else abs(x) + 1


def _symmetric(x: Any, _: Any) -> Any:
    return (x + np.swapaxes(x, -1, -2)) / 2 if _is_square(x) else x


def _is_square(x: Any) -> bool:
    return x.ndim > 1 and x.shape[-1] == x.shape[-2]


def _one_hot(x: Any, _: Any) -> Any:
    return (x == x.max(-1, keepdims=True)).astype(float) if x.ndim else np.ones(())


def _shares(x: Any, _: Any) -> Any:
    weights = np.exp(x)
    return weights / weights.sum(-1, keepdims=True) if x.ndim else np.full((), 0.3)


_KINDS: dict[str, Any] = {
    "positive": lambda x, rng: rng.uniform(0.3, 2, x.shape),
    "negative": lambda x, rng: -rng.uniform(0.3, 2, x.shape),
    "unit": lambda x, rng: rng.uniform(0.1, 0.9, x.shape),
    "above one": lambda x, rng: rng.uniform(1.1, 2, x.shape),
    "definite": _definite,
    "symmetric": _symmetric,
    "one-hot": _one_hot,
    "shares": _shares,
}


def domain_of(values: str) -> Any:
    """The kind of numbers as `domain=` of a check has it; nothing where it has no such thing."""
    if " to " in values:
        low, high = values.split(" to ")
        return float(low), float(high)
    return values if values in ("positive", "negative", "unit", "symmetric", "definite") else None
