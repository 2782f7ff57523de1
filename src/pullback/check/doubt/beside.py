"""Claims that are limits of derivatives: right wherever a function has no derivative of its own."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pullback.check.doubt.confirm import Doubt
from pullback.check.measure.measuring import entries, unit_of
from pullback.check.measure.trial import BARS, Trial
from pullback.check.probe import Array
from pullback.check.probe.flat import Subject
from pullback.check.search.directions import generic

# more places beside a point, tried as long as a claim is not among the derivatives there
MORE = 24
# with more noise than this, steps right beside a point measure nothing else
QUIET = 1e-9


def without_limits(subject: Subject, trial: Trial, found: Doubt) -> Doubt:
    """Dismiss claims that are limits of derivatives right beside this point.

    Where entries are tied or at a kink, the way in which a rule breaks the tie is its own affair.
    Elsewhere only gross errors are doubted so, and only next to the point: entries may be tied to
    within more digits than any step can tell.
    """
    if not found.wrong.size:
        return found
    placed = trial.held is not None
    if placed or found.at_kink:
        found = _generalised(subject, trial, found, _beside(trial))
        if found.wrong.size and placed and not found.at_kink:
            right = found.wrong[has_derivative(subject, trial, found.wrong)]
            return replace(found, wrong=right)
        return found
    value = np.abs(trial.slope.value[found.wrong])
    if unit_of(subject) < QUIET and np.all(trial.gap[found.wrong] > 1e-2 * value):
        return _generalised(subject, trial, found, _right_beside(trial))
    return found


def has_derivative(subject: Subject, trial: Trial, chosen: Array) -> Array:
    """Whether derivatives along directions add up, as they do where there is a derivative at all."""
    rng = np.random.default_rng(2)
    one, two = (generic(rng, subject.inputs, trial.x) for _ in range(2))
    step, centre = 1e-5, entries(subject, trial, chosen)(0.0)
    right, left = [], []
    for u in (one, two, one + two):
        at = entries(subject, replace(trial, u=u), chosen)
        right.append((at(step) - centre) / step)
        left.append((centre - at(-step)) / step)
    # from one side only: what is even about this point adds up to zero in the middle
    return _add_up(right, 1e-2) & _add_up([(a + b) / 2 for a, b in zip(right, left, strict=True)])


def _add_up(slopes: list[Array], share: float = 1e-3) -> Array:
    gap = np.abs(slopes[2] - slopes[0] - slopes[1])
    return gap <= share * (np.abs(slopes[0]) + np.abs(slopes[1]) + np.abs(slopes[2])) + 1e-9


def _generalised(
    subject: Subject, trial: Trial, found: Doubt, aside: Iterator[tuple[Array, float]]
) -> Doubt:
    """Dismiss claims within the span of derivatives at other points."""
    claimed = trial.claimed[found.wrong]
    low, high = np.full(claimed.shape, np.inf), np.full(claimed.shape, -np.inf)
    noise, right = 0.0, np.zeros(claimed.shape, bool)
    for shift, step in aside:
        at = entries(subject, replace(trial, x=trial.x + shift), found.wrong)
        value = (at(step) - at(-step)) / (2 * step)
        low, high = np.fmin(low, value), np.fmax(high, value)
        noise = np.maximum(noise, subject.epsilon * np.abs(at(0.0)) / step)
        slack = 0.02 * (high - low) + 1e-4 * (np.abs(low) + np.abs(high)) + BARS * noise
        told = BARS * noise < 0.2 * trial.gap[found.wrong]
        right = told & (claimed >= low - slack) & (claimed <= high + slack)
        if right.all():
            break
    kinks = np.concatenate([found.kinks, found.wrong[right]])
    return replace(found, wrong=found.wrong[~right], kinks=kinks)


def _beside(trial: Trial) -> Iterator[tuple[Array, float]]:
    """Ways to step aside from a placed point, with a step that keeps the order so reached."""
    size, scale = trial.x.size, _length(trial)
    ramp = np.linspace(0.1, 1.0, size)
    for kind in (np.ones(size), np.random.default_rng(1).normal(size=size)):
        for sign in (1, -1):
            yield 1e-2 * scale * sign * kind, 1e-9
    for reach, step in ((1e-2, 1e-9), (1e-4, 1e-10), (1e-6, 1e-11)):
        for kind in (ramp, ramp[::-1]):
            yield reach * scale * kind, step
    rng = np.random.default_rng(7)
    for _ in range(MORE):
        yield 1e-2 * scale * rng.normal(size=size), 1e-9


def _right_beside(trial: Trial) -> Iterator[tuple[Array, float]]:
    ramp = np.linspace(0.1, 1.0, trial.x.size)
    for kind in (ramp, ramp[::-1], *np.random.default_rng(7).normal(size=(4, trial.x.size))):
        yield 1e-6 * _length(trial) * kind, 1e-8


def _length(trial: Trial) -> float:
    return float(np.median(np.abs(trial.u[trial.u != 0]))) if np.any(trial.u) else 1.0
