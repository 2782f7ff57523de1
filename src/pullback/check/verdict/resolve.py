"""Suspects are tested again before anything is said of them.

The interval of derivatives decides. Before a claim outside of it is called wrong: the function's own noise is measured,
the claim must not change as much when the point moves by a few units of rounding, it must not be a derivative next to
the point (where values are tied, any limit is right), and on kinks each input is moved alone. Else it stays open.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pullback.check import numbers as n
from pullback.check.budget import Spent
from pullback.check.estimate.interval import Claim, Judgement, Line, State, judge, jumps
from pullback.check.estimate.noise import lasting_noise, noise_along, usual_unit
from pullback.check.probe import Array, OutsideDomain, RuleFault
from pullback.check.search import directions
from pullback.check.search.points import Kind
from pullback.check.subject import Subject
from pullback.check.verdict.intermediate import rounding_inside, rounding_passed_on
from pullback.check.verdict.trial import Trial, usual_size


@dataclass(frozen=True)
class Resolved:
    """What is known of the suspects of a trial: positions that are wrong, at a kink and right, or undecided.

    `off` is how far the wrong ones lie outside their interval, `bends` whether there is a kink.
    """

    wrong: Array
    off: Array
    bends: Array
    at_kink: Array
    undecided: Array


@dataclass(frozen=True)
class Doubt:
    """Some suspects: `chosen` entries of a trial, and what was found of them."""

    subject: Subject
    trial: Trial
    chosen: Array
    found: Judgement

    @property
    def claimed(self) -> Array:
        """What the rule claims of them."""
        return self.trial.claimed[self.chosen]

    @property
    def off(self) -> Array:
        """How far each claim lies outside its interval."""
        return np.maximum(self.found.low - self.claimed, self.claimed - self.found.high)

    def line(self) -> Line:
        """Their values along the direction of the trial."""
        return self.trial.line(self.subject, self.chosen)

    def claim(self) -> Claim:
        """Their claims, as they are judged."""
        return _claim(self.subject, self.trial, self.chosen)


# what entries that look wrong, or open, are once evidence for their claims has been looked for
Excuse = Callable[[Doubt], Array]


def resolve(
    subject: Subject, trial: Trial, suspects: Array, *, must_settle: bool = True
) -> Resolved:
    """Confirm or dismiss the suspects of a trial; `must_settle` tells whether what stays open costs anything."""
    chosen = _worst(trial, suspects)
    line, claim, are_few = (
        trial.line(subject, chosen),
        _claim(subject, trial, chosen),
        subject.rule.calls.are_few,
    )
    found = judge(line, claim, at_once=are_few)
    found.state[_twice_outside(trial, chosen, found)] = State.WRONG
    # one that is wrong will do where there are no calls for the others
    if are_few and (found.state == State.OPEN).any() and not (found.state == State.WRONG).any():
        found = judge(line, claim)
        found.state[_twice_outside(trial, chosen, found)] = State.WRONG

    def doubted(which: Array) -> Doubt:
        parts = (found.state, found.low, found.high, found.error, found.bends)
        return Doubt(subject, trial, chosen[which], Judgement(*(part[which] for part in parts)))

    unclear = found.state == State.WRONG if not must_settle else found.state != State.RIGHT
    excuses = _excuses(subject, trial) if unclear.any() else ()
    try:
        for excuse in excuses:
            unclear = found.state == State.WRONG
            if excuse in _FOR_OPEN and must_settle and trial.point.kind.is_generic:
                unclear |= found.state == State.OPEN  # elsewhere what stays open costs no verdict
            if unclear.any():
                found.state[unclear] = excuse(doubted(unclear))
    except Spent:  # what was not looked into to the end condemns nobody
        found.state[found.state == State.WRONG] = State.OPEN
    wrong = doubted(found.state == State.WRONG)
    at_kink = chosen[(found.state == State.RIGHT) & found.bends]
    undecided = chosen[found.state == State.OPEN]
    return Resolved(wrong.chosen, wrong.off, wrong.found.bends, at_kink, undecided)


def _twice_outside(trial: Trial, chosen: Array, found: Judgement) -> Array:
    """At the given arguments: open claims that the ladder and the best window refute alike, as two windows would."""
    if not trial.point.is_given:
        return np.zeros(chosen.size, bool)
    claimed, value = trial.claimed[chosen], trial.slope.value[chosen]
    error = np.fmax(trial.slope.error[chosen], found.error)
    off, other = found.low - claimed, value - claimed
    alike = np.abs(off - other) <= n.COARSE * np.abs(off)
    outside = np.fmin(np.abs(off), np.abs(other)) > n.BARS * error
    return (found.state == State.OPEN) & ~found.bends & alike & outside


def _worst(trial: Trial, suspects: Array) -> Array:
    if suspects.size <= n.SHORT_VECTOR:
        return suspects
    ratio = trial.gap[suspects] / trial.slope.error[suspects]
    ratio = np.where(np.isnan(ratio), np.inf, ratio)
    return np.sort(suspects[np.argpartition(-ratio, n.SHORT_VECTOR)[: n.SHORT_VECTOR]])


def _claim(subject: Subject, trial: Trial, chosen: Array) -> Claim:
    size = trial.size[chosen]
    epsilon = max(subject.epsilon, subject.rule.rule_epsilon if trial.order == 2 else 0.0)
    return Claim(trial.claimed[chosen], trial.gap[chosen], epsilon * size, size, epsilon)


def _excuses(subject: Subject, trial: Trial) -> Sequence[Excuse]:
    """In the order of what they cost: most suspects lie at a kink, unless the function is a noisy one.

    A quick check has calls for one of them.
    """
    if subject.rule.calls.are_few:
        return (_rough,)
    first = (_noise, _neighbours) if is_noisy(subject) else (_neighbours, _noise)
    last = (_plainly,) if trial.point.is_given else ()
    if trial.order == 1:
        last = (_stairs, *last) if trial.point.is_given else (_drowned,)
    return (_jumping, *first, _claim_noise, _each_input_alone, *last)


# evidence for a claim: each gives the new state of entries that looked wrong, or open


def _jumping(doubt: Doubt) -> Array:
    """Where another output jumps at a point that was made up, as at a change of sign, derivatives tell nothing."""
    subject, trial = doubt.subject, doubt.trial
    if trial.point.is_given or trial.order == 2:
        return doubt.found.state
    line = Line(lambda t: subject.value_or_nan(trial.x + t * trial.u))
    size = np.abs(trial.rule.values) + subject.scale
    jumping = jumps(line, unit_of(subject) * size, subject.epsilon)
    return np.full(doubt.chosen.size, State.OPEN if jumping.any() else State.WRONG)


def _noise(doubt: Doubt) -> Array:
    """The interval again, with the noise that the function really has."""
    claim, line = doubt.claim(), doubt.line()
    unit = max(claim.epsilon, unit_of(doubt.subject))
    noise = np.fmax(noise_along(line, claim.size, claim.epsilon), claim.noise)
    noise = np.fmax(noise, unit * claim.size)
    if np.all(noise <= claim.noise):
        return doubt.found.state
    again = judge(line, replace(claim, noise=noise, epsilon=unit))
    again.state[_twice_outside(doubt.trial, doubt.chosen, again)] = State.WRONG
    # the error is that of noise as measured, and counts for what it is; so does the usual size of derivatives
    bar = again.error
    usual = np.abs(claim.value) + usual_size(doubt.trial.claimed)
    coarse = bar <= n.COARSE * (usual + np.fmax(np.abs(again.low), np.abs(again.high)))
    inside = (claim.value >= again.low - bar) & (claim.value <= again.high + bar)
    return np.where((again.state == State.OPEN) & coarse & inside, State.RIGHT, again.state)


def _plainly(doubt: Doubt) -> Array:
    """What noise leaves open at the given arguments: wide steps as they are; extrapolation multiplies noise."""
    claim, line = doubt.claim(), doubt.line()
    unit = max(claim.epsilon, unit_of(doubt.subject))
    steps = unit**n.MOST_RADIUS * np.array([0.5, 1.0, 2.0, 4.0, 8.0])
    quotients = np.array([(line(h) - line(-h)) / (2 * h) for h in steps])
    errors = np.abs(np.diff(quotients, axis=0)) + unit * claim.size / steps[:-1, None]
    narrow, error = _steadiest(quotients, errors)
    gap = np.abs(narrow - claim.value)
    size = np.abs(narrow) + np.abs(claim.value) + usual_size(doubt.trial.claimed)
    sure = (doubt.found.state == State.OPEN) & (error <= n.COARSE * size)
    # but for noise, what a finer measurement refutes is not confirmed by a coarse one
    ladder = doubt.trial.gap[doubt.chosen] > n.BARS * doubt.trial.slope.error[doubt.chosen]
    finer = ladder | (doubt.off > n.BARS * doubt.found.error)
    finer &= not is_noisy(doubt.subject)
    state = np.where(sure & (gap <= error) & ~finer, State.RIGHT, doubt.found.state)
    # two steps agree by chance where a function bends a lot: three condemn
    thrice, error = _steadiest(quotients, np.fmax(errors[:-1], errors[1:]))
    far = np.abs(thrice - claim.value) > np.fmax(n.UNITS * error, claim.epsilon**n.FINE * size)
    return np.where(sure & far, State.WRONG, state)


def _steadiest(quotients: Array, errors: Array) -> tuple[Array, Array]:
    """The quotient of the least error, entry by entry."""
    best = np.argmin(np.where(np.isnan(errors), np.inf, errors), axis=0)
    which = best, np.arange(best.size)
    return quotients[which], errors[which]


def _stairs(doubt: Doubt) -> Array:
    """Where a value inside is rounded so coarsely that short steps see stairs, they condemn nobody."""
    subject, trial = doubt.subject, doubt.trial
    some = _sample(subject)
    along = Line(lambda t: subject.value_or_nan(trial.x + t * trial.u)[some])
    noise = lasting_noise(along, subject.epsilon)
    if not noise.any():
        return doubt.found.state
    size = np.abs(along(0.0)) + subject.scale[some]
    stairs = noise > n.UNITS * subject.epsilon * size  # what is less was allowed for
    stairs &= noise <= n.BARS * rounding_inside(subject, trial.x, trial.w)
    if not stairs.any():
        return doubt.found.state
    subject.unit = max(unit_of(subject), float(np.max((noise / size)[stairs])))
    return np.full(doubt.chosen.size, State.OPEN)


def _drowned(doubt: Doubt) -> Array:
    """What rounding inside may amount to condemns nobody at a made-up point: stairs look smooth on a tread."""
    subject, trial = doubt.subject, doubt.trial
    rounding = rounding_passed_on(subject, trial.x, trial.w) / subject.epsilon**n.USUAL_RADIUS
    return np.where(doubt.off <= n.BARS * rounding, State.OPEN, doubt.found.state)


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


def is_noisy(subject: Subject) -> bool:
    """Whether there is more rounding in the values than of themselves."""
    return unit_of(subject) > n.BARS * subject.epsilon


def _sample(subject: Subject) -> Array:
    return np.unique(np.linspace(0, subject.outputs.size - 1, n.SAMPLE).astype(int))


def _claim_noise(doubt: Doubt) -> Array:
    """Claims off by no more than they scatter when the point moves by a few units of rounding.

    Where the claim may be wrong there alone, at the given arguments and where a comparison turns, it is not among them.
    """
    subject, trial = doubt.subject, doubt.trial
    moves = (
        _claimed_at(subject, trial, moved_by_units(subject, trial, step)) for step in n.CLAIM_MOVES
    )
    others = [claimed[doubt.chosen] for claimed in moves if claimed is not None]
    if len(others) < len(n.CLAIM_MOVES):
        return doubt.found.state
    alone = trial.point.is_given or trial.point.kind is Kind.AT_TURNS
    among = [np.where(claimed == doubt.claimed, np.nan, claimed) for claimed in others]
    among = among if alone else [*others, doubt.claimed]
    scatter = np.fmax.reduce(among) - np.fmin.reduce(among)
    return np.where(doubt.off <= n.NOISE_FACTOR * scatter, State.RIGHT, doubt.found.state)


def moved_by_units(subject: Subject, trial: Trial, units: float) -> Array:
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


def _neighbours(doubt: Doubt) -> Array:
    """Claims inside the hull of derivatives next to the point, if the hull does not shrink with the distance."""
    subject, trial, claimed = doubt.subject, doubt.trial, doubt.claimed
    balls = [subject.epsilon**power for power in n.BALLS]
    least = balls[0] * subject.epsilon**n.MOST_RADIUS  # the shortest step
    rounding = unit_of(subject) * trial.size[doubt.chosen] / least
    # where there are kinks, few places may all be on one side by chance
    few = 2 * n.SEVERAL
    enough = few * np.where(doubt.found.bends | trial.point.is_placed, 3, 1)
    state = doubt.found.state
    low, high = np.full((2, len(balls), claimed.size), np.inf) * [[[1.0]], [[-1.0]]]
    rng = np.random.default_rng(2)
    for k in range(n.MANY):
        towards = _towards(rng, subject, trial, k)
        slopes = np.array([_slope_beside(doubt, radius, towards) for radius in balls])
        low, high = np.fmin(low, slopes), np.fmax(high, slopes)
        near, far = (high - low)[:2]
        noisy = n.KEPT * near > far  # wider in the smaller ball: that is noise
        lasting = (near >= n.KEPT * far) & ~noisy & (near > n.BARS * rounding)
        slack = n.BARS * doubt.found.error + n.COARSE * near
        state[lasting & (claimed >= low[0] - slack) & (claimed <= high[0] + slack)] = State.RIGHT
        smooth = np.max(high - low, axis=0) < n.COARSE * doubt.off
        smooth |= (state == State.OPEN) & ~lasting  # what it is that leaves it open, it is no kink
        noisy &= k + 1 >= few
        if ((state == State.RIGHT) | (smooth & (k + 1 >= enough)) | noisy).all():
            break
    wrong = np.flatnonzero(state == State.WRONG)
    if trial.point.is_placed and wrong.size <= n.SEVERAL:
        state[[k for k in wrong if _is_next_to(doubt, int(k), rng)]] = State.RIGHT
    return state


def _rough(doubt: Doubt) -> Array:
    """Where derivatives next to the point are not what was measured there, few calls do not tell what is right."""
    subject, trial, found = doubt.subject, doubt.trial, doubt.found
    rng, radius = np.random.default_rng(2), subject.epsilon ** n.BALLS[0]
    slopes: list[Array] = []
    for k in range(n.BRIEF_PLACES):
        if k >= n.LEAST_PLACES and not subject.may_spend(2):
            break
        slopes.append(_slope_beside(doubt, radius, _towards(rng, subject, trial, k)))
    beside = np.array(slopes)
    apart = np.maximum(np.max(beside, axis=0) - found.low, found.high - np.min(beside, axis=0))
    smooth = apart <= n.COARSE * doubt.off
    return np.where(smooth & (found.state == State.WRONG), State.WRONG, State.OPEN)


def _is_next_to(doubt: Doubt, k: int, rng: directions.Rng) -> bool:
    """Whether a claim is a derivative next to the point, sought from side to side of each entry that was placed.

    Where many entries lie on kinks of their own, the one place whose derivative the rule gives is not met by chance.
    """
    subject, trial, claimed = doubt.subject, doubt.trial, doubt.claimed[k]
    moved = trial.u != 0
    placed = np.flatnonzero(moved & trial.point.placed if trial.point.placed.size else moved)
    if placed.size > n.MANY:
        return False
    radius, towards = (
        subject.epsilon ** n.BALLS[0],
        directions.generic(rng, subject.inputs, trial.x),
    )

    def gap(towards: Array) -> float:
        return float(
            np.nan_to_num(abs(_slope_beside(doubt, radius, towards)[k] - claimed), nan=np.inf)
        )

    best = gap(towards)
    for entry in placed:
        flipped = towards.copy()
        flipped[entry] *= -1
        other = gap(flipped)
        if other < best:
            best, towards = other, flipped
    return best <= n.COARSE * doubt.off[k]


def _towards(rng: directions.Rng, subject: Subject, trial: Trial, k: int) -> Array:
    """Where to look for the next neighbour: up and down by position, as programs break ties, then anywhere."""
    if k < 2:
        return directions.by_position(subject.inputs, trial.x) * (1 - 2 * k)
    towards, flows = directions.generic(rng, subject.inputs, trial.x), trial.rule.r != 0
    if k % 2 and flows.any():
        # the edge of a hull is rarely met by chance, but often where the rule sees it
        return np.where(flows, towards * rng.random(flows.size), 0.0)
    return towards


def _slope_beside(doubt: Doubt, radius: float, towards: Array) -> Array:
    """Derivatives along the trial's direction at one place next to the point."""
    trial, step = doubt.trial, radius * doubt.subject.epsilon**n.MOST_RADIUS
    at = trial.values(doubt.subject, doubt.chosen, trial.x + radius * towards, trial.u)
    return (at(step) - at(-step)) / (2 * step)


def _each_input_alone(doubt: Doubt) -> Array:
    """At a point put on kinks: each input moved by itself has the slope that is claimed for it, and no kink."""
    subject, trial, layout = doubt.subject, doubt.trial, doubt.subject.inputs
    if not trial.point.is_placed or trial.order == 2 or len(layout.leaves) < 2:
        return doubt.found.state
    right = np.ones(doubt.chosen.size, bool)
    for k in range(len(layout.leaves)):
        u = np.zeros(trial.u.size)
        u[layout.span(k)] = trial.u[layout.span(k)]
        claimed = _claimed_at(subject, trial, trial.x, u)
        if claimed is None:
            return doubt.found.state
        claim = replace(doubt.claim(), value=claimed[doubt.chosen])
        alone = judge(trial.line(subject, doubt.chosen, u), claim)
        right &= (alone.state == State.RIGHT) & ~alone.bends
    return np.where(right, State.RIGHT, State.WRONG)


# Those that may tell of what is open, too.
_FOR_OPEN = (_neighbours, _noise, _claim_noise, _plainly)
