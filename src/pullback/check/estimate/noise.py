"""How noisy a function is: what remains of its values when all that is smooth is taken away.

High differences of equally spaced values are next to nothing where a function is smooth, and keep
their size where its values are rounded, cancelled or computed in a shorter format inside.
"""

from math import comb

import numpy as np

from pullback.check import numbers as n
from pullback.check.estimate.interval import Line
from pullback.check.probe import Array

# The median of the size of normal numbers, in standard deviations.
_MEDIAN = 0.6745


def noise_along(line: Line, size: Array, epsilon: float) -> Array:
    """The noise of every entry to one side of the start; infinite where values jump like chaos."""
    found = n.NOISE_FACTOR * _level(line, epsilon)
    return np.where(found > n.COARSE * size, np.inf, found)


def usual_unit(line: Line, size: Array, epsilon: float) -> float:
    """The noise of half of the entries relative to their size: the function's own rounding unit."""
    with np.errstate(all="ignore"):
        relative = n.NOISE_FACTOR * _level(line, epsilon) / size
    known = relative[np.isfinite(relative)]
    return float(np.median(known)) if known.size else 0.0


def lasting_noise(line: Line, epsilon: float) -> Array:
    """The noise of wide spacings where it keeps its size at half of them, as that of stairs; else none."""
    wide, half = (
        _at_spacing(line, share * epsilon ** n.NOISE_SPACINGS[-1]) for share in (1.0, 0.5)
    )
    # smooth values would leave a sixteenth
    return np.where(half >= n.LASTING**2 * wide, n.NOISE_FACTOR * wide, 0.0)


def _level(line: Line, epsilon: float) -> Array:
    """The least noise of several spacings: what is steep looks noisy at the wide ones.

    A staircase is no quiet function: a spacing at which few of the values move, or all alike, does not count.
    """
    level = np.nan
    for power in n.NOISE_SPACINGS:
        level = np.fmin(level, _at_spacing(line, epsilon**power))
        if power < n.NOISE_SPACINGS[0] and not np.isnan(level).any():
            break
    return np.nan_to_num(level, nan=0.0, posinf=np.inf)


def _at_spacing(line: Line, spacing: float) -> Array:
    # to one side: a kink here is no noise
    values = np.stack([line(k * spacing) for k in range(n.NOISE_POINTS)])
    with np.errstate(all="ignore"):
        level = np.min([_of_order(values, order) for order in n.NOISE_ORDERS], axis=0)
        moves = np.mean(np.diff(values, axis=0) != 0, axis=0) >= n.LASTING
    return np.where(moves & (level > 0), level, np.nan)


def _of_order(values: Array, order: int) -> Array:
    """The size of independent errors that would make differences of this order as they are."""
    differences = np.abs(np.diff(values, n=order, axis=0))
    return np.median(differences, axis=0) / (_MEDIAN * np.sqrt(comb(2 * order, order)))
