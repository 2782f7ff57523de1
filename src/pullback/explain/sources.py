"""What one can ask about while it is put together, and whether a sweep agrees with the framework on its gradient."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np

from pullback.explain.flow import Place, Size, Source
from pullback.explain.recording import Numbers
from pullback.program.run import Event

# Two sums of the same numbers in another order differ by no more than this, relative to the largest.
_SAME = {"float64": 1e-9, "complex128": 1e-9, "float16": 3e-2, "bfloat16": 1e-1}
_SAME_FLOAT32 = 1e-3
NOT_WATCHED, NOT_TRAINABLE, FROZEN = "not watched", "not trainable", "frozen layer"
ASSIGNED, READ_BEFORE = "assigned inside", "read before"
ZEROS = "zeros in traced code"  # where a framework gives zeros in place of nothing


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
    moves: bool | None = None
    place: Place | None = None
    hints: list[str] = dataclasses.field(default_factory=list[str])

    def to_source(self, numbers: Numbers) -> Source:
        """The source as data."""
        return Source(
            self.name, self.kind, numbers(self.values), self.shape, self.dtype, self.gradient, self.layer,
            self.trainable, self.moves, self.place, tuple(self.hints),
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


def gap(swept: Any, truth: Any, array: Callable[[Any], Any]) -> Gap | None:
    """How far a gradient is from the framework's own; `None` where they are the same."""
    if swept is None or truth is None:
        return None if swept is truth else Gap(np.inf, 0.0, "")
    one, other = array(swept), array(truth)
    dtype = truth.dtype.name
    if one.shape != other.shape:
        return Gap(np.inf, 0.0, dtype)
    if np.array_equal(one, other):
        return None
    wide = np.complex128 if np.iscomplexobj(one) else np.float64
    one, other = one.astype(wide), other.astype(wide)
    scale = np.max(np.abs(other[np.isfinite(other)]), initial=0.0)
    apart = ~((one == other) | (np.isnan(one) & np.isnan(other)))
    with np.errstate(invalid="ignore"):
        distance = np.max(np.abs(one[apart] - other[apart]), initial=0.0)
    return Gap(float(distance), float(scale), dtype)


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
