"""Second thoughts about suspect entries, before a mismatch is believed.

First very short steps: a claim that they confirm is right, whatever longer steps said (they crossed
a kink, or the function bends faster than they can follow). What survives must be measured alike by
an independent ladder, must not sit at a kink whose one-sided derivatives span the claim, and the
claim itself must not change when the point moves by a few units of rounding.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from pullback.check.directions import generic
from pullback.check.flat import Subject
from pullback.check.noise import noise_of, usual_noise
from pullback.check.probe import Array, OutsideDomain
from pullback.check.sides import Sides, bent, extrapolated, outside, smooth
from pullback.check.trial import BARS, GENERIC, Trial

MOST = 20_000
# in short formats so small a share of very many outputs is chance, and stays undecided
RARE = 5e-4
NONE = np.empty(0, int)
SAMPLE = 1_000


@dataclass(frozen=True)
class Doubt:
    """What became of the suspects of a trial: positions confirmed wrong, at a kink, or undecided."""

    wrong: Array
    kinks: Array
    open: Array
    at_kink: bool = False


def doubt(subject: Subject, trial: Trial, suspects: Array) -> Doubt:
    """Confirm or dismiss the suspects of a trial."""
    chosen = _worst(trial, suspects)
    finite = np.isfinite(trial.claimed[chosen])
    broken = _not_finite(subject, trial, chosen[~finite])
    if broken.size:
        return Doubt(broken, NONE, NONE)
    chosen = chosen[finite]
    kinks = NONE
    if chosen.size and _fine_steps(subject):
        cleared, bends = _cleared(subject, trial, chosen)
        kinks, chosen = chosen[bends], chosen[~cleared]
    if not chosen.size:
        return Doubt(NONE, kinks, NONE)
    found = _confirmed(subject, trial, chosen)
    rare = RARE if trial.point in GENERIC else 40 * RARE
    if subject.epsilon > 1e-10 and found.wrong.size < rare * trial.claimed.size:
        found = Doubt(NONE, found.kinks, np.concatenate([found.open, found.wrong]))
    placed = trial.held is not None
    if found.wrong.size and (placed or found.at_kink) and subject.epsilon < 1e-10:
        found = _generalised(subject, trial, found)
        if found.wrong.size and placed and not found.at_kink:
            right = found.wrong[_has_derivative(subject, trial, found.wrong)]
            found = replace(found, wrong=right)
    return replace(found, kinks=np.concatenate([kinks, found.kinks]))


def _generalised(subject: Subject, trial: Trial, found: Doubt) -> Doubt:
    """Dismiss claims that are derivatives at points right beside this one.

    Where entries were placed on ties or zeros on purpose, the order in which a rule breaks them is
    its own affair: any limit of derivatives nearby is a right answer.
    """
    claimed = trial.claimed[found.wrong]
    low, high = np.full(claimed.shape, np.inf), np.full(claimed.shape, -np.inf)
    noise, right = 0.0, np.zeros(claimed.shape, bool)
    for shift, step in _beside(trial):
        at = entries(subject, replace(trial, x=trial.x + shift), found.wrong)
        value = (at(step) - at(-step)) / (2 * step)
        low, high = np.fmin(low, value), np.fmax(high, value)
        noise = np.maximum(noise, subject.epsilon * np.abs(at(0.0)) / step)
        slack = 0.02 * (high - low) + 1e-4 * (np.abs(low) + np.abs(high)) + BARS * noise
        right = (claimed >= low - slack) & (claimed <= high + slack)
        if right.all():
            break
    kinks = np.concatenate([found.kinks, found.wrong[right]])
    return replace(found, wrong=found.wrong[~right], kinks=kinks)


def _beside(trial: Trial) -> Iterator[tuple[Array, float]]:
    """Ways to step aside from a placed point, with a step that keeps the order so reached."""
    size = trial.x.size
    ramp = np.linspace(0.1, 1.0, size)
    scale = float(np.median(np.abs(trial.u[trial.u != 0]))) if np.any(trial.u) else 1.0
    for kind in (np.ones(size), np.random.default_rng(1).normal(size=size)):
        for sign in (1, -1):
            yield 1e-2 * scale * sign * kind, 1e-9
    for reach, step in ((1e-2, 1e-9), (1e-4, 1e-10), (1e-6, 1e-11)):
        for kind in (ramp, ramp[::-1]):
            yield reach * scale * kind, step


def _cleared(subject: Subject, trial: Trial, chosen: Array) -> tuple[Array, Array]:
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
    for h in _fine_steps(subject):
        with np.errstate(all="ignore"):
            right, left = (at(h) - centre) / h, (centre - at(-h)) / h
            told = np.isfinite(right - left) & (noise / h < slack)
            ever |= told
            middle = (right + left) / 2
            cleared |= told & (np.abs(claimed - middle) < slack)
            if subject.epsilon > 1e-10:
                cleared |= told & (np.abs(trial.slope.value[chosen] - middle) > slack)
            # a bend stays as wide when the step shrinks; curvature shrinks with it
            width = np.abs(right - left)
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


def _fine_steps(subject: Subject) -> tuple[float, ...]:
    """Steps as short as rounding allows."""
    if subject.epsilon < 1e-10:
        return (1e-5, 1e-7, 1e-9)
    return (1e-2, 2e-3, 2e-4) if subject.epsilon < 1e-4 else ()


def _confirmed(subject: Subject, trial: Trial, chosen: Array) -> Doubt:
    sides = measure(subject, trial, chosen)
    claimed, gap = trial.claimed[chosen], np.abs(trial.claimed[chosen] - sides.central[0])
    stable = _claim_noise(subject, trial, chosen) < 0.2 * gap
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
        _smooth_all_over(subject, moved) and _has_derivative(subject, trial, everywhere).all()
    )
    return found if all_smooth else NONE


def _has_derivative(subject: Subject, trial: Trial, chosen: Array) -> Array:
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


def _smooth_all_over(subject: Subject, trial: Trial) -> bool:
    """No output bends or is without a derivative here: this is no singular point."""
    sample = np.arange(trial.claimed.size)[:MOST] if trial.whole else np.zeros(1, int)
    value, error = (sides := measure(subject, trial, sample)).central
    known = error <= 1e-3 * (np.abs(value) + scales(subject, trial, sample))
    return bool(np.all(known & smooth(sides, np.abs(value))))


def _overflow(subject: Subject) -> float:
    """Beyond this size a rule may overflow where the function just does not."""
    return 1e150 if subject.rule.rule_epsilon < 1e-10 else 1e17


def measure(subject: Subject, trial: Trial, chosen: Array) -> Sides:
    """Both one-sided derivatives and the central one at the chosen entries."""
    coarse = subject.epsilon > 1e-10
    steps = [2.0 ** -(2 + k) if coarse else 4.0**-k / 110 for k in range(4)]
    at, scale = entries(subject, trial, chosen), scales(subject, trial, chosen)
    centre = at(0.0)
    above, below = [at(h) for h in steps], [at(-h) for h in steps]
    unit = _unit(subject) if trial.order == 1 else subject.epsilon
    size = np.fmax(unit * (np.abs(centre) + scale), noise_of(at, scale))
    with np.errstate(all="ignore"):
        middle = [(a - b) / (2 * h) for a, b, h in zip(above, below, steps, strict=True)]
        right = [(a - centre) / h for a, h in zip(above, steps, strict=True)]
        left = [(centre - b) / h for b, h in zip(below, steps, strict=True)]
    return Sides(
        central=extrapolated(middle, steps, size, 2),
        right=extrapolated(right, steps, 2 * size, 1),
        left=extrapolated(left, steps, 2 * size, 1),
    )


def _unit(subject: Subject) -> float:
    """The rounding unit of the function's values as measured where the user is, once.

    Where values hardly change, as near zero, a function that rounds inside looks flat, not noisy.
    """
    if subject.noise is None:
        x = subject.start()
        u = generic(np.random.default_rng(3), subject.inputs, x)
        some = np.unique(np.linspace(0, subject.outputs.size - 1, SAMPLE).astype(int))
        try:
            found = usual_noise(lambda t: subject.value(x + t * u)[some], subject.scale[some])
        except OutsideDomain:
            found = 0.0
        subject.noise = max(subject.epsilon, found)
    return subject.noise


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


def _claim_noise(subject: Subject, trial: Trial, chosen: Array) -> Array:
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


def _worst(trial: Trial, suspects: Array) -> Array:
    if suspects.size <= MOST:
        return suspects
    with np.errstate(all="ignore"):
        ratio = trial.gap[suspects] / trial.slope.error[suspects]
    ratio = np.where(np.isnan(ratio), np.inf, ratio)
    return np.sort(suspects[np.argpartition(-ratio, MOST)[:MOST]])
