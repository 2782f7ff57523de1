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
    """d line / dt at zero. `scale` is the size of values in which rounding happens.

    The first `lead` entries decide how many steps are taken and are judged among themselves;
    all entries are one group when it is left out.
    """
    step, row = plan.first, list[Array]()
    best = error = size = np.empty(0)
    for level in range(plan.most):
        with np.errstate(all="ignore"):
            above, below = line(step), line(-step)
            size = np.maximum(np.abs(above), np.abs(below))
            row, last = _row(row, (above - below) / (2 * step), plan.ratio), row
            if level == 0:
                best, error = row[0], np.full(size.shape, np.inf)
            else:
                before = error
                rounding = epsilon * (size + scale) / step
                best, error = _best(last, row, best, error, rounding, size, lead)
                deciding = (entry[:lead] for entry in (best, before, error, size))
                if level + 1 >= plan.least and _settled(*deciding, enough=plan.enough):
                    break
        step /= plan.ratio
    return Slope(best, error)


def _row(previous: list[Array], first: Array, ratio: float) -> list[Array]:
    row, factor = [first], 1.0
    for entry in previous[:3]:
        factor *= ratio * ratio
        row.append(row[-1] + (row[-1] - entry) / (factor - 1))
    return row


def _best(
    previous: list[Array], row: list[Array], best: Array, error: Array, rounding: Array, size: Array,
    lead: int | None,
) -> tuple[Array, Array]:
    for k in range(1, len(row)):
        entry = row[k]
        bar = np.maximum(np.abs(entry - row[k - 1]), np.abs(entry - previous[k - 1])) + rounding
        magnitude = np.abs(entry) + size
        bar[:lead] = _pooled(bar[:lead], magnitude[:lead])
        if lead is not None:
            bar[lead:] = _pooled(bar[lead:], magnitude[lead:])
        better = bar < error
        best, error = np.where(better, entry, best), np.where(better, bar, error)
    return best, error


def _settled(best: Array, before: Array, error: Array, size: Array, enough: float) -> bool:
    unsettled = error > enough * (np.abs(best) + size)
    improving = unsettled & ((error < 0.5 * before) | ~np.isfinite(error))
    return float(np.mean(improving)) < FEW


def _pooled(bar: Array, magnitude: Array) -> Array:
    """Raise bars that came out small by chance: none is far below what its neighbours reach."""
    some = slice(None, None, max(1, bar.size // SAMPLE))
    relative = bar[some] / magnitude[some]
    known = relative[np.isfinite(relative)]
    if known.size < 8:
        return bar
    return np.fmax(bar, np.quantile(known, 0.25) * magnitude)
