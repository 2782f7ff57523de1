"""What rule and function give at several points and upstreams, entry by entry: what an explanation must predict.

The truth is the program's own derivative where that agrees with differences of the function along two directions;
elsewhere differences entry by entry, at no more than a grid of entries.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pullback.check import numbers as n
from pullback.check.estimate.ladder import plan_for, slopes
from pullback.check.probe import Array, OutsideDomain, RuleFault
from pullback.check.search import directions
from pullback.check.search.points import Point
from pullback.check.subject import Subject
from pullback.check.verdict.trial import usual_size, weighted


@dataclass(frozen=True, eq=False)
class Draw:
    """A point and an upstream, with the truth `g` (not a number where unknown) and what the rule gives, `r`."""

    x: Array
    w: Array
    y: Array
    g: Array
    r: Array
    floor: Array

    @property
    def gap(self) -> Array:
        """How far the rule is off; nothing where the truth is not known or within its error."""
        gap = np.abs(self.r - self.g)
        broken = np.where(np.isfinite(self.g) & ~np.isfinite(self.r), np.inf, 0.0)
        return np.where(np.isfinite(gap) & (gap > self.floor), gap, broken)


class Truth:
    """The gradient that the function itself has."""

    def __init__(self, subject: Subject, x: Array, w: Array, entries: Array) -> None:
        self.subject, self.entries = subject, entries
        self.own = subject.reference is None and self._agrees(x, w)

    @property
    def is_cheap(self) -> bool:
        """Whether it costs one call, and not differences for every entry."""
        return self.own or self.subject.reference is not None

    def draw(self, x: Array, w: Array) -> Draw | None:
        """Rule and truth at a point, for an upstream; nothing where one of them cannot be run."""
        try:
            y, r = self.subject.pull(x, w)
        except (OutsideDomain, RuleFault):
            return None
        g, floor = self.vjp(x, w)
        return Draw(x, w, y, g, r, floor)

    def vjp(self, x: Array, w: Array) -> tuple[Array, Array]:
        """The gradient and how far it may be off."""
        if self.subject.reference is not None:
            return self._rounded(self.subject.reference_vjp(x, w))
        if self.own:
            g = self.subject.own_vjp(x, w)
            if g is not None:
                return self._rounded(g)
        return self._by_differences(x, w)

    def _rounded(self, g: Array) -> tuple[Array, Array]:
        unit = n.ROUNDINGS * self.subject.rule.rule_epsilon
        return g, unit * (np.abs(g) + usual_size(g)) / n.BARS

    def _agrees(self, x: Array, w: Array) -> bool:
        """Whether the program's own derivative is that of the function, along two directions."""
        g = self.subject.own_vjp(x, w)
        if g is None or not np.isfinite(g).all():
            return False
        lengths = 1.0, self.subject.epsilon**n.FINE  # among many kinks only short steps meet none
        return any(self._agrees_along(x, w, g, length) for length in lengths)

    def _agrees_along(self, x: Array, w: Array, g: Array, length: float) -> bool:
        rng = np.random.default_rng(5)
        for _ in range(2):
            u = length * directions.generic(rng, self.subject.inputs, x)
            value, error = self._slope(x, u, w)
            size = float(np.sqrt(np.sum((g * u) ** 2)))
            bar = n.BARS * error + n.ROUNDINGS * self.subject.epsilon * size / length
            flat = n.ROUNDINGS * self.subject.epsilon * self._scale(w)
            if not abs(float(np.sum(g * u)) - value) <= bar:
                return False
            if bar > max(n.COARSE * (size + abs(value)), flat):
                return False
        return True

    def _scale(self, w: Array) -> float:
        return float(np.sqrt(np.sum((w * self.subject.scale) ** 2)))

    def _by_differences(self, x: Array, w: Array) -> tuple[Array, Array]:
        g, floor = np.full(x.size, np.nan), np.zeros(x.size)
        scales = directions.leaf_scales(self.subject.inputs, x)
        for entry in self.entries:
            u = np.zeros(x.size)
            u[entry] = abs(x[entry]) or scales[entry]
            value, error = self._slope(x, u, w)
            g[entry], floor[entry] = value / u[entry], n.BARS * error / u[entry]
        return g, np.where(np.isfinite(floor), floor, np.inf)

    def _slope(self, x: Array, u: Array, w: Array) -> tuple[float, float]:
        size = self._scale(w)

        def line(t: float) -> tuple[Array]:
            return (np.array([weighted(self.subject.value_or_nan(x + t * u), w)]),)

        plan = plan_for(self.subject.epsilon)
        (slope,) = slopes(line, plan, self.subject.epsilon, [lambda _: size])
        return float(slope.value[0]), float(slope.error[0])


