"""What one can ask about while it is put together, and whether a sweep agrees with the framework on its gradient."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np

from pullback.explain.data import Hint, Place, Size, Source
from pullback.explain.recording import Numbers
from pullback.explain.sizes import BLOCK
from pullback.explain.sketch import sketch_of
from pullback.program.run import Event

# Two sums of the same numbers in another order differ by no more than this, relative to the largest.
_SAME = {"float64": 1e-9, "complex128": 1e-9, "float16": 3e-2, "bfloat16": 1e-1}
_SAME_FLOAT32 = 1e-3
# Of gradients with more entries than this, every so manyth is compared, besides norm, maximum and what is not finite:
# one copy of all gradients is as large as the weights.
_WHOLE, _STRIDE = 1 << 18, 16


@dataclasses.dataclass(slots=True, eq=False)
class Entry:
    """A source while it is put together."""

    thing: Any  # a tensor or variable of the engine
    name: str
    kind: Literal["argument", "variable", "tensor"]
    shape: tuple[int, ...]
    dtype: str
    flows: bool  # whether it can have a gradient
    objects: list[Any]  # that the caller may ask with
    path: str = ""
    values: tuple[int, ...] = ()  # of the run
    layer: tuple[str, ...] = ()
    trainable: bool = True
    is_variable: bool = False
    position: int | None = None  # among all leaves of the arguments
    gradient: Size | None = None
    asked: bool = True
    moves: bool | None = None
    place: Place | None = None
    hints: list[Hint] = dataclasses.field(default_factory=list[Hint])
    decided_at: Place | None = None
    sketch: tuple[float, ...] = ()

    def to_source(self, numbers: Numbers) -> Source:
        """The source as data."""
        return Source(
            self.name, self.kind, numbers(self.values), self.shape, self.dtype, self.gradient, self.layer,
            self.trainable, self.moves, self.place, self.asked, tuple(self.hints),
            self.decided_at, self.sketch,
        )  # fmt: skip


def number_equal_names(entries: Sequence[Entry]) -> None:
    """Give names that differ."""
    seen: dict[str, int] = {}
    for entry in entries:
        count = seen[entry.name] = seen.get(entry.name, 0) + 1
        entry.name += "" if count == 1 else f"#{count}"


@dataclasses.dataclass(frozen=True, slots=True)
class Gap:
    """How far two gradients are apart."""

    distance: float
    scale: float  # the largest of the framework's entries
    dtype: str

    def is_wide(self, largest: float, least: float) -> bool:
        """Whether they are not the same but for the order of sums, among gradients of this size."""
        same = max(least, _SAME.get(self.dtype, _SAME_FLOAT32))
        return not self.distance <= same * self.scale + same / 1000 * largest


def least_of(dtypes: Iterable[str]) -> float:
    """By how much gradients differ at least that are computed in these formats."""
    return max((_SAME[d] for d in dtypes if d in ("float16", "bfloat16")), default=0.0)


class Given:
    """A gradient as the framework gave it, by which a sweep is checked; of a large one, evenly spread entries."""

    def __init__(
        self, gradient: Any, array: Callable[[Any], Any], size: Callable[[Any], Size | None]
    ) -> None:
        whole = array(gradient)
        self._array, self.dtype, self._shape = array, gradient.dtype.name, whole.shape
        self._stride = 1 if whole.size <= _WHOLE else _STRIDE
        self.size, self.sketch = size(gradient), sketch_of(whole)
        self._kept = whole if self._stride == 1 else whole.ravel()[:: self._stride].copy()

    def gap(self, swept: Any, size: Size | None) -> Gap | None:
        """How far the gradient of a sweep is from it; `None` where they are the same."""
        one = None if swept is None else self._array(swept)
        if one is None or one.shape != self._shape:
            return Gap(np.inf, 0.0, self.dtype)
        one, other = one.ravel()[:: self._stride], self._kept.ravel()
        if _are_equal(one, other) and (self._stride == 1 or size == self.size):
            return None
        wide = np.complex128 if np.iscomplexobj(one) else np.float64
        one, other = one.astype(wide), other.astype(wide)
        scale = np.max(np.abs(other[np.isfinite(other)]), initial=0.0)
        apart = ~((one == other) | (np.isnan(one) & np.isnan(other)))
        with np.errstate(invalid="ignore"):
            distance = np.max(np.abs(one[apart] - other[apart]), initial=_distance(size, self.size))
        return Gap(float(distance), float(scale), self.dtype)


def _distance(one: Size | None, other: Size | None) -> float:
    """How far two gradients of these sizes are apart at least."""
    if one is None or other is None:
        return 0.0
    if (one.nan, one.inf) != (other.nan, other.inf):
        return np.inf
    norms = abs(one.norm - other.norm) / max(one.count, 1) ** 0.5
    return max(norms, abs(one.max - other.max))


def _are_equal(one: Any, other: Any) -> bool:
    starts = range(0, one.size, BLOCK)
    return all(np.array_equal(one[k : k + BLOCK], other[k : k + BLOCK]) for k in starts)


def behind(events: Sequence[Event], values: Iterable[int]) -> set[int]:
    """The values of a run that these were made of."""
    found = set(values)
    for event in reversed(events):
        if not found.isdisjoint(event.outputs):
            found.update(event.inputs)
    return found


def made_of(events: Iterable[Event], values: Iterable[int]) -> set[int]:
    """The values of a run that were made of these."""
    found = set(values)
    for event in events:
        if not found.isdisjoint(event.inputs):
            found.update(event.outputs)
    return found
