"""An explanation is a prediction of what the rule gives; it is said only if it holds on every draw."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from pullback.check import numbers as n
from pullback.check import progress
from pullback.check.budget import Spent
from pullback.check.diagnosis.draws import Draw, Draws
from pullback.check.probe import Array, Leaf
from pullback.check.report import FindingKind
from pullback.check.subject import Layout, Subject

Predict = Callable[[Draw], Array]


@dataclass(frozen=True)
class Explanation:
    """A short word for programs, what is said after "the gradient for `x`", and what the rule gives if it is true.

    `place` and `code` are the line of the rule that it names, where it names one.
    """

    kind: FindingKind
    text: str
    predict: Predict
    place: str = ""
    code: str = ""


@dataclass(frozen=True)
class Case:
    """One input whose gradient is wrong, with all that is known about it; all inputs joined where `which` is `None`."""

    subject: Subject
    draws: Draws
    which: int | None
    none: bool = False
    constants: tuple[float, ...] = ()
    short: bool = False
    note: Callable[[str], None] = lambda _: None

    def slipped(self, error: Exception) -> None:
        """A mistake of ours costs an explanation, and is told."""
        said = str(error).strip().splitlines()[:1]
        text = f"{type(error).__name__}: {said[0][: n.MANY]}" if said else type(error).__name__
        self.note(f"one explanation could not be tried: {text}")

    @property
    def layout(self) -> Layout:
        """The inputs of the function."""
        return self.subject.inputs

    @property
    def leaf(self) -> Leaf:
        """The input."""
        return self.layout.leaves[self.which or 0]

    @property
    def span(self) -> slice:
        """Its part of the joined vector."""
        return slice(0, self.layout.size) if self.which is None else self.layout.span(self.which)

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, with the two parts of complex numbers as a last axis."""
        return (self.layout.size,) if self.which is None else real_shape(self.leaf)

    def part(self, vector: Array) -> Array:
        """This input's part of a joined vector."""
        return vector[self.span].reshape(self.shape)

    def g(self, draw: Draw) -> Array:
        """The truth for this input."""
        return self.part(draw.g)

    def r(self, draw: Draw) -> Array:
        """What the rule gives for it."""
        return self.part(draw.r)

    def x(self, draw: Draw) -> Array:
        """The value of the input."""
        return self.part(draw.x)

    def vjp(self, x: Array, w: Array) -> Array:
        """The truth at another point, or for another upstream."""
        return self.part(self.draws.truth.vjp(x, w)[0])

    def wrong(self, draw: Draw) -> Array:
        """Which elements are wrong."""
        return self.part(draw.gap) > 0

    def live(self, draw: Draw) -> Array:
        """Which elements have a gradient, in the function or in the rule."""
        g, r = self.g(draw), self.r(draw)
        return np.isfinite(g) & ((g != 0) | (r != 0))

    def upstreams(self) -> Iterator[tuple[str, Predict]]:
        """Upstreams that can be laid over this input, as they are or spread along axes that the output lacks."""
        outputs, shape = self.subject.outputs, self.shape
        for k, leaf in enumerate(outputs.leaves):
            span = outputs.span(k)
            for axis in (None, *range(len(shape))):
                wide = shape if axis is None else (*shape[:axis], 1, *shape[axis + 1 :])
                fits = wide if axis is None else (*shape[:axis], *shape[axis + 1 :])
                if leaf.is_complex or self.leaf.is_complex or leaf.shape not in (fits, wide):
                    continue
                how = "the upstream" if axis is None else f"the upstream spread along axis {axis}"
                yield how, lambda d, s=span, w=wide: np.broadcast_to(d.w[s].reshape(w), shape)
            if leaf.size == 1 and len(shape) > 1:
                yield "the upstream", lambda d, s=span: np.full(shape, d.w[s][0])

    def factor(
        self, of: Predict, to: Predict, draws: Iterable[Draw], where: Predict | None = None
    ) -> float | None:
        """The number that `of` is to be multiplied by to be nearest to `to`, by least squares."""
        over = under = 0.0
        for draw in draws:
            a, b = (np.broadcast_to(f(draw), self.shape) for f in (of, to))
            known = np.isfinite(a) & np.isfinite(b) & (True if where is None else where(draw))
            over += float(np.sum((a * b)[known]))
            under += float(np.sum((a * a)[known]))
        return over / under if under else None

    def only_where(self, mask: Predict, inside: Predict) -> Predict:
        """Something else where a mask holds, the truth elsewhere."""
        return lambda draw: np.where(mask(draw), inside(draw), self.g(draw))

    def multiple(self, of: Predict, *, added: bool = False) -> tuple[float, Predict]:
        """The multiple of something that is nearest to the rule, or to what it adds to the truth; as a prediction."""

        def missing(draw: Draw) -> Array:
            return self.r(draw) - self.g(draw)

        number = self.factor(of, missing if added else self.r, self.draws.fit) or 0.0
        if added:
            return number, lambda draw: self.g(draw) + number * of(draw)
        return number, lambda draw: number * of(draw)

    def holds(self, predict: Predict, draws: Iterable[Draw] | None = None) -> bool:
        """Whether a prediction is what the rule gives, on all draws, and explains all of the gap."""
        draws = list(self.draws.tested if draws is None else draws)
        return all(self.agrees(predict, draw) for draw in draws) and any(
            self.wrong(draw).any() for draw in draws
        )

    def agrees(self, predict: Predict, draw: Draw) -> bool:
        """Whether a prediction is what the rule gives at one draw."""
        g, r, floor = self.g(draw), self.r(draw), self.part(draw.floor)
        predicted = np.broadcast_to(predict(draw), self.shape)
        known = np.isfinite(g)
        left, gap = np.abs(predicted - r)[known], np.abs(r - g)[known]
        size = np.maximum(np.abs(r), np.abs(predicted))[known]
        explained = np.sum(left) <= n.EXPLAINED * np.sum(gap) + np.sum(floor[known])
        return bool(explained and np.all(left <= n.AGREE * size + floor[known]))

    def survives(self, predict: Predict) -> bool:
        """Whether a prediction is not wrong where the values of the inputs stand in other places."""
        draws = [draw for draw in self.draws.turned if np.isfinite(self.r(draw)).all()]
        return all(self.agrees(predict, draw) for draw in draws)


def real_shape(leaf: Leaf) -> tuple[int, ...]:
    """The shape of a leaf, with the two parts of complex numbers as a last axis."""
    return (*leaf.shape, 2) if leaf.is_complex else leaf.shape


Search = Callable[[Case], Iterator[Explanation]]


def first_that_holds(case: Case, searches: Iterable[Search]) -> tuple[Explanation | None, int]:
    """The first explanation that is confirmed, and how many were tried; a slip in one costs only that one."""
    tried = 0
    for search in searches:
        try:
            for explanation in search(case):
                tried += 1
                case.subject.go_on()
                progress.say(f"wrong, {tried} explanations tried")
                if case.holds(explanation.predict) and case.survives(explanation.predict):
                    return explanation, tried
        except Spent:
            return None, tried
        except Exception as error:  # a slip here must not cost the verdict
            case.slipped(error)
    return None, tried
