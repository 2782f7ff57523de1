"""Explanations by something that went into the rule changed: the upstream, or a saved input."""

from collections.abc import Iterator

import numpy as np

from pullback.check.diagnosis import words
from pullback.check.diagnosis.draws import Draw
from pullback.check.diagnosis.explanations import Case, Explanation, Predict
from pullback.check.diagnosis.whole import rearrangements
from pullback.check.probe import Array


def upstream(case: Case) -> Iterator[Explanation]:
    """The right rule for another upstream: rearranged, summed, averaged, or without its sign."""
    outputs = case.subject.outputs
    for k, leaf in enumerate(outputs.leaves):
        span, shape = outputs.span(k), (*leaf.shape, 2) if leaf.is_complex else leaf.shape
        for kind, how, move in rearrangements(shape, leaf.is_complex):
            yield Explanation(
                kind,
                words.upstream_changed(case.name, leaf.name, how or "conjugated"),
                _of_upstream(case, span, lambda w, m=move, s=shape: m(w.reshape(s)).ravel()),
            )


def _of_upstream(case: Case, span: slice, move) -> Predict:  # noqa: ANN001
    def predict(draw: Draw) -> Array:
        w = draw.w.copy()
        w[span] = move(w[span])
        return case.draws.truth.vjp(draw.x, w)[0][case.span].reshape(case.shape)

    return predict


def saved_input(case: Case) -> Iterator[Explanation]:
    """The right rule for another point: an input rearranged, rounded, negated, or taken for another."""
    layout = case.layout
    for k, leaf in enumerate(layout.leaves):
        span, shape = layout.span(k), (*leaf.shape, 2) if leaf.is_complex else leaf.shape
        for kind, how, move in rearrangements(shape, leaf.is_complex):
            yield Explanation(
                kind,
                words.saved(case.name, leaf.name, how or "conjugated"),
                _at_other_point(
                    case, span, lambda d, m=move, s=shape, p=span: m(d.x[p].reshape(s)).ravel()
                ),
            )
        for kind in ("float32", "float16"):
            yield Explanation(
                "precision",
                words.saved(case.name, leaf.name, f"rounded to {kind}"),
                _at_other_point(
                    case, span, lambda d, p=span, t=kind: d.x[p].astype(t).astype(float)
                ),
            )
        yield Explanation(
            "saved",
            words.saved(case.name, leaf.name, "without its sign"),
            _at_other_point(case, span, lambda d, p=span: np.abs(d.x[p])),
        )
        yield from _taken_for_another(case, k, span)


def _taken_for_another(case: Case, which: int, span: slice) -> Iterator[Explanation]:
    size, name = span.stop - span.start, case.layout.leaves[which].name
    others = [
        (leaf.name, case.layout.span(k), "x")
        for k, leaf in enumerate(case.layout.leaves)
        if k != which
    ]
    outputs = case.subject.outputs
    others += [(leaf.name, outputs.span(k), "y") for k, leaf in enumerate(outputs.leaves)]
    others += [("the upstream", outputs.span(k), "w") for k, _ in enumerate(outputs.leaves)]
    for other, part, what in others:
        if part.stop - part.start == size:
            yield Explanation(
                "saved",
                words.mixed_up(case.name, name, other),
                _at_other_point(case, span, lambda d, p=part, a=what: getattr(d, a)[p]),
            )


def _at_other_point(case: Case, span: slice, value) -> Predict:  # noqa: ANN001
    def predict(draw: Draw) -> Array:
        x = draw.x.copy()
        x[span] = value(draw)
        return case.draws.truth.vjp(x, draw.w)[0][case.span].reshape(case.shape)

    return predict
