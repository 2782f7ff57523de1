"""Explanations of a whole gradient: zero, a factor, another input's, rearranged, rounded, without its upstream."""

from collections.abc import Iterator

import numpy as np

from pullback.check.diagnosis import words
from pullback.check.diagnosis.draws import Draw
from pullback.check.diagnosis.explanations import Case, Explanation
from pullback.check.probe import Array


def zero(case: Case) -> Iterator[Explanation]:
    """Nothing flows."""
    kind, text = ("none", words.nothing_flows) if case.none else ("detached", words.detached)
    yield Explanation(kind, text(case.name), lambda draw: np.zeros(case.shape))


def constant_factor(case: Case) -> Iterator[Explanation]:
    """The same factor everywhere."""
    number = _factor(case, case.draws.fit)
    if number is None:
        return
    kind = "sign" if abs(number + 1) < 1e-9 else "small" if abs(number - 1) < 0.01 else "factor"
    text = (
        words.sign(case.name) if kind == "sign" else words.factor(case.name, number, _counts(case))
    )
    yield Explanation(kind, text, lambda draw: number * case.g(draw))


def _factor(case: Case, draws: tuple[Draw, ...]) -> float | None:
    over = under = 0.0
    for draw in draws:
        g, r = case.g(draw), case.r(draw)
        known = np.isfinite(g) & np.isfinite(r)
        over += float(np.sum(g[known] * r[known]))
        under += float(np.sum(g[known] ** 2))
    return over / under if under else None


def _counts(case: Case) -> dict[str, int]:
    """Counts that people forget to divide by, with their names."""
    counts: dict[str, int] = {}
    for leaf in (*case.layout.leaves, *case.subject.outputs.leaves):
        counts.setdefault(f"the number of elements of `{leaf.name}`", leaf.size)
        for axis, size in enumerate(leaf.shape):
            counts.setdefault(f"the size of axis {axis} of `{leaf.name}`", size)
    return {name: count for name, count in counts.items() if count > 2}


def anothers(case: Case) -> Iterator[Explanation]:
    """The gradient of another input."""
    for k, leaf in enumerate(case.layout.leaves):
        if k != case.which and leaf.shape == case.leaf.shape:
            span = case.layout.span(k)
            yield Explanation(
                "swapped",
                words.anothers(case.name, leaf.name),
                lambda draw, span=span: draw.g[span].reshape(case.shape),
            )


def moving_factor(case: Case) -> Iterator[Explanation]:
    """One factor for all elements, which changes with the point; it takes two elements to tell."""
    if any(np.count_nonzero(case.live(draw)) < 2 for draw in case.draws.tested):
        return
    numbers = [_factor(case, (draw,)) for draw in case.draws.tested]
    found = {id(draw): number for draw, number in zip(case.draws.tested, numbers, strict=True)}
    if None in numbers:
        return
    for name, quantity in _scalars(case):
        for form, apply in SCALAR_FORMS.items():
            with np.errstate(all="ignore"):
                wanted = [apply(quantity(draw)) for draw in case.draws.tested]
            if np.allclose(wanted, np.array(numbers, float), 1e-6, 0):
                yield Explanation(
                    "factor",
                    words.named_factor(case.name, form.format(name)),
                    lambda draw, q=quantity, a=apply: a(q(draw)) * case.g(draw),
                )
    yield Explanation(
        "factor",
        words.moving_factor(case.name, [float(number) for number in numbers if number is not None]),
        lambda draw: (found[id(draw)] or 0.0) * case.g(draw),
    )


SCALAR_FORMS = {
    "{}": lambda q: q,
    "1/{}": lambda q: 1 / q,
    "{}²": lambda q: q * q,
    "1/{}²": lambda q: 1 / (q * q),
    "√{}": lambda q: np.sqrt(q),
    "1/√{}": lambda q: 1 / np.sqrt(q),
    "(1 − {})": lambda q: 1 - q,
    "exp({})": lambda q: np.exp(q),
}


def _scalars(case: Case):  # noqa: ANN202
    """Numbers that belong to a draw: scalar inputs, sums, norms and the like."""
    kinds = {
        "the sum of `{}`": np.sum,
        "the mean of `{}`": np.mean,
        "the length of `{}`": lambda a: np.sqrt(np.sum(a * a)),
        "the largest of `{}`": np.max,
    }
    parts = [(leaf.name, case.layout.span(k), "x") for k, leaf in enumerate(case.layout.leaves)]
    outputs = case.subject.outputs
    parts += [(leaf.name, outputs.span(k), "y") for k, leaf in enumerate(outputs.leaves)]
    parts += [
        (f"upstream of {leaf.name}", outputs.span(k), "w") for k, leaf in enumerate(outputs.leaves)
    ]
    for name, span, what in parts:
        if span.stop - span.start == 1:
            yield f"`{name}`", lambda d, s=span, w=what: float(getattr(d, w)[s][0])
            continue
        for text, reduce in kinds.items():
            yield text.format(name), lambda d, s=span, w=what, f=reduce: float(f(getattr(d, w)[s]))


def rearranged(case: Case) -> Iterator[Explanation]:
    """The right numbers in other places."""
    for kind, how, move in rearrangements(case.shape, case.leaf.is_complex):
        yield Explanation(
            kind,
            words.rearranged(case.name, how) if kind != "conjugate" else words.conjugate(case.name),
            lambda draw, move=move: move(case.g(draw)),
        )


