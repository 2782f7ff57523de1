"""Derivatives along a line by central differences, each output with its own error bar.

Steps form a geometric ladder; Neville's scheme extrapolates them to step zero; the error bar is
Ridders': how far neighbouring entries of the table disagree, plus what rounding can do at that
step. There is no tolerance to choose.

Long vectors are judged by a sample while steps are taken, and worked out block by block at the
end: what fits the processor's cache costs a tenth of what has to be fetched for every operation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pullback.check import numbers as n
from pullback.check.probe import Array
from pullback.check.probe.vectors import blocks

Line = Callable[[float], Sequence[Array]]
Part = slice | Array
# the size of values in which rounding happens, for a part of a vector
Scale = Callable[[Part], Array | float]


@dataclass(frozen=True)
class Plan:
    """First step, ratio of steps, least and most number of steps, the relative error that suffices."""

    first: float
    ratio: float
    least: int
    most: int
    enough: float


@dataclass(frozen=True)
class Slope:
    """Derivative and error bar per output; the bar is infinite where nothing could be found out."""

    value: Array
    error: Array


def plan_for(epsilon: float, *, brief: bool = False) -> Plan:
    """Accurate, for points where every error is to be found; `brief` where a rule is right or grossly wrong."""
    ratio = 4.0 if epsilon < n.LONG_FORMAT else 2.0
    if brief:
        return Plan(epsilon**n.FIRST_STEP_BRIEF, ratio, *n.LEVELS_BRIEF, epsilon ** (n.ENOUGH / 2))
    return Plan(epsilon**n.FIRST_STEP, ratio, *n.LEVELS, epsilon**n.ENOUGH)


def slopes(line: Line, plan: Plan, epsilon: float, scales: Sequence[Scale]) -> tuple[Slope, ...]:
    """D line / dt at zero for each of the vectors that `line` gives.

    There is a scale for each vector. The first vector decides how many steps are taken.
    """
    step, ladders = plan.first, [_Ladder(plan.ratio, epsilon, scale) for scale in scales]
    with np.errstate(all="ignore"):
        for level in range(plan.most):
            above, below = line(step), line(-step)
            for ladder, high, low in zip(ladders, above, below, strict=True):
                ladder.climb(high, low, step)
            del above, below
            if level + 1 >= plan.least and ladders[0].settled(plan.enough):
                break
            step /= plan.ratio
        return tuple(ladder.slope() for ladder in ladders)


class _Ladder:
    """The quotients of one vector so far, and the table of a sample of it."""

    def __init__(self, ratio: float, epsilon: float, scale: Scale) -> None:
        self.ratio, self.epsilon, self.scale = ratio, epsilon, scale
        self.quotients: list[Array] = []
        self.units: list[float] = []
        self.table = _Table(ratio)

    def climb(self, above: Array, below: Array, step: float) -> None:
        """Take in the values at the next step to either side."""
        if not self.quotients:
            self.size, self.sample = np.empty(above.size), _sample(above.size)
        quotient = _quotient(above, below, step, self.size)
        self.quotients.append(quotient)
        self.units.append(self.epsilon / step)
        some = slice(None) if self.sample is None else self.sample
        self.table.add(quotient[some], self.size[some], self._rounding(some, -1))

    def settled(self, enough: float) -> bool:
        """Whether hardly any entry would gain by a further step, which has more rounding in it."""
        table = self.table
        wanted = enough * (np.abs(table.best) + table.size)
        unsettled = table.error > np.maximum(wanted, 2 * self.ratio * table.rounding)
        improving = unsettled & ((table.error < 0.5 * table.before) | ~np.isfinite(table.error))
        return bool(np.count_nonzero(improving) <= n.FEW_UNSETTLED * improving.size)

    def slope(self) -> Slope:
        """Derivative and error bar of every entry."""
        if self.sample is None:
            return Slope(self.table.best, self.table.error)
        value, error = self.quotients[:2]  # their room is used again
        for block in blocks(self.size.size):
            table = _Table(self.ratio, self.table.floors)
            for level, quotient in enumerate(self.quotients):
                table.add(quotient[block], self.size[block], self._rounding(block, level))
            value[block], error[block] = table.best, table.error
        return Slope(value, error)

    def _rounding(self, part: Part, level: int) -> Array:
        return self.units[level] * (self.size[part] + self.scale(part))


class _Table:
    """The last row of Neville's table, the best entry so far and its error bar.

    No bar may be far below what its neighbours reach, lest it came out small by chance: `floors`
    are the least relative bars, entry of the table by entry, measured here unless they are given.
    """

    def __init__(self, ratio: float, floors: list[float] | None = None) -> None:
        self.ratio = ratio
        self.given = None if floors is None else iter(floors)
        self.floors: list[float] = []
        self.row: list[Array] = []
        self.best = self.error = self.before = self.size = self.rounding = np.empty(0)

    def add(self, entry: Array, size: Array, rounding: Array) -> None:
        """Extend the table by the quotient of the next step."""
        if not self.row:
            self.best, self.error = entry, np.full(entry.shape, np.inf)
        self.before, self.size, self.rounding, factor = self.error, size, rounding, 1.0
        for k in range(len(self.row)):
            factor *= self.ratio * self.ratio
            better = entry - self.row[k]
            better /= factor - 1
            better += entry
            self._judge(better, entry, self.row[k])
            self.row[k], entry = entry, better
        if len(self.row) < n.LEVELS[0]:
            self.row.append(entry)

    def _judge(self, entry: Array, left: Array, above: Array) -> None:
        bar = np.abs(entry - left)
        np.maximum(bar, np.abs(entry - above), out=bar)
        bar += self.rounding
        reach = np.abs(entry)
        reach += self.size
        reach *= self._floor(bar, reach)
        np.fmax(bar, reach, out=bar)
        wins = bar < self.error
        self.best = np.where(wins, entry, self.best)
        self.error = np.where(wins, bar, self.error)

    def _floor(self, bar: Array, reach: Array) -> float:
        """The relative bar that a quarter of the entries stay below."""
        if self.given is not None:
            return next(self.given)
        relative = bar / reach
        known = relative[np.isfinite(relative)]
        quarter = known.size // 4
        floor = float(np.partition(known, quarter)[quarter]) if known.size >= 8 else 0.0
        self.floors.append(floor)
        return floor


def _sample(size: int) -> Array | None:
    return None if size <= n.SHORT_VECTOR else np.random.default_rng(0).integers(0, size, n.SAMPLE)


def _quotient(above: Array, below: Array, step: float, size: Array) -> Array:
    """The quotient; `size` becomes the size of the values it was made of."""
    out = np.empty(above.size)
    for block in blocks(above.size):
        high, low, part = above[block], below[block], out[block]
        np.subtract(high, low, out=part)
        part /= 2 * step
        np.maximum(np.abs(high), np.abs(low), out=size[block])
    return out
