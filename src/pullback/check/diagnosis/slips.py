"""One slip in the derivative of one operation of the program: which, and what was done to it.

A slip changes the cotangent of one input of one operation. What that adds to the gradient is linear in the change, so
its product with a direction is the change times the tangent of that input: a slip is dismissed by a few products, and
only what is left is pulled back to the inputs and compared entry by entry, at all draws.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis import words
from pullback.check.diagnosis.draws import Draw
from pullback.check.diagnosis.explanations import Case, Explanation
from pullback.check.diagnosis.moves import Move, forms, moves
from pullback.check.probe import Array, Steps
from pullback.check.search import directions

Edge = tuple[int, int]
Nested = Sequence[Sequence[Array]]


@dataclass(frozen=True)
class At:
    """The program at one draw: values, cotangents of results, and `back`, the cotangents of inputs."""

    inputs: Nested
    outputs: Nested
    cotangents: Nested
    back: Nested


# A changed cotangent: of a step's input number j, given the program at a draw.
Change = Callable[[At, Draw], Array]


class Inside:
    """The program at the draws of a case, and the equations that a slip must fulfil."""

    def __init__(self, case: Case, steps: Steps) -> None:
        self.case, self.program, self.steps = case, steps, steps.steps
        self.known: dict[int, At] = {}
        draw, rng = case.draws.fit[0], np.random.default_rng(3)
        gap = np.where(np.isfinite(draw.g), draw.r - draw.g, 0.0)
        self.tangents, target = [], []
        for _ in range(n.EQUATIONS):
            u = np.zeros(draw.x.size)
            u[case.span] = directions.generic(rng, case.layout, draw.x)[case.span]
            ahead, behind = (self._inputs(draw, draw.x + t * u) for t in (n.SLIP_STEP, -n.SLIP_STEP))
            self.tangents.append(_quotients(ahead, behind))
            target.append(float(np.sum(gap * u)))
        self.target = np.array(target)

    def at(self, draw: Draw) -> At:
        """The program at a draw, run once."""
        if id(draw) not in self.known:
            self.case.subject.calls += 2
            xs = self.case.layout.split(draw.x)
            found = self.program.values(xs, self.case.subject.upstream(draw.w))
            back = self.program.local(xs, found.inputs, found.cotangents)
            self.known[id(draw)] = At(found.inputs, found.outputs, found.cotangents, back)
        return self.known[id(draw)]

    def local(self, draw: Draw, inputs: Nested, cotangents: Nested) -> Nested:
        """What every step makes of other values and cotangents."""
        self.case.subject.calls += 1
        return self.program.local(self.case.layout.split(draw.x), inputs, cotangents)

    def product(self, edge: Edge, change: Array) -> Array:
        """What a change at an edge adds to the gradient, along each direction."""
        s, j = edge
        return np.array([np.sum(np.real(np.conj(change) * t[s][j])) for t in self.tangents])

    def fits(self, product: Array) -> bool:
        """Whether a change may be the one."""
        size = np.max(np.abs(self.target)) + np.max(np.abs(product))
        return bool(np.max(np.abs(product - self.target)) <= n.SLIP_FIT * size)

    def edges(self) -> list[Edge]:
        """Every input of every step."""
        return [(s, j) for s, step in enumerate(self.steps) for j in range(len(step.inputs))]

    def predict(self, changes: dict[Edge, Change]) -> Callable[[Draw], Array]:
        """The gradient with these cotangents changed."""

        def predict(draw: Draw) -> Array:
            at = self.at(draw)
            added = [[np.zeros_like(c) for c in step] for step in at.back]
            for (s, j), change in changes.items():
                added[s][j] = np.asarray(change(at, draw) - at.back[s][j], at.back[s][j].dtype)
            self.case.subject.calls += 1
            pulled = self.program.pull(self.case.layout.split(draw.x), added)
            return self.case.g(draw) + self.case.layout.join(pulled)[self.case.span].reshape(self.case.shape)

        return predict

    def _inputs(self, draw: Draw, x: Array) -> Nested:
        self.case.subject.calls += 1
        return self.program.values(self.case.layout.split(x), self.case.subject.upstream(draw.w)).inputs


def _quotients(ahead: Nested, behind: Nested) -> list[list[Array]]:
    pairs = zip(ahead, behind, strict=True)
    return [[(a - b) / (2 * n.SLIP_STEP) for a, b in zip(*pair, strict=True)] for pair in pairs]


def slips(case: Case) -> Iterator[Explanation]:
    """One operation whose derivative is taken wrongly; the plain before the complex."""
    steps = case.subject.steps() if case.draws.truth.own else None
    if steps is None or not steps.steps:
        return
    inside = Inside(case, steps)
    for search in (_scaled, _two_cut, _taken_for, _differentiated_otherwise):
        yield from search(inside)


def _scaled(inside: Inside) -> Iterator[Explanation]:
    """What flows back along one edge is left out, negated, or has a factor."""
    at = inside.at(inside.case.draws.fit[0])
    for edge in inside.edges():
        s, j = edge
        product = inside.product(edge, at.back[s][j])
        size = float(product @ product)
        number = 1 + float(product @ inside.target) / size if size else 1.0
        if number != 1 and inside.fits((number - 1) * product):
            number = round(number, 6) + 0.0 if abs(number - round(number, 6)) < n.SLIP_FIT else number
            text = words.scaled(inside.steps[s], j, number)
            change = {edge: lambda a, d, c=number, s=s, j=j: c * a.back[s][j]}
            yield Explanation("term" if not number else "slip", text, inside.predict(change))


def _two_cut(inside: Inside) -> Iterator[Explanation]:
    """Two edges that nothing flows back along."""
    at = inside.at(inside.case.draws.fit[0])
    kept: list[tuple[Edge, Array]] = []
    for s, j in inside.edges():
        product = inside.product((s, j), at.back[s][j])
        if np.any(product) and not any(np.allclose(product, p, n.SLIP_FIT) for _, p in kept):
            kept.append(((s, j), product))
    for k, (one, first) in enumerate(kept):
        for other, second in kept[k + 1 :]:
            if inside.fits(-first - second):
                both = [(inside.steps[s], j) for s, j in (one, other)]
                change = {e: lambda a, d, e=e: 0 * a.back[e[0]][e[1]] for e in (one, other)}
                text = words.two_cut(*both)
                yield Explanation("term", text, inside.predict(change))


def _taken_for(inside: Inside) -> Iterator[Explanation]:
    """The derivative of one operation taken for something else, or what flows back put into other places."""
    at = inside.at(inside.case.draws.fit[0])
    for edge in inside.edges():
        for kind, how, change in _alterations(inside, at, edge):
            s, j = edge
            with np.errstate(all="ignore"):
                product = inside.product(edge, change(at, inside.case.draws.fit[0]) - at.back[s][j])
            if inside.fits(product):
                text = words.slip(inside.steps[s], j, how)
                yield Explanation(kind, text, inside.predict({edge: change}))


def _alterations(inside: Inside, at: At, edge: Edge) -> Iterator[tuple[str, str, Change]]:
    s, j = edge
    shape, step = at.back[s][j].shape, inside.steps[s]
    alone = len(at.outputs[s]) == 1 and at.outputs[s][0].shape == shape
    if alone:
        yield "slip", "taken as 1", lambda a, d: a.cotangents[s][0]
        yield "slip", "taken as −1", lambda a, d: -a.cotangents[s][0]
    named = [(words.operand(step, i), "inputs", i) for i in range(len(step.inputs))]
    named += [(f"`{step.output}`" if step.output else "its result", "outputs", 0)]
    for name, what, i in named:
        if getattr(at, what)[s][i].shape != shape:
            continue
        for text, form in forms(name):
            def factor(a: At, f=form, w=what, i=i) -> Array:  # noqa: ANN001
                return f(getattr(a, w)[s][i])

            if alone:
                yield "slip", f"taken as {text}", lambda a, d, f=factor: f(a) * a.cotangents[s][0]
            yield "slip", words.factor_form(text), lambda a, d, f=factor: f(a) * a.back[s][j]
    for move in moves(shape):
        yield move.kind, f"{move.how}", lambda a, d, m=move: m.apply(a.back[s][j])


def _differentiated_otherwise(inside: Inside) -> Iterator[Explanation]:
    """One operation differentiated at other values, or for another cotangent."""
    draw = inside.case.draws.fit[0]
    at = inside.at(draw)
    for swap in _swaps(inside, at):
        made = [swap(at, draw, s) for s in range(len(inside.steps))]
        if not any(made):
            continue
        inputs = [m[1] if m else at.inputs[s] for s, m in enumerate(made)]
        cotangents = [m[2] if m else at.cotangents[s] for s, m in enumerate(made)]
        back = inside.local(draw, inputs, cotangents)
        for s, m in enumerate(made):
            if m:
                products = [inside.product((s, j), b - at.back[s][j]) for j, b in enumerate(back[s])]
                every = list(range(len(products)))
                for which in ([[j] for j in every] + ([every] if len(every) > 1 else [])):
                    if inside.fits(np.sum([products[j] for j in which], axis=0)):
                        yield _swapped(inside, swap, s, which, m[0])


Swap = Callable[[At, Draw, int], tuple[str, Sequence[Array], Sequence[Array]] | None]


def _swapped(inside: Inside, swap: Swap, s: int, which: list[int], how: str) -> Explanation:
    def change(a: At, d: Draw, j: int) -> Array:
        made = swap(a, d, s)
        assert made is not None
        inputs, cotangents = list(a.inputs), list(a.cotangents)
        inputs[s], cotangents[s] = made[1], made[2]
        return inside.local(d, inputs, cotangents)[s][j]

    changes: dict[Edge, Change] = {(s, j): lambda a, d, j=j: change(a, d, j) for j in which}
    j = which[0] if len(which) == 1 else None
    return Explanation("slip", words.slip(inside.steps[s], j, how), inside.predict(changes))


def _swaps(inside: Inside, at: At) -> Iterator[Swap]:
    """Changes of what goes into a step, made in all steps at once: its cotangent, or one of its inputs, moved or replaced."""
    most = max(len(step.inputs) for step in inside.steps)
    for m in range(n.MOST_SWAPS):
        yield lambda a, d, s, m=m: _with_cotangent_moved(a, s, m)
        for i in range(min(most, 2)):
            yield lambda a, d, s, m=m, i=i: _with_input_moved(inside, a, s, i, m)
            yield lambda a, d, s, m=m, i=i: _with_another(inside, a, s, i, m)


def _some_moves(shape: tuple[int, ...]) -> list[Move]:
    return [m for m in moves(shape) if m.kind != "axis"]


def _with_cotangent_moved(a: At, s: int, m: int) -> tuple[str, Sequence[Array], Sequence[Array]] | None:
    if len(a.cotangents[s]) != 1:
        return None
    known = _some_moves(a.cotangents[s][0].shape)
    if m >= len(known):
        return None
    moved = known[m].apply(a.cotangents[s][0])
    return f"with its upstream {known[m].how}", a.inputs[s], [moved]


def _with_input_moved(inside: Inside, a: At, s: int, i: int, m: int):  # noqa: ANN202
    if i >= len(a.inputs[s]):
        return None
    known = _some_moves(a.inputs[s][i].shape)
    if m >= len(known):
        return None
    inputs = list(a.inputs[s])
    inputs[i] = known[m].apply(inputs[i])
    return f"with {words.operand(inside.steps[s], i)} {known[m].how}", inputs, a.cotangents[s]


def _with_another(inside: Inside, a: At, s: int, i: int, m: int):  # noqa: ANN202
    """Another tensor of the program in the place of an input; one and zero are the plainest."""
    if i >= len(a.inputs[s]):
        return None
    here = a.inputs[s][i]
    found: list[tuple[str, Array]] = [("1", np.ones_like(here)), ("its absolute value", np.abs(here).astype(here.dtype))]
    found += [(words.operand(inside.steps[s], k), other) for k, other in enumerate(a.inputs[s]) if k != i]
    found += [("its result", o) for o in a.outputs[s]]
    for k, step in enumerate(inside.steps):
        found += [(words.operand(step, j), t) for j, t in enumerate(a.inputs[k]) if step.inputs[j] and k != s]
        found += [(f"`{step.output}`", a.outputs[k][0])] if step.output and k != s else []
    found = [(name, t) for name, t in found if t.shape == here.shape and t.dtype == here.dtype]
    unique = {name: t for name, t in found if not np.array_equal(t, here)}
    if m >= len(unique):
        return None
    name, tensor = list(unique.items())[m]
    inputs = list(a.inputs[s])
    inputs[i] = tensor
    return f"with {name} in place of {words.operand(inside.steps[s], i)}", inputs, a.cotangents[s]
