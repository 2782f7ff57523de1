"""Second thoughts about suspect entries, before a mismatch is believed.

First very short steps: a claim that they confirm is right, whatever longer steps said (they crossed
a kink, or the function bends faster than they can follow). What survives must be measured alike by
an independent ladder, must not sit at a kink whose one-sided derivatives span the claim, and the
claim itself must not change when the point moves by a few units of rounding.
"""

from dataclasses import replace

import numpy as np

from pullback.check.doubt.beside import has_derivative, without_limits
from pullback.check.doubt.confirm import (
    Doubt,
    cleared_by_short_steps,
    confirmed_by_sides,
    fine_steps,
    refuted_nearby,
)
from pullback.check.doubt.short_formats import lasting
from pullback.check.measure.measuring import entries, is_clean, measure, scales
from pullback.check.measure.sides import smooth
from pullback.check.measure.trial import Trial
from pullback.check.probe import Array
from pullback.check.probe.flat import Subject
from pullback.check.search.directions import generic

MOST = 20_000
NONE = np.empty(0, int)


def doubt(subject: Subject, trial: Trial, suspects: Array) -> Doubt:
    """Confirm or dismiss the suspects of a trial."""
    chosen = _worst(trial, suspects)
    finite = np.isfinite(trial.claimed[chosen])
    broken = _not_finite(subject, trial, chosen[~finite])
    if broken.size:
        return Doubt(broken, NONE, NONE)
    chosen = chosen[finite]
    kinks = NONE
    if chosen.size and fine_steps(subject):
        cleared, bends = cleared_by_short_steps(subject, trial, chosen)
        kinks, chosen = chosen[bends], chosen[~cleared]
    if not chosen.size:
        return Doubt(NONE, kinks, NONE)
    found = confirmed_by_sides(subject, trial, chosen)
    if subject.epsilon > 1e-10:
        found = lasting(subject, trial, found)
    else:
        unplaced = trial.held is None and not found.wrong.size
        if unplaced and found.open.size and is_clean(subject):
            found = refuted_nearby(subject, trial, found)
        found = without_limits(subject, trial, found)
    return replace(found, kinks=np.concatenate([kinks, found.kinks]))


def _not_finite(subject: Subject, trial: Trial, chosen: Array) -> Array:
    """Positions with a claim that is not finite though the function is smooth there."""
    if not chosen.size:
        return NONE
    layout = subject.inputs
    everywhere = generic(np.random.default_rng(0), layout, trial.x)
    moved = replace(trial, u=everywhere)
    sides = measure(subject, moved, chosen)
    value, error = sides.central
    with np.errstate(invalid="ignore"):
        sure = np.isfinite(error) & (error <= 1e-3 * np.abs(value) + 1e-12)
        huge = np.abs(value) + np.abs(entries(subject, moved, chosen)(0.0)) > _overflow(subject)
        found = chosen[sure & ~huge & smooth(sides, np.abs(value))]
    if trial.held is None or not found.size:
        return found
    everywhere = np.arange(trial.claimed.size)[:MOST] if trial.whole else np.zeros(1, int)
    all_smooth = (
        _smooth_all_over(subject, moved) and has_derivative(subject, trial, everywhere).all()
    )
    return found if all_smooth else NONE


def _smooth_all_over(subject: Subject, trial: Trial) -> bool:
    """No output bends or is without a derivative here: this is no singular point."""
    sample = np.arange(trial.claimed.size)[:MOST] if trial.whole else np.zeros(1, int)
    value, error = (sides := measure(subject, trial, sample)).central
    known = error <= 1e-3 * (np.abs(value) + scales(subject, trial, sample))
    return bool(np.all(known & smooth(sides, np.abs(value))))


def _overflow(subject: Subject) -> float:
    """Beyond this size a rule may overflow where the function just does not."""
    return 1e150 if subject.rule.rule_epsilon < 1e-10 else 1e17


def _worst(trial: Trial, suspects: Array) -> Array:
    if suspects.size <= MOST:
        return suspects
    with np.errstate(all="ignore"):
        ratio = trial.gap[suspects] / trial.slope.error[suspects]
    ratio = np.where(np.isnan(ratio), np.inf, ratio)
    return np.sort(suspects[np.argpartition(-ratio, MOST)[:MOST]])
