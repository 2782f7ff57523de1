"""Derivatives along a line by central differences, each output with its own error bar.

Steps form a geometric ladder; Neville's scheme extrapolates them to step zero; the error bar is
Ridders': how far neighbouring entries of the table disagree, plus what rounding can do at that
step. There is no tolerance to choose. Only the last row of the table is kept.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pullback.check.probe import Array

Line = Callable[[float], Array]

# share of entries (such as those next to a kink) that may stay unsettled without more steps
FEW = 0.005
# entries looked at for what is a typical error bar
SAMPLE = 4096
COLUMNS = 3


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


def generic_plan(epsilon: float) -> Plan:
    """Accurate: for points where every error is to be found."""
    if epsilon > 1e-4:
        return Plan(first=1 / 2, ratio=2, least=3, most=4, enough=0.05)
    if epsilon > 1e-10:
        return Plan(first=1 / 8, ratio=2, least=4, most=6, enough=1e-5)
    return Plan(first=1 / 64, ratio=4, least=4, most=8, enough=1e-12)


def brief_plan(epsilon: float) -> Plan:
    """Cheap: for the many points where a rule is right or grossly wrong."""
    if epsilon > 1e-10:
        return generic_plan(epsilon)
    return Plan(first=1 / 256, ratio=4, least=3, most=6, enough=1e-8)


def slope(
    line: Line, plan: Plan, epsilon: float, scale: Array | float, lead: int | None = None
) -> Slope:
    """D line / dt at zero. `scale` is the size of values in which rounding happens.

    The first `lead` entries decide how many steps are taken and are judged among themselves;
    all entries are one group when it is left out.
    """
    table = _Table(plan.ratio, lead)
    step = plan.first
    with np.errstate(all="ignore"):
        for level in range(plan.most):
            quotient, size = _quotient(line, step)
            before = table.error[:lead].copy()
            table.add(quotient, size, epsilon * (size + scale) / step)
            if level + 1 >= plan.least:
                now = (table.best[:lead], before, table.error[:lead], size[:lead])
                if _settled(*now, enough=plan.enough):
                    break
            step /= plan.ratio
    return Slope(table.best, table.error)


def _quotient(line: Line, step: float) -> tuple[Array, Array]:
    above, below = line(step), line(-step)
    size = np.maximum(np.abs(above), np.abs(below))
    quotient = above - below
    quotient /= 2 * step
    return quotient, size


class _Table:
    """The last row of Neville's table, the best entry so far and its error bar; all in place."""

    def __init__(self, ratio: float, lead: int | None) -> None:
        self.ratio, self.lead = ratio, lead
        self.row: list[Array] = []
        self.best = self.error = np.empty(0)

    def add(self, entry: Array, size: Array, rounding: Array) -> None:
        """Extend the table by the quotient of the next step."""
        if not self.row:
            self.best, self.error = entry.copy(), np.full(entry.shape, np.inf)
        factor = 1.0
        for k in range(len(self.row)):
            factor *= self.ratio * self.ratio
            better = entry - self.row[k]
            better /= factor - 1
            better += entry
            self._judge(better, entry, self.row[k], size, rounding)
            self.row[k], entry = entry, better
        if len(self.row) < COLUMNS:
            self.row.append(entry)

    def _judge(self, entry: Array, left: Array, above: Array, size: Array, rounding: Array) -> None:
        bar = np.abs(entry - left)
        np.maximum(bar, np.abs(entry - above), out=bar)
        bar += rounding
        for part in (slice(0, self.lead), slice(self.lead, None) if self.lead else slice(0, 0)):
            _raise(bar[part], entry[part], size[part])
        wins = bar < self.error
        np.copyto(self.best, entry, where=wins)
        np.copyto(self.error, bar, where=wins)


def _settled(best: Array, before: Array, error: Array, size: Array, enough: float) -> bool:
    unsettled = error > enough * (np.abs(best) + size)
    improving = unsettled & ((error < 0.5 * before) | ~np.isfinite(error))
    return float(np.mean(improving)) < FEW


def _raise(bar: Array, entry: Array, size: Array) -> None:
    """Raise bars that came out small by chance: none is far below what its neighbours reach."""
    some = slice(None, None, max(1, bar.size // SAMPLE))
    relative = bar[some] / (np.abs(entry[some]) + size[some])
    known = relative[np.isfinite(relative)]
    if known.size >= 8:
        np.fmax(bar, np.quantile(known, 0.25) * (np.abs(entry) + size), out=bar)
