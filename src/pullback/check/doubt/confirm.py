"""Is a suspect entry wrong? Very short steps clear it, an independent ladder confirms it."""

from dataclasses import dataclass, replace

import numpy as np

from pullback.check.measure.measuring import entries, measure, scales
from pullback.check.measure.sides import bent, outside, smooth
from pullback.check.measure.trial import BARS, Trial
from pullback.check.probe import Array
from pullback.check.probe.flat import Subject

# how much shorter steps are where longer ones meet kink upon kink
SHORT = 1e-4


@dataclass(frozen=True)
class Doubt:
    """What became of the suspects of a trial: positions confirmed wrong, at a kink, or undecided."""

    wrong: Array
    kinks: Array
    open: Array
    at_kink: bool = False


def cleared_by_short_steps(subject: Subject, trial: Trial, chosen: Array) -> tuple[Array, Array]:
    """Suspects whose claim very short steps confirm, and those of them that sit at a kink.

    In short formats a claim gets the benefit of the doubt where no short step can contradict it, or
    short steps contradict the long ones as well.
    """
    at = entries(subject, trial, chosen)
    centre = at(0.0)
    noise = BARS * 2 * subject.epsilon * (np.abs(centre) + scales(subject, trial, chosen))
    claimed, slack = trial.claimed[chosen], 0.2 * trial.gap[chosen]
    cleared, bends, ever = (np.zeros(chosen.shape, bool) for _ in range(3))
    before = np.full(chosen.shape, np.inf)
    for h in fine_steps(subject):
        with np.errstate(all="ignore"):
            right, left = (at(h) - centre) / h, (centre - at(-h)) / h
            told = np.isfinite(right - left) & (noise / h < slack)
            ever |= told
            middle, width = (right + left) / 2, np.abs(right - left)
            near = slack
            if subject.epsilon > 1e-10:
                cleared |= told & (np.abs(trial.slope.value[chosen] - middle) > slack)
            else:
                near = np.minimum(slack, 1e-5 * np.abs(claimed) + noise / h + width)
            cleared |= told & (np.abs(claimed - middle) < near)
            # a bend stays as wide when the step shrinks; curvature shrinks with it
            lasting = told & (width > slack) & (width > 0.3 * before)
            low, high = np.minimum(right, left), np.maximum(right, left)
            edge = 0.05 * width + noise / h
            bends |= lasting & (claimed >= low - edge) & (claimed <= high + edge)
        before = width
        if (cleared | bends).all():
            break
    if subject.epsilon > 1e-10:
        cleared |= ~ever
    return cleared | bends, bends & ~cleared


def fine_steps(subject: Subject) -> tuple[float, ...]:
    """Steps as short as rounding allows."""
    if subject.epsilon < 1e-10:
        return (1e-5, 1e-7, 1e-9)
    return (1e-2, 2e-3, 2e-4) if subject.epsilon < 1e-4 else ()


def confirmed_by_sides(subject: Subject, trial: Trial, chosen: Array) -> Doubt:
    sides = measure(subject, trial, chosen)
    claimed, gap = trial.claimed[chosen], np.abs(trial.claimed[chosen] - sides.central[0])
    stable = claim_noise(subject, trial, chosen) < 0.2 * gap
    with np.errstate(invalid="ignore"):
        agree = np.abs(sides.central[0] - trial.slope.value[chosen]) < 0.2 * gap
        beyond = gap > BARS * sides.central[1]
    wrong = agree & beyond & stable & smooth(sides, gap)
    bends = bent(sides)
    beyond_span = bends & stable & outside(sides, claimed)
    if wrong.any() or not beyond_span.any():
        kinks = bends & ~wrong & ~beyond_span
        return Doubt(chosen[wrong], chosen[kinks], chosen[~wrong & ~kinks])
    return Doubt(chosen[beyond_span], chosen[bends & ~beyond_span], chosen[~bends], at_kink=True)


def refuted_nearby(subject: Subject, trial: Trial, found: Doubt) -> Doubt:
    """Take those undecided for wrong that very short steps refute, such as entries of a long sort.

    Only for functions without noise, and a slope of zero refutes nothing: so does rounding look.
    """
    sides = measure(subject, trial, found.open, SHORT)
    value, error = sides.central
    gap = np.abs(trial.claimed[found.open] - value)
    stable = claim_noise(subject, trial, found.open) < 0.2 * gap
    with np.errstate(invalid="ignore"):
        sure = (gap > BARS * error) & (np.abs(value) > BARS * error) & smooth(sides, gap)
        wrong = stable & sure & (gap > 1e-5 * np.abs(value))
    return replace(found, wrong=found.open[wrong], open=found.open[~wrong])


def claim_noise(subject: Subject, trial: Trial, chosen: Array) -> Array:
    """How much the claim changes when the point moves by a few units of rounding."""
    epsilon = max(subject.rule.rule_epsilon, float(np.finfo(np.float64).eps))
    beside = trial.x * (1 + 4 * epsilon * _signs(trial))
    said = subject.say(beside, trial.w, trial.u, second=trial.order == 2)
    if trial.order == 2:
        other = said.second
    elif trial.whole:
        other = said.jvp
    else:
        other = np.array([np.sum(said.r * trial.u)])
    if other is None:
        return np.zeros(chosen.shape)
    change = np.abs(other[chosen] - trial.claimed[chosen])
    return np.where(np.isfinite(change), change, 0.0)


def _signs(trial: Trial) -> Array:
    """A sign per entry that equal entries share, so that ties stay; none where a value was chosen."""
    with np.errstate(all="ignore"):
        signs = np.where(np.sin(1e4 * np.nan_to_num(trial.x)) > 0, 1.0, -1.0)
    return signs if trial.held is None else np.where(trial.held, 0.0, signs)
