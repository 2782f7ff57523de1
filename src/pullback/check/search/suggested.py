"""What the given arguments suggest of where a function is meant to be run; points that are made up keep to it.

Signs, whole numbers, sorted rows, rows that sum to one or have length one, and pairs of inputs of which one is always
below the other. A sign is left only where the program itself branches on it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pullback.check import numbers as n
from pullback.check.probe import Array
from pullback.check.subject import Layout

Keep = Callable[[Array], Array]
_BOUNDS = re.compile(
    r"(^|_)(lo|low|lower|hi|high|upper|min|max|minimum|maximum|start|stop|end|left|right)(_|$|\d)"
)


@dataclass(frozen=True)
class Suggested:
    """Properties by leaf, each as the function that gives an array it, and pairs of leaves in order."""

    layout: Layout
    keeps: tuple[tuple[Keep, ...], ...]
    ordered: tuple[tuple[int, int, float], ...]

    def into(self, x: Array) -> Array:
        """The point, or one near it that has the properties of the given one."""
        if not any(self.keeps) and not self.ordered:
            return x
        parts = self.layout.split(x)
        for k, keeps in enumerate(self.keeps):
            for keep in keeps:
                parts[k] = keep(parts[k])
        return self.in_order(self.layout.join(parts).copy())

    def in_order(self, x: Array) -> Array:
        """The point with what is always below the other below the other."""
        parts = self.layout.split(x)
        for low, high, apart in self.ordered:
            parts[low], parts[high] = _in_order(parts[low], parts[high], apart)
        return self.layout.join(parts).copy() if self.ordered else x

    def describe(self) -> list[str]:
        """What is kept, in words."""
        leaves = self.layout.leaves
        texts = [
            f"{leaf.name} {', '.join(_WORDS[keep] for keep in keeps)}"
            for leaf, keeps in zip(leaves, self.keeps, strict=True)
            if keeps
        ]
        return texts + [f"{leaves[a].name} < {leaves[b].name}" for a, b, _ in self.ordered]


def suggested_by(layout: Layout, start: Array, *, signs: bool) -> Suggested:
    """The properties of the given arguments; `signs` tells whether those are kept."""
    parts = layout.split(start)
    keeps = tuple(
        () if leaf.is_complex or leaf.kind == "variable" else _properties(part, signs)
        for leaf, part in zip(layout.leaves, parts, strict=True)
    )
    return Suggested(layout, keeps, tuple(_ordered(layout, parts)))


def _properties(part: Array, signs: bool) -> tuple[Keep, ...]:
    found = []
    if part.size == 0 or not np.isfinite(part).all():
        return ()
    if signs and (part >= 0).all():
        found.append(_positive)
    elif signs and (part <= 0).all():
        found.append(_negative)
    rows = part.ndim > 0 and part.shape[-1] >= n.SEVERAL
    if rows and _close(np.sum(part, -1)) and (part >= 0).all():
        return (*found, _summing_to_one)
    if rows and _close(np.sum(part**2, -1)):
        return (*found, _of_length_one)
    if (
        rows
        and part.shape[-1] > n.SEVERAL
        and (np.diff(part, axis=-1) >= 0).all()
        and np.ptp(part) > 0
    ):
        return (*found, _sorted)
    if (part == np.round(part)).all() and part.size >= n.SEVERAL and np.ptp(part) > 0:
        return (*found, _whole)
    return tuple(found)


def _close(values: Array) -> bool:
    return bool(np.all(np.abs(values - 1) < n.UNIT_SUM))


def _positive(part: Array) -> Array:
    return np.abs(part)


def _negative(part: Array) -> Array:
    return -np.abs(part)


def _whole(part: Array) -> Array:
    return np.round(part)


def _sorted(part: Array) -> Array:
    return np.sort(part, axis=-1)


def _summing_to_one(part: Array) -> Array:
    part = np.abs(part)
    total = np.sum(part, -1, keepdims=True)
    return np.where(total > 0, part / np.where(total > 0, total, 1), 1 / part.shape[-1])


def _of_length_one(part: Array) -> Array:
    length = np.sqrt(np.sum(part**2, -1, keepdims=True))
    return np.where(length > 0, part / np.where(length > 0, length, 1), part.shape[-1] ** -0.5)


_WORDS: dict[Keep, str] = {
    _positive: "positive",
    _negative: "negative",
    _whole: "whole numbers",
    _sorted: "sorted",
    _summing_to_one: "summing to one",
    _of_length_one: "of length one",
}


def _ordered(layout: Layout, parts: Sequence[Array]) -> list[tuple[int, int, float]]:
    """Pairs of inputs of one shape, one below the other throughout, and how far: in many places, or by their names."""
    found = []
    for a, one in enumerate(parts):
        for b, other in enumerate(parts):
            if a == b or one.shape != other.shape or not _is_plain(layout, a, b):
                continue
            many = one.size > n.SEVERAL or all(
                _BOUNDS.search(layout.leaves[k].name) for k in (a, b)
            )
            if many and (one < other).all():
                found.append((a, b, float(np.median(other - one))))
    return found


def _is_plain(layout: Layout, *which: int) -> bool:
    return not any(
        layout.leaves[k].is_complex or layout.leaves[k].kind == "variable" for k in which
    )


def _in_order(low: Array, high: Array, apart: float) -> tuple[Array, Array]:
    half = np.where(low == high, apart / 2, 0.0)
    return np.minimum(low, high) - half, np.maximum(low, high) + half