def rearrangements(shape: tuple[int, ...], is_complex: bool = False):  # noqa: ANN201
    """Ways in which people put numbers into the wrong places of an array."""
    if is_complex:
        yield "conjugate", "", lambda a: a * np.array([1.0, -1.0])
        return
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    if len(shape) >= 2:
        yield "transposed", "transposed", lambda a: np.swapaxes(a, -1, -2).reshape(shape)
        yield "transposed", "in the order of other axes", lambda a: a.T.reshape(shape)
    if len(axes) > 1:
        yield "reversed", "reversed", lambda a: a.ravel()[::-1].reshape(shape)
    for axis in axes:
        yield "reversed", f"reversed along axis {axis}", lambda a, k=axis: np.flip(a, k)
        for step in (1, -1):
            yield (
                "shifted",
                f"shifted by {step} along axis {axis}",
                lambda a, k=axis, s=step: np.roll(a, s, k),
            )
            yield (
                "shifted",
                f"shifted by {step} along axis {axis}, zeros moved in",
                lambda a, k=axis, s=step: _shifted(a, k, s),
            )
        if shape[axis] % 2 == 0:
            half = shape[axis] // 2
            yield (
                "places",
                f"its halves along axis {axis} swapped",
                lambda a, k=axis, h=half: np.roll(a, h, k),
            )
            yield "places", f"neighbours along axis {axis} swapped", lambda a, k=axis: _pairs(a, k)
        yield "axis", f"accumulated along axis {axis}", lambda a, k=axis: np.cumsum(a, k)
        yield (
            "axis",
            f"accumulated backwards along axis {axis}",
            lambda a, k=axis: np.flip(np.cumsum(np.flip(a, k), k), k),
        )
        yield (
            "axis",
            f"summed along axis {axis}",
            lambda a, k=axis: np.sum(a, k, keepdims=True) + 0 * a,
        )
        yield (
            "axis",
            f"averaged along axis {axis}",
            lambda a, k=axis: np.mean(a, k, keepdims=True) + 0 * a,
        )
    yield "axis", "summed over all elements", lambda a: np.sum(a) + 0 * a
    yield "axis", "averaged over all elements", lambda a: np.mean(a) + 0 * a


def _shifted(a: Array, axis: int, step: int) -> Array:
    out = np.roll(a, step, axis).copy()
    out[(slice(None),) * axis + (slice(None, step) if step > 0 else slice(step, None),)] = 0
    return out


def _pairs(a: Array, axis: int) -> Array:
    order = np.arange(a.shape[axis]).reshape(-1, 2)[:, ::-1].ravel()
    return np.take(a, order, axis)


def rounded(case: Case) -> Iterator[Explanation]:
    """Right to the digits of a shorter format."""
    for kind, bits in (("float32", 24), ("float16", 11), ("bfloat16", 8)):
        if _is_rounded(case, 2.0**-bits):
            # nothing predicts rounding itself: that the error is everywhere of its size, and no larger, was the test
            yield Explanation("precision", words.precision(case.name, kind), case.r)


def _is_rounded(case: Case, unit: float) -> bool:
    """Errors of the size of the unit, of either sign, at every draw."""
    for draw in case.draws.tested:
        g, r = case.g(draw), case.r(draw)
        live = np.isfinite(g) & (g != 0)
        error = ((r - g) / np.where(live, g, 1))[live]
        if not error.size or np.max(np.abs(error)) > 8 * unit or np.max(np.abs(error)) < unit / 32:
            return False
        if error.size > 8 and (np.all(error >= 0) or np.all(error <= 0)):
            return False
    return True


def upstream_unused(case: Case) -> Iterator[Explanation]:
    """What the rule gives does not change with the upstream."""
    one, other = (case.r(draw) for draw in case.draws.fit)
    if np.array_equal(one, other) and np.any(one):
        ones = {
            id(draw): case.draws.truth.vjp(draw.x, np.ones(draw.w.size))[0]
            for draw in case.draws.tested
        }
        yield Explanation(
            "upstream",
            words.upstream(case.name),
            lambda draw: ones[id(draw)][case.span].reshape(case.shape),
        )


def passed_through(case: Case) -> Iterator[Explanation]:
    """The upstream as it came."""
    outputs = case.subject.outputs
    for k, leaf in enumerate(outputs.leaves):
        if leaf.size == case.leaf.size:
            span = outputs.span(k)
            for sign, text in ((1.0, words.passed_through), (-1.0, words.passed_through_negated)):
                yield Explanation(
                    "passed",
                    text(case.name),
                    lambda draw, s=span, c=sign: c * draw.w[s].reshape(case.shape),
                )


def added_term(case: Case) -> Iterator[Explanation]:
    """Something is added that does not belong there: a constant, or a multiple of the input or the upstream."""
    outputs = case.subject.outputs
    terms = {"a constant": lambda d: np.ones(case.shape), f"`{case.name}`": case.x}
    for k, leaf in enumerate(outputs.leaves):
        if leaf.size == case.leaf.size:
            span = outputs.span(k)
            terms["the upstream"] = lambda d, s=span: d.w[s].reshape(case.shape)
    for name, term in terms.items():
        over = under = 0.0
        for draw in case.draws.fit:
            t, gap = term(draw), case.r(draw) - case.g(draw)
            known = np.isfinite(gap)
            over, under = (
                over + float(np.sum((t * gap)[known])),
                under + float(np.sum((t * t)[known])),
            )
        if under and over:
            number = over / under
            yield Explanation(
                "term",
                words.added(case.name, number, name),
                lambda draw, c=number, f=term: case.g(draw) + c * f(draw),
            )
