"""Derivatives from the right and from the left: is the function smooth here, does it bend?"""

from dataclasses import dataclass

import numpy as np

from pullback.check.measure.trial import BARS
from pullback.check.probe import Array

Estimate = tuple[Array, Array]


@dataclass(frozen=True)
class Sides:
    """Central, right and left derivative, each with its error bar."""

    central: Estimate
    right: Estimate
    left: Estimate


def extrapolated(first: list[Array], steps: list[float], rounding: Array, power: int) -> Estimate:
    """Neville's scheme over quotients whose error starts with `power` and grows by it."""
    best, error = first[0], np.full(first[0].shape, np.inf)
    previous: list[Array] = []
    with np.errstate(all="ignore"):
        for k, start in enumerate(first):
            row = [start]
            for j in range(1, min(k, 3) + 1):
                factor = (steps[k - j] / steps[k]) ** power
                row.append(row[-1] + (row[-1] - previous[j - 1]) / (factor - 1))
                bar = np.maximum(np.abs(row[j] - row[j - 1]), np.abs(row[j] - previous[j - 1]))
                bar = bar + rounding / steps[k]
                better = bar < error
                best, error = np.where(better, row[j], best), np.where(better, bar, error)
            previous = row
    return best, error


def smooth(sides: Sides, gap: Array) -> Array:
    """Both sides agree, as far as they can be told and as the gap needs."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(sides.right[0] - sides.left[0])
        known = np.isfinite(sides.right[1]) & np.isfinite(sides.left[1])
        close = apart <= BARS * (sides.right[1] + sides.left[1])
        return known & (close | (apart < 0.02 * gap))


def bent(sides: Sides) -> Array:
    """The sides differ by more than their error bars: a kink."""
    with np.errstate(invalid="ignore"):
        bars = sides.right[1] + sides.left[1]
        return np.isfinite(bars) & (np.abs(sides.right[0] - sides.left[0]) > BARS * bars)


def outside(sides: Sides, claimed: Array) -> Array:
    """The claim lies beyond the span of the one-sided derivatives."""
    low = np.minimum(sides.right[0], sides.left[0])
    high = np.maximum(sides.right[0], sides.left[0])
    slack = 0.05 * (high - low) + BARS * (sides.right[1] + sides.left[1])
    return (claimed < low - slack) | (claimed > high + slack)
