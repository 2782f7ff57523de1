"""Explanations by the upstream: not used, in other places, or what one output contributes."""

from collections.abc import Callable, Iterator
from itertools import permutations

import numpy as np

from pullback.check.diagnosis import words
from pullback.check.diagnosis.draws import Draw
from pullback.check.diagnosis.explanations import Case, Explanation, real_shape
from pullback.check.diagnosis.moves import moves
from pullback.check.diagnosis.whole import lies_over
from pullback.check.probe import Array

_NOTHING = 1e-4  # a factor of less is what rounding leaves of none


def unused(case: Case) -> Iterator[Explanation]:
    """What the rule gives does not change with the upstream."""
    one, other = (case.r(draw) for draw in case.draws.fit)
    if np.array_equal(one, other) and np.any(one):
        text = "is the same for every upstream: the upstream gradient is not multiplied in"
        yield Explanation("upstream", text, lambda d: case.vjp(d.x, np.ones(d.w.size)))


def something_added(case: Case) -> Iterator[Explanation]:
    """What the rule gives for an upstream of zero is not zero."""

    def added(draw: Draw) -> Array:
        return case.part(case.subject.pull(draw.x, 0 * draw.w)[1])

    if np.any(added(case.draws.fit[0])):
        text = "has something added that does not depend on the upstream: an upstream of zero should give zero"
        yield Explanation("upstream", text, lambda d: case.g(d) + added(d))


def by_output(case: Case) -> Iterator[Explanation]:
    """What one output contributes is left out, has the wrong sign or a factor."""
    outputs = case.subject.outputs
    for k, leaf in enumerate(outputs.leaves if len(outputs.leaves) > 1 else ()):
        span = outputs.span(k)
        off, predict = case.multiple(lambda d, p=span: _of_output(case, d, p), added=True)
        if off:
            yield Explanation("term", _in_what(leaf.name, 1 + off), predict)


def _in_what(output: str, number: float) -> str:
    if abs(number) < _NOTHING:
        return f"leaves out what `{output}` contributes (its upstream gradient is not used)"
    sign = words.is_minus_one(number)
    how = "the wrong sign" if sign else f"a factor {words.short(number)}"
    return f"has {how} in what `{output}` contributes; the rest is right"


def _of_output(case: Case, draw: Draw, span: slice) -> Array:
    w = np.zeros(draw.w.size)
    w[span] = draw.w[span]
    return case.vjp(draw.x, w)


def moved(case: Case) -> Iterator[Explanation]:
    """The gradient for another upstream: in other places, in part left out, or that of another output."""
    if not case.draws.truth.own:
        return
    for how, change in _moved_upstreams(case):
        yield Explanation("upstream", f"takes {how}", lambda d, c=change: case.vjp(d.x, c(d.w)))


def _moved_upstreams(case: Case) -> Iterator[tuple[str, Callable[[Array], Array]]]:
    outputs = case.subject.outputs
    parts = [(leaf, outputs.span(k), real_shape(leaf)) for k, leaf in enumerate(outputs.leaves)]
    for (one, a, shape), (other, b, its) in permutations(parts, 2):
        if shape == its:
            how = f"the upstreams of `{one.name}` and `{other.name}` in each other's place"
            yield how, lambda w, a=a, b=b: _put(_put(w, a, w[b]), b, w[a])
        if lies_over(its, shape):
            how = f"the upstream of `{other.name}` in place of that of `{one.name}`"
            wide = np.zeros(shape)
            yield how, lambda w, a=a, b=b, s=its, z=wide: _put(w, a, w[b].reshape(s) + z)
    for leaf, span, shape in parts:
        name = "its upstream" if len(parts) == 1 else f"the upstream of `{leaf.name}`"
        for move in moves(shape, pairs=leaf.is_complex):
            how = f"{name} as if it were {move.how}"
            yield how, lambda w, m=move, k=span, s=shape: _put(w, k, m.apply(w[k].reshape(s)))


def _put(w: Array, span: slice, part: Array) -> Array:
    changed = w.copy()
    changed[span] = part.ravel()
    return changed
