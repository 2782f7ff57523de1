"""Explanations by the upstream: not used, not in proportion to it, or what one output contributes."""

from collections.abc import Callable, Iterator
from itertools import permutations

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis import words
from pullback.check.diagnosis.draws import Draw
from pullback.check.diagnosis.explanations import Case, Explanation, Predict, real_shape
from pullback.check.diagnosis.moves import moves
from pullback.check.diagnosis.whole import lies_over
from pullback.check.probe import Array

_SMALL = 2.0**-n.UPSTREAM_BITS


def unused(case: Case) -> Iterator[Explanation]:
    """What the rule gives does not change with the upstream."""
    one, other = (case.r(draw) for draw in case.draws.fit)
    if np.array_equal(one, other) and np.any(one):
        text = "is the same for every upstream: the upstream gradient is not multiplied in"
        yield Explanation("upstream", text, lambda d: case.vjp(d.x, np.ones(d.w.size)))


def not_linear(case: Case) -> Iterator[Explanation]:
    """What the rule gives is not in proportion to the upstream: clipped, squared, or something added."""
    here = case.draws.fit[0]
    nothing, small, large = (_ruled(case, here, factor) for factor in (0.0, _SMALL, 1 / _SMALL))
    same = (np.allclose(r, case.r(here), n.AGREE, 0) for r in (small / _SMALL, large * _SMALL))
    if all(same) and not np.any(nothing):
        return
    if np.any(nothing):
        text = "has something added that does not depend on the upstream: an upstream of zero should give zero"
        yield Explanation("upstream", text, lambda d: case.g(d) + _ruled(case, d, 0.0))
        return
    for text, of_upstream, of_result in _BENT:
        yield Explanation("linear", text, _bent(case, of_upstream, of_result, 0.0))
    for text, of_upstream, of_result in _CLIPPED:
        ends = _bent(case, of_upstream, of_result, _SMALL)(here) / _SMALL
        number = case.factor(lambda _, e=ends: e, lambda _: large, [here])
        if number:
            predict = _bent(case, of_upstream, of_result, number)
            yield Explanation("linear", text.format(words.short(number)), predict)
    limit = _dead_zone(case, here)
    if limit:
        predict = _bent(case, lambda w, c: np.where(np.abs(w) < c, 0.0, w), None, limit)
        text = f"is zero where its upstream is smaller than {words.short(limit)}: a dead zone"
        yield Explanation("linear", text, predict)


Bend = Callable[[Array, float], Array]
# How people bend an upstream or a result; the clipping ones know a greatest size.
_BENT: tuple[tuple[str, Bend | None, Bend | None], ...] = (
    ("takes its upstream without its sign", lambda w, _: np.abs(w), None),
    ("takes its upstream squared", lambda w, _: w * w, None),
    ("takes only the sign of its upstream", lambda w, _: np.sign(w), None),
    ("takes only the positive part of its upstream", lambda w, _: np.maximum(w, 0), None),
    ("takes its upstream scaled to length 1", lambda w, _: w / np.sqrt(np.sum(w * w)), None),
    ("takes its upstream divided by its largest entry", lambda w, _: w / np.max(np.abs(w)), None),
    ("keeps only its own positive part", None, lambda g, _: np.maximum(g, 0)),
    ("is scaled to length 1", None, lambda g, _: g / np.sqrt(np.sum(g * g))),
)
_CLIPPED: tuple[tuple[str, Bend | None, Bend | None], ...] = (
    ("takes its upstream clipped to ±{}", lambda w, c: np.clip(w, -c, c), None),
    ("is clipped to ±{}", None, lambda g, c: np.clip(g, -c, c)),
    ("takes its upstream cut down to length {} at most", lambda w, c: _shortened(w, c), None),
    ("is cut down to length {} at most", None, lambda g, c: _shortened(g, c)),
)


def _shortened(a: Array, most: float) -> Array:
    return a * min(1.0, most / max(float(np.sqrt(np.sum(a * a))), 1e-300))


def _bent(case: Case, of_upstream: Bend | None, of_result: Bend | None, number: float) -> Predict:
    def predict(draw: Draw) -> Array:
        if of_upstream is not None:
            return case.vjp(draw.x, of_upstream(draw.w, number))
        return case.g(draw) if of_result is None else of_result(case.g(draw), number)

    return predict


def _ruled(case: Case, draw: Draw, factor: float) -> Array:
    return case.part(case.subject.pull(draw.x, factor * draw.w)[1])


def _dead_zone(case: Case, draw: Draw) -> float:
    """The size of the upstream below which the rule gives nothing, or zero."""
    low, high = _SMALL**2, 1 / _SMALL
    if np.any(_ruled(case, draw, low)) or not np.any(_ruled(case, draw, high)):
        return 0.0
    for _ in range(n.HALVINGS):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if np.any(_ruled(case, draw, middle)) else (middle, high)
    return float(f"{high * float(np.max(np.abs(draw.w))):.3g}")


def by_output(case: Case) -> Iterator[Explanation]:
    """What one output contributes is left out, has the wrong sign or a factor."""
    outputs = case.subject.outputs
    for k, leaf in enumerate(outputs.leaves if len(outputs.leaves) > 1 else ()):
        span = outputs.span(k)
        off, predict = case.multiple(lambda d, p=span: _of_output(case, d, p), added=True)
        if off:
            yield Explanation("term", _in_what(leaf.name, 1 + off), predict)


def _in_what(output: str, number: float) -> str:
    if abs(number) < 1e-9:
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
