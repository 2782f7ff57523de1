"""An explanation is a prediction of what the rule gives; it is said only if it holds on every draw."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from pullback.check import numbers as n
from pullback.check import progress
from pullback.check.diagnosis.draws import Draw, Draws
from pullback.check.probe import Array, Leaf
from pullback.check.subject import Layout, Subject

Predict = Callable[[Draw], Array]


@dataclass(frozen=True)
class Explanation:
    """A short word for programs, a sentence for people, and what the rule should give for one input if it is true."""

    kind: str
    text: str
    predict: Predict


@dataclass(frozen=True)
class Case:
    """One input whose gradient is wrong, with all that is known about it."""

    subject: Subject
    draws: Draws
    which: int
    none: bool = False
    constants: tuple[float, ...] = ()
    layout: Layout = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layout", self.subject.inputs)

    @property
    def leaf(self) -> Leaf:
        """The input."""
        return self.layout.leaves[self.which]

    @property
    def name(self) -> str:
        """How a report calls it."""
        return self.leaf.name

    @property
    def span(self) -> slice:
        """Its part of the joined vector."""
        return self.layout.span(self.which)

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, with the two parts of complex numbers as a last axis."""
        return (*self.leaf.shape, 2) if self.leaf.is_complex else self.leaf.shape

    def g(self, draw: Draw) -> Array:
        """The truth for this input."""
        return draw.g[self.span].reshape(self.shape)

    def r(self, draw: Draw) -> Array:
        """What the rule gives for it."""
        return draw.r[self.span].reshape(self.shape)

    def x(self, draw: Draw) -> Array:
        """The value of the input."""
        return draw.x[self.span].reshape(self.shape)

    def wrong(self, draw: Draw) -> Array:
        """Which elements are wrong."""
        return draw.gap[self.span].reshape(self.shape) > 0

    def live(self, draw: Draw) -> Array:
        """Which elements have a gradient, in the function or in the rule."""
        g, r = self.g(draw), self.r(draw)
        return np.isfinite(g) & ((g != 0) | (r != 0))

    def holds(self, predict: Predict, draws: Iterable[Draw] | None = None) -> bool:
        """Whether a prediction is what the rule gives, on all draws, and explains all of the gap."""
        explained = False
        for draw in self.draws.tested if draws is None else draws:
            g, r, floor = self.g(draw), self.r(draw), draw.floor[self.span].reshape(self.shape)
            predicted = np.broadcast_to(predict(draw), self.shape)
            known = np.isfinite(g)
            left, gap = np.abs(predicted - r)[known], np.abs(r - g)[known]
            size = np.maximum(np.abs(r), np.abs(predicted))[known]
            if not np.all(left <= n.AGREE * size + floor[known]):
                return False
            if not np.sum(left) <= n.EXPLAINED * np.sum(gap) + np.sum(floor[known]):
                return False
            explained |= bool(np.any(gap > floor[known]))
        return explained


Search = Callable[[Case], Iterator[Explanation]]


def first_that_holds(case: Case, searches: Iterable[Search]) -> tuple[Explanation | None, int]:
    """The first explanation that is confirmed, and how many were tried; a slip in one costs only that one."""
    tried = 0
    for search in searches:
        try:
            for explanation in search(case):
                tried += 1
                progress.say(f"wrong, {tried} explanations tried")
                if case.holds(explanation.predict):
                    return explanation, tried
        except Exception:  # a slip here must not cost the verdict
            continue
    return None, tried
