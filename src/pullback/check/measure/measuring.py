"""Derivatives of chosen entries from either side, with the noise of the function in their error bars."""

from collections.abc import Callable

import numpy as np

from pullback.check.measure.noise import noise_of, usual_noise
from pullback.check.measure.sides import Sides, extrapolated
from pullback.check.measure.trial import Trial
from pullback.check.probe import Array, OutsideDomain
from pullback.check.probe.flat import Subject
from pullback.check.search.directions import generic

SAMPLE = 1_000
SPACING = 3e-5
# functions with less noise than this can be measured with very short steps
CLEAN = 1e-13


def measure(subject: Subject, trial: Trial, chosen: Array, reach: float = 1.0) -> Sides:
    """Both one-sided derivatives and the central one at the chosen entries."""
    coarse = subject.epsilon > 1e-10
    steps = [2.0 ** -(2 + k) if coarse else reach * 4.0**-k / 110 for k in range(4)]
    at, scale = entries(subject, trial, chosen), scales(subject, trial, chosen)
    centre = at(0.0)
    above, below = [at(h) for h in steps], [at(-h) for h in steps]
    unit = unit_of(subject) if trial.order == 1 and reach == 1.0 else subject.epsilon
    size = np.fmax(unit * (np.abs(centre) + scale), noise_of(at, scale, reach * SPACING))
    with np.errstate(all="ignore"):
        middle = [(a - b) / (2 * h) for a, b, h in zip(above, below, steps, strict=True)]
        right = [(a - centre) / h for a, h in zip(above, steps, strict=True)]
        left = [(centre - b) / h for b, h in zip(below, steps, strict=True)]
    return Sides(
        central=extrapolated(middle, steps, size, 2),
        right=extrapolated(right, steps, 2 * size, 1),
        left=extrapolated(left, steps, 2 * size, 1),
    )


def unit_of(subject: Subject, spacing: float = SPACING) -> float:
    """The rounding unit of the function's values as measured where the user is, once.

    Where values hardly change, as near zero, a function that rounds inside looks flat, not noisy.
    """
    if spacing not in subject.noise:
        x = subject.start()
        u = generic(np.random.default_rng(3), subject.inputs, x)
        some = np.unique(np.linspace(0, subject.outputs.size - 1, SAMPLE).astype(int))
        try:
            found = usual_noise(
                lambda t: subject.value(x + t * u)[some],
                subject.scale[some],
                spacing,
                # what rounds inside does not move by short steps
                still=0.0 if spacing == SPACING else np.inf,
            )
        except OutsideDomain:
            found = 0.0
        subject.noise[spacing] = max(subject.epsilon, found)
    return subject.noise[spacing]


def is_clean(subject: Subject) -> bool:
    """Whether very short steps measure the function; kinks are less in the way of shorter ones."""
    return any(unit_of(subject, spacing) < CLEAN for spacing in (SPACING, SPACING / 100))


def entries(subject: Subject, trial: Trial, chosen: Array) -> Callable[[float], Array]:
    """The chosen entries of what the trial is about, along its line."""

    def at(t: float) -> Array:
        x = trial.x + t * trial.u
        if trial.order == 2:
            return subject.pull(x, trial.w)[1][chosen]
        y = subject.value(x)
        return y[chosen] if trial.whole else np.array([np.sum(y * trial.w)])

    return at


def scales(subject: Subject, trial: Trial, chosen: Array) -> Array:
    """The size of values in which rounding happens, at the chosen entries."""
    if trial.order == 2:
        r = trial.said.r
        return np.full(chosen.shape, np.sqrt(np.mean(np.where(np.isfinite(r), r, 0) ** 2)))
    if trial.whole:
        return subject.scale[chosen]
    return np.array([np.sqrt(np.sum((subject.scale * trial.w) ** 2))])
