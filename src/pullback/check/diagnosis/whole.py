"""Explanations of a whole gradient: zero, a factor, rearranged, rounded, something added."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis import words
from pullback.check.diagnosis.draws import Draw
from pullback.check.diagnosis.explanations import Case, Explanation
from pullback.check.diagnosis.moves import MIXING, forms, moves
from pullback.check.diagnosis.sizes import explaining
from pullback.check.probe import Array

Quantity = Callable[[Any], Array]


def zero(case: Case) -> Iterator[Explanation]:
    """Nothing flows."""
    kind, text = "detached", "is zero, but the function depends on it: detached?"
    if case.none:
        kind, text = "none", "is missing (the rule gives None), but the function depends on it"
    yield Explanation(kind, text, lambda _: np.zeros(case.shape))


def constant_factor(case: Case) -> Iterator[Explanation]:
    """The same factor everywhere."""
    number, predict = case.multiple(case.g)
    if number:
        near = abs(number - 1) < 0.01
        kind = "sign" if words.is_minus_one(number) else "small" if near else "factor"
        yield Explanation(kind, words.factor(number, explaining(case, number)), predict)


_CONJUGATE = (
    "is the complex conjugate of what it should be: a conjugate is missing, or one too many"
)


def rearranged(case: Case) -> Iterator[Explanation]:
    """The right numbers in other places."""
    for move in moves(case.shape, pairs=case.leaf.is_complex):
        if move.kind not in MIXING:
            text = _CONJUGATE if move.kind == "conjugate" else f"is right but {move.how}"
            yield Explanation(move.kind, text, lambda draw, m=move: m.apply(case.g(draw)))


def rounded(case: Case) -> Iterator[Explanation]:
    """Right to the digits of a shorter format; half of float32 only if it was seen in the program."""
    for kind, bits in (("float32", 24), ("float16", 11), ("bfloat16", 8)):
        if (kind == "float32" or case.short) and _is_rounded(case, 2.0**-bits):
            text = f"is right to {bits} bits only: computed or rounded in {kind} inside the rule"
            # nothing predicts rounding itself: that the error is of its size, and as erratic, was the test
            yield Explanation("precision", text, case.r)


def _is_rounded(case: Case, unit: float) -> bool:
    """Errors of the size of the unit, of either sign, that change erratically with the point."""
    every = np.concatenate([_relative(case, d).ravel() for d in case.draws.tested])
    if np.max(np.abs(every), initial=0) > 8 * unit or np.sqrt(np.mean(every**2)) > 2 * unit:
        return False
    here, errors = case.draws.fit[0], list[Array]()
    for move in range(2 * n.SEVERAL):
        moved = case.draws.truth.draw(here.x * (1 + n.SEVERAL * n.UNITS * move * unit), here.w)
        if moved is None:
            return False
        errors.append(_relative(case, moved))
    bend = np.max(np.abs(np.diff(errors, 2, axis=0)), axis=0)  # next to nothing for what is smooth
    return bool(np.median(bend) > unit / 8 and np.any(every > 0) and np.any(every < 0))


def _relative(case: Case, draw: Draw) -> Array:
    g, r = case.g(draw), case.r(draw)
    return np.where(np.isfinite(g) & (g != 0), (r - g) / np.where(g == 0, 1, g), 0.0)


def not_transposed(case: Case) -> Iterator[Explanation]:
    """The derivative as it is, in place of the transposed one: what runs forwards should run backwards."""
    (output, *more), size = case.subject.outputs.leaves, case.leaf.size
    if more or output.shape != case.leaf.shape or output.is_complex or size > n.MANY:
        return
    text = (
        "is the derivative applied forwards, not transposed: it runs in the direction of the function, "
        "and should run in the other one"
    )

    def predict(draw: Draw) -> Array:
        rows = [case.vjp(draw.x, row).ravel() for row in np.eye(size)]
        return (np.array(rows) @ draw.w).reshape(case.shape)

    yield Explanation("transposed", text, predict)


def passed_through(case: Case) -> Iterator[Explanation]:
    """The upstream as it came, or a multiple of it."""
    for how, upstream in case.upstreams():
        for number in (1.0, -1.0, case.multiple(upstream)[0]):
            if number:
                idle = not any(np.any(case.g(d)[case.wrong(d)]) for d in case.draws.tested)
                text = words.passed(number, how, idle=idle)
                yield Explanation("passed", text, lambda d, f=upstream, c=number: c * f(d))


def added_term(case: Case) -> Iterator[Explanation]:
    """Something is added that does not belong there: a multiple of one, of an input, an output or the upstream."""
    known = [(name, q) for name, q in quantities(case) if "upstream" not in name]
    terms = {"1": lambda _: np.ones(case.shape), **dict(known)}
    for _, upstream in case.upstreams():
        terms["the upstream"] = upstream
        terms |= {
            f"the upstream × {name}": lambda d, f=upstream, q=q: f(d) * q(d) for name, q in known
        }
    for name, term in terms.items():
        number, predict = case.multiple(term, added=True)
        if number:
            text = words.added(number, name, decay=name == f"`{case.leaf.name}`")
            yield Explanation("term", text, predict)


def element_by_element(case: Case) -> Iterator[Explanation]:
    """A factor too many or missing that differs from element to element."""
    for form, quantity in formed(case):
        # signs are the same at all points near one another: only others can confirm them
        def predict(d: Draw, q: Quantity = quantity) -> Array:
            return q(d) * case.g(d)

        if not form.startswith("sign") or case.holds(predict, case.draws.pool):
            yield Explanation("factor", words.named_factor(form), predict)


def formed(case: Case) -> Iterator[tuple[str, Quantity]]:
    """Every form of every quantity, the plain forms first."""
    found = [[(q, *form) for form in forms(name)] for name, q in quantities(case)]
    for quantity, text, apply in chain.from_iterable(zip(*found, strict=True)):
        yield text, lambda d, q=quantity, a=apply: a(q(d))


def instead_of_derivative(case: Case) -> Iterator[Explanation]:
    """The upstream times something that is not the derivative."""
    for how, upstream in case.upstreams():
        for form, quantity in formed(case):

            def made(d: Draw, q: Quantity = quantity, f: Quantity = upstream) -> Array:
                return q(d) * f(d)

            number, predict = case.multiple(made)
            if number:
                text = words.instead(number, how, form)
                yield Explanation("term", text, predict)


def quantities(case: Case) -> Iterator[tuple[str, Callable[[Draw], Array]]]:
    """Arrays that belong to a draw and can be laid over the gradient: outputs, inputs, upstreams."""
    for what in "yxw":
        layout = case.layout if what == "x" else case.subject.outputs
        for k, leaf in enumerate(layout.leaves):
            name = f"the upstream of `{leaf.name}`" if what == "w" else f"`{leaf.name}`"
            real = not leaf.is_complex and not case.leaf.is_complex
            if real and lies_over(leaf.shape, case.shape):
                span, shape = layout.span(k), leaf.shape
                yield name, lambda d, a=what, s=span, t=shape: getattr(d, a)[s].reshape(t)


def lies_over(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether an array of one shape broadcasts to the other."""
    try:
        return np.broadcast_shapes(shape, other) == other
    except ValueError:
        return False
