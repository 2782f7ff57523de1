"""One trial: what the rule claims against what the function does, at one point, along one direction."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from pullback.check import numbers as n
from pullback.check.estimate.interval import Line
from pullback.check.estimate.ladder import Part, Plan, Scale, Slope, plan_for, slopes
from pullback.check.probe import Array
from pullback.check.probe.vectors import all_finite, blocks
from pullback.check.search.points import Point
from pullback.check.subject import Layout, RuleOutput, Subject


@dataclass(frozen=True)
class Trial:
    """What was claimed and what was measured, entry by entry.

    `order` 2 is about the rule itself. `whole` says that the entries are those of J·u; otherwise there is one entry,
    ⟨w, J·u⟩, claimed by ⟨r, u⟩.
    """

    point: Point
    x: Array
    u: Array
    w: Array
    rule: RuleOutput
    claimed: Array
    slope: Slope
    size: Array
    order: int = 1
    whole: bool = True

    @property
    def gap(self) -> Array:
        """How far claim and measurement are apart; infinite where nothing was measured."""
        with np.errstate(invalid="ignore"):
            gap = np.abs(self.claimed - self.slope.value)
        return np.where(np.isfinite(self.slope.error) & ~np.isnan(gap), gap, np.inf)

    def suspects(self, epsilon: float) -> Array:
        """Positions whose claim the central differences do not confirm."""
        found = [
            np.flatnonzero(self._is_suspect(part, epsilon)) + part.start
            for part in blocks(self.claimed.size)
        ]
        return np.concatenate([np.empty(0, int), *found])

    def _is_suspect(self, part: slice, epsilon: float) -> Array:
        size, error = self.size[part], self.slope.error[part]
        with np.errstate(invalid="ignore"):
            gap = np.abs(self.claimed[part] - self.slope.value[part])
            gap = np.where(np.isfinite(error) & ~np.isnan(gap), gap, np.inf)
            claimed, value = np.abs(self.claimed[part]), np.abs(self.slope.value[part])
            bar = n.BARS * (error + epsilon * (claimed + size))
            fine = bar <= n.COARSE * (claimed + value)
            nothing = claimed <= n.UNITS * epsilon * size
            nothing &= bar <= epsilon**n.FINE * size
            return ~((gap <= bar) & (fine | nothing))

    def share(self, positions: Array, off: Array, layout: Layout, *, with_values: bool) -> Array:
        """What share of their size entries are off by; of that of the values, too, where these are what is rounded.

        The usual size is that of the same leaf: what is small beside others is not off by little.
        """
        sizes = sizes_of(layout, self.slope.value) if self.whole else [usual_size(self.slope.value)]
        leaves = [layout.leaf_of(int(k)) if self.whole else 0 for k in positions]
        usual = np.abs(self.claimed[positions]) + np.array(sizes)[leaves]
        usual = usual + self.size[positions] if with_values else usual
        return np.where(off <= 0, 0.0, off / usual)

    def hidden(self, positions: Array, epsilon: float) -> Array:
        """Which of them rounding hides from differences."""
        claimed = np.abs(self.claimed[positions])
        most = claimed + np.abs(self.slope.value[positions])
        return n.BARS * epsilon * (claimed + self.size[positions]) > n.COARSE * most

    def line(self, subject: Subject, chosen: Array, u: Array | None = None) -> Line:
        """The chosen entries of what this is about, along its line or another one from the same point.

        There the values of the function are known.
        """
        y, start = self.rule.values, None
        if self.order == 1 and y.size:
            start = y[chosen] if self.whole else np.array([weighted(y, self.w)])
        return Line(self.values(subject, chosen, self.x, self.u if u is None else u), start)

    def values(
        self, subject: Subject, chosen: Array, x: Array, u: Array
    ) -> Callable[[float], Array]:
        """The chosen entries at distances along a line; not a number where the function raises."""

        def at(t: float) -> Array:
            there = x + t * u
            if self.order == 2:
                return subject.felt(subject.pull_or_nan(there, self.w)[1])[chosen]
            y = subject.value_or_nan(there)
            return y[chosen] if self.whole else np.array([weighted(y, self.w)])

        return at


def weighted(y: Array, w: Array) -> float:
    """⟨w, y⟩, whose entries that are not wanted may be infinite."""
    return float(np.sum((w * y)[w != 0]))


def total_size(trial: Trial) -> float:
    """The size of what ⟨w, y⟩ is made of."""
    return weighted(trial.size, np.abs(trial.w)) if trial.whole else float(trial.size[0])


def run(
    subject: Subject, point: Point, u: Array, w: Array, rule: RuleOutput, plan: Plan
) -> Iterator[Trial]:
    """The first-order trial and, where the rule was differentiated, the second-order one along the same line.

    Both take the same steps, unless vectors are so long that two ladders of them would fill the memory.
    """
    twice, is_long = rule.second is not None, u.size >= n.LARGE_INPUT

    def values(t: float) -> tuple[Array, ...]:
        return (subject.value_or_nan(point.x + t * u),)

    def both(t: float) -> tuple[Array, ...]:
        y, r = subject.pull_or_nan(point.x + t * u, w)
        return y, subject.felt(r)

    def gradient(t: float) -> tuple[Array, ...]:
        return both(t)[1:]

    def of_rule(part: Part) -> Array:
        return np.abs(rule.r[part]) + usual

    usual = np.fmax(usual_size(rule.r), subject.rule_scale)
    scales: list[Scale] = [subject.scale.__getitem__, of_rule]
    together = twice and not is_long
    measured, *more = slopes(
        both if together else values, plan, subject.epsilon, scales[: 1 + together]
    )
    size = np.abs(rule.values) + subject.scale
    yield Trial(point, point.x, u, w, rule, measured.value, measured, size)
    claimed = rule.second
    if claimed is None:
        return
    if is_long:
        del measured, size
        rule, plan = rule.without_values(), plan_for(subject.epsilon, brief=True)
    again = more[0] if together else slopes(gradient, plan, subject.epsilon, scales[1:])[0]
    yield Trial(point, point.x, u, w, rule, claimed, again, of_rule(slice(None)), order=2)


def usual_size(values: Array) -> float:
    """The median size of the entries that are not zero: one steep entry does not count for the others."""
    some = np.abs(values[:: max(1, values.size // n.SAMPLE)])
    used = some[(some > 0) & np.isfinite(some)]
    return float(np.median(used)) if used.size else 0.0


def sizes_of(layout: Layout, y: Array) -> list[float]:
    """The usual size of each leaf's part of a vector."""
    return [usual_size(y[layout.span(k)]) for k in range(len(layout.leaves))]