@dataclass(eq=False)
class Draws:
    """`fit`: two upstreams at the failing point. `fresh`: points near it, and the given arguments.

    `others` are points of other kinds, `mixed` have the failing point's values in other places: there `pool` is drawn
    when it is asked for, to tell what comes from the place of an element from what comes from its value.
    """

    truth: Truth
    fit: tuple[Draw, ...]
    fresh: tuple[Draw, ...]
    others: Sequence[Point]
    mixed: Sequence[Array]
    inside: dict[Draw, Any] = field(default_factory=dict[Draw, Any])
    rule: dict[int | None, Any] = field(default_factory=dict[int | None, Any])

    @property
    def tested(self) -> tuple[Draw, ...]:
        """All that an explanation must predict."""
        return (*self.fit, *self.fresh)

    @functools.cached_property
    def pool(self) -> tuple[Draw, ...]:
        """Draws at points of other kinds; at kinks the program's derivative is one of several that are right."""
        return *self.turned, *self._at(point.x for point in self.others[: n.FEW])

    @functools.cached_property
    def smooth(self) -> tuple[Draw, ...]:
        """Those of the pool where no values were put at kinks, and all is finite."""
        some = self._at(point.x for point in self.others[: n.FEW] if not point.is_placed)
        every = (*self.turned, *some)
        return tuple(d for d in every if np.isfinite(d.r).all() and np.isfinite(d.g).any())

    @functools.cached_property
    def turned(self) -> tuple[Draw, ...]:
        """Draws at the mixed points."""
        return self._at(self.mixed)

    def _at(self, points: Iterable[Array]) -> tuple[Draw, ...]:
        found = [self.truth.draw(x, self.fit[0].w) for x in points]
        return tuple(draw for draw in found if draw is not None)


def make_draws(
    subject: Subject,
    point: Point,
    w: Array,
    start: Array,
    others: Sequence[Point],
    wrong: Array,
    into: Callable[[Array], Array],
) -> Draws:
    """The draws around a failing point; `wrong` are entries to be among those that differences are taken at.

    `into` keeps a point within what the function may be called with.
    """
    rng = np.random.default_rng(11)
    some = rng.permutation(subject.inputs.size)[: n.MANY]
    entries = np.unique(np.concatenate([wrong[: n.MANY // 2], some]).astype(int))
    truth = Truth(subject, point.x, w, entries[: n.MANY])

    draw, other = truth.draw, _like(rng, w)
    fit = [draw(point.x, w), draw(point.x, other)]
    near = [draw(into(_near(rng, point)), _like(rng, w)) for _ in range(n.SEVERAL)]
    given = [] if point.is_given else [draw(start, w)]
    kept = [d for d in (*near, *given) if d is not None]
    others = [other for other in others if point.is_placed or not other.is_placed]
    orders = (lambda a: np.roll(a, 1), lambda a: -a[::-1])
    mixed = [into(_mixed(subject, point.x, order)) for order in orders]
    return Draws(truth, tuple(d for d in fit if d is not None), tuple(kept), others, mixed)


def _mixed(subject: Subject, x: Array, order: Callable[[Array], Array]) -> Array:
    """The values of each input in other places."""
    return subject.inputs.join(
        [order(part.ravel()).reshape(part.shape) for part in subject.inputs.split(x)]
    )


def _like(rng: np.random.Generator, w: Array) -> Array:
    """Another upstream of the same size."""
    return directions.signed(rng, w.size) * max(usual_size(w), 2.0**-n.UPSTREAM_BITS)


def _near(rng: np.random.Generator, point: Point) -> Array:
    """A point like the failing one: placed values and ties stay."""
    size = None if point.keep_ties else point.x.size
    return point.x * rng.uniform(1 - n.NEAR, 1 + n.NEAR, size)
