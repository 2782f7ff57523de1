"""How noisy a function is: what remains of its values when all that is smooth is taken away.

High differences of equally spaced values are next to nothing where a function is smooth, and keep
their size where its values are rounded, cancelled or computed in a shorter format inside.
"""

from collections.abc import Callable
from math import comb

import numpy as np

from pullback.check.probe import Array

ORDERS = (4, 5, 6)
POINTS = 9
# few differences of one entry tell its noise to within such a factor
SAFETY = 3.0
CHAOS = 0.05


def noise_of(at: Callable[[float], Array], scale: Array, spacing: float) -> Array:
    """The noise of every entry of `at` next to zero, none far below what is usual among them.

    `scale` is the size of values by which entries are compared. Values that jump about like chaos
    say nothing of a derivative: their noise is infinite.
    """
    level, size = _levels(at, scale, spacing)
    found = SAFETY * np.fmax(level, _usual(level, size) * size)
    return np.where(found > CHAOS * size, np.inf, found)


def usual_noise(
    at: Callable[[float], Array], scale: Array, spacing: float, still: float = 0.0
) -> float:
    """The noise that half of the entries stay below, relative to their size.

    `still` is what an entry counts for that does not move at all.
    """
    level, size = _levels(at, scale, spacing)
    return SAFETY * _usual(np.where(level == 0, still, level), size)


def _levels(at: Callable[[float], Array], scale: Array, spacing: float) -> tuple[Array, Array]:
    # to one side: a kink here is no noise
    values = np.stack([at(k * spacing) for k in range(POINTS)])
    with np.errstate(all="ignore"):
        level = np.min([_level(values, order) for order in ORDERS], axis=0)
    return level, np.abs(values[0]) + scale


def _usual(level: Array, size: Array) -> float:
    with np.errstate(all="ignore"):
        relative = level / size
    known = relative[(size > 0) & ~np.isnan(relative)]
    return float(np.median(known)) if known.size else 0.0


def _level(values: Array, order: int) -> Array:
    """The size of independent errors that would make differences of this order as they are."""
    differences = np.diff(values, n=order, axis=0)
    return np.sqrt(np.mean(differences**2, axis=0) / comb(2 * order, order))
