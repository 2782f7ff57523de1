"""Points at which the comparisons of a program turn, where what is compared was computed from the arguments.

Newton's method leads from the given arguments to where a margin is zero: along the entry that moves it most, and where
that does not lead there along its gradient. A comparison for equality is met exactly there, another a little beyond.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pullback.check import numbers as n
from pullback.check.probe import Array, OutsideDomain
from pullback.check.search.directions import leaf_scales
from pullback.check.search.points import Kind, Point
from pullback.check.subject import JoinedMargins, Layout


def turns(margins: JoinedMargins, layout: Layout, start: Array) -> Iterator[Point]:
    """Few points, in each of which as many comparisons turn as do not disturb each other."""
    scale = leaf_scales(layout, start)
    here, merged = margins.values(start), list[list[_Turned]]()
    for which, margin in enumerate(here[: n.FEW]):
        if margin.size and not _is_met(margin, margins.exact[which]):
            found = _found(margins, which, margin, scale, start)
            if found is not None and not any(_joined(margins, group, found) for group in merged):
                merged.append([found])
    for group in merged:
        x = _of_all(group)
        yield Point(Kind.AT_TURNS, x, x != start)


def _found(
    margins: JoinedMargins, which: int, margin: Array, scale: Array, start: Array
) -> "_Turned | None":
    """Where the entry turns that is nearest to it; nothing if the way there leads out of the domain."""
    entry = int(np.argmin(np.where(np.isfinite(margin), np.abs(margin), np.inf)))
    try:
        return _Search(margins, which, entry, scale).turned(start, float(margin[entry]))
    except OutsideDomain:
        return None


def _is_met(margin: Array, exact: bool) -> bool:
    """Whether the given arguments themselves show both outcomes."""
    return bool((margin == 0).any() if exact else (margin > 0).any() and (margin < 0).any())


@dataclass(frozen=True)
class _Turned:
    """A point at which an entry of a margin is zero, or not of the sign that it was."""

    which: int
    entry: int
    start: Array
    x: Array
    margin: float

    def holds(self, margins: list[Array]) -> bool:
        """Whether it still does at another point."""
        return bool(np.sign(margins[self.which][self.entry]) == np.sign(self.margin))


def _joined(margins: JoinedMargins, group: list[_Turned], one: _Turned) -> bool:
    """Whether a point can be part of a group: all that turn in it still do."""
    if any(((one.x != one.start) & (other.x != other.start)).any() for other in group):
        return False
    try:
        values = margins.values(_of_all([*group, one]))
    except OutsideDomain:
        return False
    if not all(each.holds(values) for each in [*group, one]):
        return False
    group.append(one)
    return True


def _of_all(group: list[_Turned]) -> Array:
    x = group[0].x
    for one in group[1:]:
        x = np.where(one.x != one.start, one.x, x)
    return x


class _Search:
    """The way to where one entry of a margin turns."""

    def __init__(self, margins: JoinedMargins, which: int, entry: int, scale: Array) -> None:
        self.margins, self.which, self.entry, self.scale = margins, which, entry, scale
        self.exact = margins.exact[which]

    def turned(self, start: Array, margin: float) -> _Turned | None:
        """The point, if it is found."""
        root = self._root(start, margin)
        if root is not None and not root[root != start].any():
            # zeros are gone to anyway: where it is zero besides
            other = np.where(root != start, n.FEW * self.scale, start)
            besides = self._root(other, self._value(other))
            root = root if besides is None else besides
        if root is not None and self.exact and self._value(root) != 0:
            # numbers of few digits, whose sums are exact
            unit = 2.0 ** np.round(np.log2(self.scale)) * self.margins.epsilon**0.5
            coarse = np.round(start / unit) * unit
            exactly = self._root(coarse, self._value(coarse))
            root = root if exactly is None else exactly
        if root is None or self.exact:
            return None if root is None else self._made(start, root, self._value(root))
        for k in range(1, n.FEW):
            # once a step leads beyond, half of it: it may have led nearly out again
            far, near = (
                self._rounded(start + (1 + step) * (root - start))
                for step in (n.NEAR**k, n.NEAR**k / 2)
            )
            if self._value(far) * margin < 0:
                there = self._value(near)
                return self._made(start, near, there) if there * margin < 0 else None
        return None

    def _made(self, start: Array, x: Array, margin: float) -> _Turned:
        return _Turned(self.which, self.entry, start, x, margin)

    def _root(self, x: Array, margin: float) -> Array | None:
        slope = self.margins.slope(x, self.which, self.entry)
        if not np.isfinite(slope).all() or not slope.any() or not np.isfinite(margin):
            return None
        found = self._along_entry(x, margin, slope)
        return self._along_gradient(x, margin, slope) if found is None else found

    def _along_entry(self, x: Array, margin: float, slope: Array) -> Array | None:
        """By secants, in the entry that moves the margin most for its size."""
        j = int(np.argmax(np.abs(slope) * self.scale))
        steep, rounding = float(slope[j]), 0.0
        for _ in range(n.FEW):
            there = x.copy()
            there[j] -= margin / steep
            there = self._rounded(there)
            moved, after = float(there[j] - x[j]), self._value(there)
            rounding = n.UNITS * self.margins.epsilon * abs(steep * there[j])
            if after == 0 or (abs(after) <= rounding and not self.exact) or moved == 0:
                return there if abs(after) <= rounding else None
            if not abs(after) < max(abs(margin), rounding):
                return None
            if abs(after) > rounding:
                steep = (after - margin) / moved
            x, margin = there, after
        return x if abs(margin) <= rounding else None

    def _along_gradient(self, x: Array, margin: float, slope: Array) -> Array | None:
        """By Newton's steps of least size, the last of them in one entry where the margin must be zero exactly."""
        first = abs(margin)
        for _ in range(n.FEW):
            steps = self.scale**2 * slope
            x = self._rounded(x - margin * steps / np.sum(slope * steps))
            margin = self._value(x)
            if not abs(margin) < first:
                return None
            slope = self.margins.slope(x, self.which, self.entry)
            if not np.isfinite(slope).all() or not slope.any():
                return None
            if abs(margin) <= n.ROUNDINGS * self.margins.epsilon * np.sum(np.abs(slope * x)):
                return self._along_entry(x, margin, slope) if self.exact and margin else x
        return None

    def _value(self, x: Array) -> float:
        return float(self.margins.values(x)[self.which][self.entry])

    def _rounded(self, x: Array) -> Array:
        """As the margins see it."""
        return x if self.margins.epsilon < n.LONG_FORMAT else x.astype(np.float32).astype(x.dtype)
