"""Some inputs moved without the others, by steps of their own sizes.

Beside inputs of far more effect, rounding hides what a short step along another one does. A wider step shows it, and
tells of the derivative where both sides agree and extrapolation settles. Beyond the size of the input itself it may
miss what lies close by: there the program's own derivative, where it can be had, must not contradict.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from pullback.check import numbers as n
from pullback.check.estimate.interval import Line, State, Window, window
from pullback.check.estimate.ladder import Slope, plan_for
from pullback.check.probe import Array
from pullback.check.verdict.judging import tolerance_of
from pullback.check.verdict.trial import Trial, total_size, weighted

if TYPE_CHECKING:
    from pullback.check.verdict.course import Course


@dataclass(frozen=True, eq=False)
class Share:
    """What an input adds to ⟨w, J·u⟩ by the rule, and by the program's own derivative where that is known.

    `size` is that of the terms that are summed.
    """

    leaf: int
    u: Array
    claimed: float
    size: float
    own: float | None = None

    @property
    def effect(self) -> float:
        """The most that is said of it."""
        return max(abs(self.claimed), abs(self.own or 0.0))

    @property
    def adds_up(self) -> bool:
        """Whether no entry works against another one."""
        return not self.size > abs(self.claimed)


@dataclass(frozen=True)
class Outcome:
    """What is known of the claims, and the trial whose entries `wrong` refute them."""

    state: State
    trial: Trial | None = None
    wrong: Array = field(default_factory=lambda: np.empty(0, int))


def shown(claimed: Array, least: Array, weights: Array) -> bool:
    """Whether all but a small part of a derivative stands above the least that could be told, entry by entry."""
    terms = np.where(weights > 0, weights * np.abs(claimed), 0.0)
    enough = (1 - n.COARSE) * np.sum(terms)
    return bool(enough > 0 and np.sum(terms[least <= np.abs(claimed)]) >= enough)


class Alone:
    """A line along which some inputs move, each so far that its effect stands above rounding."""

    def __init__(self, course: "Course", joint: Trial, shares: Sequence[Share]) -> None:
        self.course, self.subject, self.shares = course, course.subject, shares
        # where bars would be as wide as derivatives, errors as they are tell of gross mistakes
        is_short = n.BARS * self.subject.epsilon > n.COARSE
        self.bars, self.part = (1.0, n.RESOLVED) if is_short else (n.BARS, n.COARSE)
        # a few units of rounding remain of it when quotients are extrapolated
        needed = n.NOISE_FACTOR * self.bars / self.part * self.subject.epsilon
        self.widths = [1.0] * len(shares)
        if len(shares) > 1:
            # each to the side on which they all add up
            self.widths = [needed * total_size(joint) / share.claimed for share in shares]
        self.trial = self._claims(joint)
        weights = np.abs(self.trial.w) if self.trial.whole else np.ones(1)
        self.chosen = _most(np.abs(self.trial.claimed) * weights)
        self.weights = weights[self.chosen]
        if len(shares) == 1:
            self._widen(needed * self.trial.size[self.chosen])

    def _claims(self, joint: Trial) -> Trial:
        """What the rule says of every output; of their sum where it says something else of that."""
        pairs = list(zip(self.widths, self.shares, strict=True))
        u = np.sum([t * share.u for t, share in pairs], axis=0)
        total = float(sum(t * share.claimed for t, share in pairs))
        if joint.whole and total:
            rule = self.subject.evaluate_rule(joint.x, joint.w, u)
            size = sum(abs(t) * share.size for t, share in pairs)
            same = n.ROUNDINGS * self.subject.rule.rule_epsilon * size
            if rule.jvp is not None and abs(weighted(rule.jvp, joint.w) - total) <= same:
                return replace(joint, u=u, rule=rule, claimed=rule.jvp)
        size = np.array([total_size(joint)])
        return replace(joint, u=u, claimed=np.array([total]), size=size, whole=False)

    def _widen(self, needed: Array) -> None:
        """Move so far that nearly all of the outputs on which there is an effect show it."""
        effect = np.abs(self.trial.claimed[self.chosen])
        if not effect.any():
            effect = np.array([self.shares[0].effect])
        order = np.argsort(needed / effect)
        sums = np.cumsum((effect * self.weights)[order])
        last = order[min(np.searchsorted(sums, (1 - n.COARSE) * sums[-1]), order.size - 1)]
        width = float((needed / effect)[last]) if sums[-1] else 0.0
        width = max(width, self.subject.epsilon**n.USUAL_RADIUS)
        self.widths = [width]
        self.trial = replace(self.trial, u=width * self.trial.u, claimed=width * self.trial.claimed)

    def judge(self) -> Outcome:
        """What windows of ever larger radii say."""
        line, radii = self.trial.line(self.subject, self.chosen), self._radii()
        right, outside = np.zeros((2, self.chosen.size), bool)
        smaller = None
        for k in range(radii.size - 2):
            if not self.course.may_call(2 * (n.SEVERAL if smaller is None else 1)):
                break
            found = self._window(line, radii[k:][:3])
            told, inside = self._read(found)
            right |= told & inside
            if smaller is not None and len(self.shares) == 1:
                wrong = told & ~inside & outside
                wrong &= found.settled_from(smaller, self.trial.claimed[self.chosen])
                if wrong.any():
                    return self._refuted(found, wrong, radii[k + 2])
            smaller, outside = found, told & ~inside
            if self._is_shown(found, right):
                return self._confirmed(radii[k + 2])
        return Outcome(State.OPEN)

    def _radii(self) -> Array:
        """From where the effect shows; no further than the domain goes."""
        ratio, most = plan_for(self.subject.epsilon).ratio, 1.0
        domain, x, u = self.course.domain, self.trial.x, self.trial.u
        while most > self.subject.epsilon and not np.array_equal(
            domain.along(x, most * u), most * u
        ):
            most /= ratio
        return most * ratio ** np.arange(n.WIDENINGS + 2.0)

    def _window(self, line: Line, radii: Array) -> Window:
        values = [np.abs(line(side * h)) for h in radii for side in (1, -1)]
        size = np.fmax.reduce(values) + self.trial.size[self.chosen]
        return window(line, radii, self.subject.epsilon * size)

    def _read(self, found: Window) -> tuple[Array, Array]:
        """Of which entries the window tells the derivative, and whether that is the one that is claimed."""
        claimed = self.trial.claimed[self.chosen]
        bar, size = self.bars * found.error, np.fmax(np.abs(claimed), found.size)
        told = (np.fmax(bar, found.apart) <= self.part * size) & ~found.bends
        return told, np.abs(found.low - claimed) <= bar + 2 * tolerance_of(self.course) * size

    def _is_shown(self, found: Window, right: Array) -> bool:
        claimed = self.trial.claimed[self.chosen]
        if len(self.shares) == 1:
            return shown(claimed, np.where(right, 0.0, np.inf), self.weights)
        error = self.bars / self.part * found.error
        error = error + 2 * tolerance_of(self.course) / n.LASTING * np.abs(claimed)
        total = np.sum(self.weights * np.where(right, error, np.abs(claimed)))
        pairs = zip(self.widths, self.shares, strict=True)
        return all(total <= abs(t * share.claimed) for t, share in pairs)

    def _confirmed(self, radius: float) -> Outcome:
        if radius * max(map(abs, self.widths)) <= 1:
            return Outcome(State.RIGHT)
        known = [self.course.each_input.with_own(share) for share in self.shares]
        right = all(share.own is None or self._is_supported(share) for share in known)
        return Outcome(State.RIGHT if right else State.OPEN)

    def _refuted(self, found: Window, wrong: Array, radius: float) -> Outcome:
        reach, trial = radius * self.widths[0], self.trial
        if reach > self.subject.epsilon**n.MOST_RADIUS:
            share = self.course.each_input.with_own(self.shares[0])
            if self._is_supported(share) or (share.own is None and reach > 1):
                return Outcome(State.OPEN)
        value, error = np.full(trial.claimed.size, np.nan), np.full(trial.claimed.size, np.inf)
        value[self.chosen], error[self.chosen] = found.low, found.error
        trial = replace(trial, slope=Slope(value, error))
        return Outcome(State.WRONG, trial, self.chosen[wrong])

    def _is_supported(self, share: Share) -> bool:
        """Whether the program's own derivative is the one that is claimed."""
        rounding = n.ROUNDINGS * self.subject.rule.rule_epsilon + tolerance_of(self.course)
        return share.own is not None and abs(share.own - share.claimed) <= rounding * share.size


def _most(effect: Array) -> Array:
    """The outputs on which there is most effect."""
    if effect.size <= n.SHORT_VECTOR:
        return np.arange(effect.size)
    return np.sort(np.argpartition(-effect, n.SHORT_VECTOR)[: n.SHORT_VECTOR])