def as_whole(trial: Trial) -> Trial:
    """With the claim J·u that the transposed rule makes of every output."""
    return replace(trial, claimed=trial.rule.jvp)


def as_one_number(trial: Trial) -> Trial:
    """With the claim ⟨r, u⟩ about ⟨w, J·u⟩, which is what a user gets."""
    w, measured = trial.w, trial.slope
    used = w != 0
    value = np.array([np.sum(w[used] * measured.value[used])])
    error = np.array([np.sqrt(np.sum((w[used] * measured.error[used]) ** 2))])
    terms = (trial.rule.r * trial.u)[trial.u != 0]
    claimed = np.array([np.sum(terms)])
    size = np.array([np.sqrt(np.sum((w * trial.size)[used] ** 2) + np.sum(terms**2))])
    slope = Slope(value, np.where(np.isnan(error), np.inf, error))
    return replace(trial, claimed=claimed, slope=slope, size=size, whole=False)


def stands_for_rule(trial: Trial, subject: Subject) -> bool:
    """⟨r, u⟩ = ⟨w, J·u⟩: what the transposed rule says is what a user gets."""
    epsilon = subject.rule.rule_epsilon
    if not is_finite(trial):
        return False
    left, left_size = _sums(trial.rule.r, trial.u)
    right, right_size = _sums(cast("Array", trial.rule.jvp), trial.w)
    size = left_size + right_size + _sums(subject.scale, trial.w)[1]
    return bool(abs(left - right) <= n.ROUNDINGS * epsilon * size)


def _sums(some: Array, weights: Array) -> tuple[float, float]:
    """The sum of products and the root of that of their squares; what has no weight may be infinite."""
    total = squares = 0.0
    for part in blocks(weights.size):
        terms = (some[part] * weights[part])[weights[part] != 0]
        total += float(np.sum(terms))
        squares += float(np.dot(terms, terms))
    return total, float(np.sqrt(squares))


def is_finite(trial: Trial) -> bool:
    """Whether the transposed rule gives numbers where they are wanted."""
    jvp = trial.rule.jvp
    return jvp is not None and (all_finite(jvp) or bool(np.isfinite(jvp[trial.w != 0]).all()))
