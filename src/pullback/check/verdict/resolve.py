"""Suspects are tested again before anything is said of them.

The interval of derivatives decides. Before a claim outside of it is called wrong: the function's own noise is measured,
the claim must not change as much when the point moves by a few units of rounding, it must not be a derivative next to
the point (where values are tied, any limit of derivatives is right), and at points put on kinks on purpose each input
moved by itself is asked. Each of these is evidence for the claim; want of evidence leaves it open.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pullback.check import numbers as n
from pullback.check.estimate.interval import Claim, Judgement, Line, State, judge, jumps
from pullback.check.estimate.noise import lasting_noise, noise_along, usual_unit
from pullback.check.probe import Array, OutsideDomain, RuleFault
from pullback.check.search import directions
from pullback.check.subject import Subject
from pullback.check.verdict.intermediate import rounding_inside
from pullback.check.verdict.trial import Trial, usual_size

# what entries that look wrong, or open, are once evidence for their claims has been looked for
Excuse = Callable[[Subject, Trial, Array, Judgement, Array, Line], Array]


@dataclass(frozen=True)
class Resolved:
    """What is known of the suspects of a trial: positions that are wrong, at a kink and right, or undecided.

    `off` is how far the wrong ones lie outside their interval.
    """

    wrong: Array
    off: Array
    at_kink: Array
    undecided: Array
    judgement: Judgement


def resolve(subject: Subject, trial: Trial, suspects: Array) -> Resolved:
    """Confirm or dismiss the suspects of a trial."""
    chosen = _worst(trial, suspects)
    line = trial.line(subject, chosen)
    claim = _claim(subject, trial, chosen)
    found = judge(line, claim)
    for excuse in _excuses(subject, trial) if (found.state != State.RIGHT).any() else ():
        unclear = found.state == State.WRONG
        if excuse in (_neighbours, _noise, _claim_noise, _plainly) and trial.point.kind.is_generic:
            unclear |= found.state == State.OPEN  # elsewhere what stays open costs no verdict
        which = np.flatnonzero(unclear)
        if which.size:
            entries = chosen[which], found, which, line.part(which)
            found.state[which] = excuse(subject, trial, *entries)
    positions = [chosen[found.state == state] for state in (State.WRONG, State.OPEN)]
    at_kink = chosen[(found.state == State.RIGHT) & found.bends]
    wrong = np.flatnonzero(found.state == State.WRONG)
    off = _beyond(found, wrong, trial.claimed[chosen[wrong]])
    return Resolved(positions[0], off, at_kink, positions[1], found)


def _excuses(subject: Subject, trial: Trial) -> Sequence[Excuse]:
    """In the order of what they cost: most suspects lie at a kink, unless the function is a noisy one."""
    if trial.order == 2 and trial.point.is_placed:
        return (_noise,)
    is_noisy = unit_of(subject) > n.BARS * subject.epsilon
    first = (_noise, _neighbours) if is_noisy else (_neighbours, _noise)
    last = (_stairs, _plainly) if trial.point.is_given and trial.order == 1 else ()
    return (_jumping, *first, _claim_noise, _each_input_alone, *last)


def _worst(trial: Trial, suspects: Array) -> Array:
    if suspects.size <= n.MOST_SUSPECTS:
        return suspects
    ratio = trial.gap[suspects] / trial.slope.error[suspects]
    ratio = np.where(np.isnan(ratio), np.inf, ratio)
    return np.sort(suspects[np.argpartition(-ratio, n.MOST_SUSPECTS)[: n.MOST_SUSPECTS]])


def _claim(subject: Subject, trial: Trial, chosen: Array) -> Claim:
    size = trial.size[chosen]
    epsilon = max(subject.epsilon, subject.rule.rule_epsilon if trial.order == 2 else 0.0)
    return Claim(trial.claimed[chosen], trial.gap[chosen], epsilon * size, size, epsilon)


# evidence for a claim: each gives the new state of entries that looked wrong, or open


def _noise(
    subject: Subject, trial: Trial, chosen: Array, found: Judgement, wrong: Array, line: Line
) -> Array:
    """The interval again, with the noise that the function really has."""
    claim = _claim(subject, trial, chosen)
    noise = np.fmax(noise_along(line, claim.size, claim.epsilon), claim.noise)
    unit = max(claim.epsilon, unit_of(subject))
    noise = np.fmax(noise, unit * claim.size)
    if np.all(noise <= claim.noise):
        return found.state[wrong]
    again = judge(line, replace(claim, noise=noise, epsilon=unit))
    # the error is that of noise as measured, and counts for what it is; so does the usual size of derivatives
    bar = again.error
    usual = np.abs(claim.value) + usual_size(trial.claimed)
    coarse = bar <= n.COARSE * (usual + np.fmax(np.abs(again.low), np.abs(again.high)))
    inside = (claim.value >= again.low - bar) & (claim.value <= again.high + bar)
    return np.where((again.state == State.OPEN) & coarse & inside, State.RIGHT, again.state)


def _plainly(
    subject: Subject, trial: Trial, chosen: Array, found: Judgement, wrong: Array, line: Line
) -> Array:
    """What noise leaves open at the given arguments: wide steps as they are, for extrapolation multiplies noise."""
    claim = _claim(subject, trial, chosen)
    unit = max(claim.epsilon, unit_of(subject))
    steps = unit**n.MOST_RADIUS * np.array([0.5, 1.0, 2.0, 4.0])
    quotients = np.array([(line(h) - line(-h)) / (2 * h) for h in steps])
    errors = np.abs(np.diff(quotients, axis=0)) + unit * claim.size / steps[:-1, None]
    best = np.argmin(np.where(np.isnan(errors), np.inf, errors), axis=0), np.arange(chosen.size)
    narrow, error = quotients[best], errors[best]
    gap = np.abs(narrow - claim.value)
    size = np.abs(narrow) + np.abs(claim.value) + usual_size(trial.claimed)
    sure = (found.state[wrong] == State.OPEN) & (error <= n.COARSE * size)
    state = np.where(sure & (gap <= error), State.RIGHT, found.state[wrong])
    return np.where(sure & (gap > n.PLAIN_BARS * error), State.WRONG, state)


def _stairs(
    subject: Subject, trial: Trial, chosen: Array, found: Judgement, wrong: Array, _: Line
) -> Array:
    """Where a value inside is rounded so coarsely that short steps see stairs, they condemn nobody."""
    some = _sample(subject)
    along = Line(lambda t: subject.value_or_nan(trial.x + t * trial.u)[some])
    noise = lasting_noise(along, subject.epsilon)
    if not noise.any():
        return found.state[wrong]
    stairs = (noise > 0) & (noise <= n.BARS * rounding_inside(subject, trial.x, trial.w))
    if not stairs.any():
        return found.state[wrong]
    size = np.abs(along(0.0)) + subject.scale[some]
    subject.unit = max(unit_of(subject), float(np.max((noise / size)[stairs])))
    return np.full(chosen.size, State.OPEN)


def _jumping(
    subject: Subject, trial: Trial, chosen: Array, found: Judgement, wrong: Array, _: Line
) -> Array:
    """Where another output jumps at a point that was made up, as at a change of sign, derivatives tell nothing."""
    if trial.point.is_given or trial.order == 2:
        return found.state[wrong]
    line = Line(lambda t: subject.value_or_nan(trial.x + t * trial.u))
    size = np.abs(trial.rule.values) + subject.scale
    jumping = jumps(line, unit_of(subject) * size, subject.epsilon)
    return np.full(chosen.size, State.OPEN if jumping.any() else State.WRONG)


def unit_of(subject: Subject) -> float:
    """The rounding unit of the function's values as measured where the user is, once.

    Where values hardly change, as near zero, a function that rounds inside looks flat, not noisy.
    """
    if subject.unit is None:
        x = subject.start()
        u = directions.generic(np.random.default_rng(3), subject.inputs, x)
        some = _sample(subject)
        line = Line(lambda t: subject.value_or_nan(x + t * u)[some])
        size = np.abs(line(0.0)) + subject.scale[some]
        subject.unit = max(subject.epsilon, usual_unit(line, size, subject.epsilon))
    return subject.unit


def _sample(subject: Subject) -> Array:
    return np.unique(np.linspace(0, subject.outputs.size - 1, n.SAMPLE).astype(int))


def _claim_noise(
    subject: Subject, trial: Trial, chosen: Array, found: Judgement, wrong: Array, _: Line
) -> Array:
    """Claims off by no more than they scatter when the point moves by a few units of rounding.

    At the given arguments the claim itself is not among them: one that is wrong there alone does not scatter.
    """
    off = _beyond(found, wrong, trial.claimed[chosen])
    moves = (_claimed_at(subject, trial, _moved(subject, trial, step)) for step in n.CLAIM_MOVES)
    others = [claimed[chosen] for claimed in moves if claimed is not None]
    if len(others) < len(n.CLAIM_MOVES):
        return found.state[wrong]
    scatter = np.ptp(others if trial.point.is_given else [*others, trial.claimed[chosen]], axis=0)
    return np.where(off <= n.NOISE_FACTOR * scatter, State.RIGHT, found.state[wrong])


def _beyond(found: Judgement, wrong: Array, claimed: Array) -> Array:
    return np.maximum(found.low[wrong] - claimed, claimed - found.high[wrong])


def _moved(subject: Subject, trial: Trial, units: float) -> Array:
    """The point moved by units of rounding, equal entries equally so that ties stay; placed entries not at all."""
    epsilon = max(subject.rule.rule_epsilon, float(np.finfo(np.float64).eps))
    with np.errstate(all="ignore"):
        sign = np.where(np.sin(1e4 * np.nan_to_num(trial.x)) > 0, 1.0, -1.0)
    placed = trial.point.placed
    sign = np.where(placed, 0.0, sign) if placed.size else sign
    return trial.x * (1 + units * epsilon * sign)


def _claimed_at(subject: Subject, trial: Trial, x: Array, u: Array | None = None) -> Array | None:
    """What the rule claims at another point or along another direction."""
    u = trial.u if u is None else u
    try:
        rule = subject.evaluate_rule(x, trial.w, u, second=trial.order == 2)
    except (OutsideDomain, RuleFault):
        return None
    if trial.order == 2:
        return rule.second
    return rule.jvp if trial.whole else np.array([np.sum((rule.r * u)[u != 0])])


def _neighbours(
    subject: Subject, trial: Trial, chosen: Array, found: Judgement, wrong: Array, _: Line
) -> Array:
    """Claims inside the hull of derivatives next to the point, if the hull does not shrink with the distance."""
    claimed, bar = trial.claimed[chosen], n.BARS * found.error[wrong]
    rounding = unit_of(subject) * trial.size[chosen] / _radius(subject, 0) / _step(subject)
    state = found.state[wrong]
    low, high = np.full((2, len(n.BALLS), chosen.size), np.inf) * [[[1.0]], [[-1.0]]]
    rng = np.random.default_rng(2)
    for k in range(n.NEIGHBOURS):
        towards = _towards(rng, subject, trial, k)
        slopes = _slopes_beside(subject, trial, chosen, towards)
        low, high = np.fmin(low, slopes), np.fmax(high, slopes)
        widths = high - low
        noisy = n.LASTING_HULL * widths[0] > widths[1]  # wider in the smaller ball: that is noise
        lasting = (widths[0] >= n.LASTING_HULL * widths[1]) & ~noisy
        lasting &= widths[0] > n.BARS * rounding
        slack = bar + n.EDGE * widths[0]
        state[lasting & (claimed >= low[0] - slack) & (claimed <= high[0] + slack)] = State.RIGHT
        smooth = np.max(widths, axis=0) < n.COARSE * _beyond(found, wrong, claimed)
        kinked = (
            found.bends[wrong] | trial.point.is_placed
        )  # where few places may all be on one side by chance
        smooth &= k + 1 >= n.FEW_NEIGHBOURS * np.where(kinked, 3, 1)
        noisy &= k + 1 >= n.FEW_NEIGHBOURS
        if ((state == State.RIGHT) | smooth | noisy).all():
            break
    return state


def _towards(rng: directions.Rng, subject: Subject, trial: Trial, k: int) -> Array:
    """Where to look for the next neighbour: up and down by position, as programs break ties, then anywhere."""
    if k < 2:
        return directions.by_position(subject.inputs, trial.x) * (1 - 2 * k)
    towards, flows = directions.generic(rng, subject.inputs, trial.x), trial.rule.r != 0
    if k % 2 and flows.any():
        # the edge of a hull is rarely met by chance, but often where the rule sees it
        return np.where(flows, towards * rng.random(flows.size), 0.0)
    return towards


def _slopes_beside(subject: Subject, trial: Trial, chosen: Array, towards: Array) -> Array:
    """Derivatives along the trial's direction at one place in balls of several sizes."""
    slopes = np.empty((len(n.BALLS), chosen.size))
    for k in range(len(n.BALLS)):
        radius = _radius(subject, k)
        step = radius * _step(subject)
        at = trial.values(subject, chosen, trial.x + radius * towards, trial.u)
        slopes[k] = (at(step) - at(-step)) / (2 * step)
    return slopes


def _radius(subject: Subject, ball: int) -> float:
    return subject.epsilon ** n.BALLS[ball]


def _step(subject: Subject) -> float:
    return subject.epsilon**n.STEP_IN_BALL


def _each_input_alone(
    subject: Subject, trial: Trial, chosen: Array, found: Judgement, wrong: Array, _: Line
) -> Array:
    """At a point put on kinks: each input moved by itself has the slope that is claimed for it, and no kink."""
    if not trial.point.is_placed or trial.order == 2 or len(subject.inputs.leaves) < 2:
        return found.state[wrong]
    right = np.ones(chosen.size, bool)
    for k in range(len(subject.inputs.leaves)):
        span, u = subject.inputs.span(k), np.zeros(trial.u.size)
        u[span] = trial.u[span]
        claimed = _claimed_at(subject, trial, trial.x, u)
        if claimed is None:
            return found.state[wrong]
        line = trial.line(subject, chosen, u)
        alone = judge(line, replace(_claim(subject, trial, chosen), value=claimed[chosen]))
        right &= (alone.state == State.RIGHT) & ~alone.bends
    return np.where(right, State.RIGHT, State.WRONG)
