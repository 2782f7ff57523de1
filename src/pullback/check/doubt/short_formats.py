"""What float32 and shorter formats need besides: their steps are long and meet much by chance."""

from dataclasses import replace

import numpy as np

from pullback.check.doubt.confirm import Doubt, cleared_by_short_steps, confirmed_by_sides
from pullback.check.measure.ladder import generic_plan
from pullback.check.measure.trial import GENERIC, Trial, run
from pullback.check.probe import Array
from pullback.check.probe.flat import Subject
from pullback.check.search.directions import generic

PAIRS = 12
# so small a share of very many outputs may be chance, and is tried again
RARE = 5e-4
NONE = np.empty(0, int)


def lasting(subject: Subject, trial: Trial, found: Doubt) -> Doubt:
    """What remains of wrong entries when chance is ruled out."""
    if trial.whole and trial.order == 1:
        found = _without_mixed(subject, trial, found)
    rare = RARE if trial.point in GENERIC else 40 * RARE
    if not 0 < found.wrong.size < rare * trial.claimed.size:
        return found
    wrong = _wrong_again(subject, trial, found.wrong)
    chance = np.setdiff1d(found.wrong, wrong)
    return replace(found, wrong=wrong, open=np.concatenate([found.open, chance]))


def _without_mixed(subject: Subject, trial: Trial, found: Doubt) -> Doubt:
    """Without entries whose claim changes so much within a step that the steps cannot refute it.

    A difference over a step is the mean of the derivative along it. Where claims of either sign
    alternate, as among the near ties of a long sort, it may be that of the rule.
    """
    if not found.wrong.size:
        return found
    low, high = np.full(found.wrong.shape, np.inf), np.full(found.wrong.shape, -np.inf)
    for t in np.linspace(0.003, 1 / 32, PAIRS):
        pair = [subject.say(trial.x + s * t * trial.u, trial.w, trial.u).jvp for s in (1.0, -1.0)]
        if pair[0] is None or pair[1] is None:
            return found
        mean = (pair[0][found.wrong] + pair[1][found.wrong]) / 2
        low, high = np.fmin(low, mean), np.fmax(high, mean)
    measured = trial.slope.value[found.wrong]
    mixed = (low <= measured) & (measured <= high)
    opened = np.concatenate([found.open, found.wrong[mixed]])
    return replace(found, wrong=found.wrong[~mixed], open=opened)


def _wrong_again(subject: Subject, trial: Trial, chosen: Array) -> Array:
    """Those of the entries that are wrong along other directions too."""
    for seed in (4, 5, 6):
        if trial.order == 2 or not trial.whole or not chosen.size:
            return NONE
        u = generic(np.random.default_rng(seed), subject.inputs, trial.x)
        other, _ = run(
            subject, None, trial.x, u, trial.w, generic_plan(subject.epsilon), second=False
        )
        suspects = np.intersect1d(other.suspects(subject.rule.rule_epsilon), chosen)
        cleared, _ = cleared_by_short_steps(subject, other, suspects)
        confirmed = confirmed_by_sides(subject, other, suspects[~cleared])
        chosen = _without_mixed(subject, other, confirmed).wrong
    return chosen
