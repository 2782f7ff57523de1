"""Explanations of part of a gradient: by index, or by the output that it comes from."""

from collections.abc import Callable, Iterator

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis import words
from pullback.check.diagnosis.draws import Draw
from pullback.check.diagnosis.explanations import Case, Explanation, Predict
from pullback.check.probe import Array


def regions(case: Case) -> Iterator[Explanation]:
    """Wrong in some places, right in all others, whatever the values: a few elements, rows, halves, a triangle."""
    wrong, live = _union(case, case.wrong), _union(case, case.live)
    right = live & ~wrong
    if not wrong.any() or not right.any() or not _keeps_to(case, wrong):
        return
    for name, mask in _named_regions(case, wrong):
        if mask[wrong].all() and not (mask & right).any():
            for how, inside in ways(case, mask):
                yield Explanation(
                    "element" if name.startswith("element") else "places",
                    words.region(case.name, name, how),
                    lambda draw, m=mask, f=inside: np.where(m, f(draw), case.g(draw)),
                )


def _union(case: Case, of: Callable[[Draw], Array]) -> Array:
    return np.any([of(draw) for draw in case.draws.tested], axis=0)


def _keeps_to(case: Case, wrong: Array) -> bool:
    """Whether no draw of the pool is wrong elsewhere: else it is a condition on values in disguise."""
    return not any((case.wrong(draw) & ~wrong).any() for draw in case.draws.pool)


def ways(case: Case, mask: Array) -> Iterator[tuple[str, Predict]]:
    """How a gradient may be wrong in part: zero, with a factor, the upstream as it came; or just so."""
    yield "zero", lambda draw: np.zeros(case.shape)
    number = _factor_within(case, mask)
    if number is not None:
        text = "has the wrong sign" if abs(number + 1) < 1e-9 else words.times(number)
        yield text, lambda draw: number * case.g(draw)
    outputs = case.subject.outputs
    for k, leaf in enumerate(outputs.leaves):
        if leaf.size == case.leaf.size:
            span = outputs.span(k)
            yield "is the upstream as it came", lambda draw, s=span: draw.w[s].reshape(case.shape)
    yield "is wrong", case.r


def _factor_within(case: Case, mask: Array) -> float | None:
    over = under = 0.0
    for draw in case.draws.tested:
        g, r = case.g(draw), case.r(draw)
        known = mask & np.isfinite(g) & np.isfinite(r)
        over, under = over + float(np.sum((g * r)[known])), under + float(np.sum((g * g)[known]))
    return over / under if under else None


def _named_regions(case: Case, wrong: Array) -> Iterator[tuple[str, Array]]:
    where = np.argwhere(wrong)
    if len(where) <= n.FEW_ELEMENTS:
        indices = ", ".join(str(list(map(int, index))) for index in where)
        yield f"element {indices}" if len(where) == 1 else f"elements {indices}", wrong
    shape = case.shape
    index = np.indices(shape)
    for axis, size in enumerate(shape):
        along = index[axis]
        if size > 1:
            yield f"the first entry along axis {axis}", along == 0
            yield f"the last entry along axis {axis}", along == size - 1
            yield f"all but the first entry along axis {axis}", along > 0
            yield f"all but the last entry along axis {axis}", along < size - 1
            yield f"the first half along axis {axis}", along < size // 2
            yield f"the second half along axis {axis}", along >= size - size // 2
            yield f"every other entry along axis {axis} (0, 2, …)", along % 2 == 0
            yield f"every other entry along axis {axis} (1, 3, …)", along % 2 == 1
            for k in range(size if size <= n.MOST_ROWS else 0):
                yield f"index {k} along axis {axis}", along == k
                yield f"index {k} and above along axis {axis}", along >= k
                yield f"below index {k} along axis {axis}", along < k
    if len(shape) >= 2:
        row, column = index[-2], index[-1]
        yield "the diagonal", row == column
        yield "all but the diagonal", row != column
        yield "the upper triangle", row < column
        yield "the lower triangle", row > column
        yield "the diagonal and above", row <= column
        yield "the diagonal and below", row >= column
        edge = (row == 0) | (row == shape[-2] - 1) | (column == 0) | (column == shape[-1] - 1)
        yield "the border", edge
    yield f"{int(wrong.sum())} of {wrong.size} elements", wrong


def by_output(case: Case) -> Iterator[Explanation]:
    """What one output contributes is left out, has the wrong sign or a factor; or only one is used."""
    outputs = case.subject.outputs
    if len(outputs.leaves) < 2:
        return
    for k, leaf in enumerate(outputs.leaves):
        part = {}
        for draw in case.draws.tested:
            w = np.zeros(draw.w.size)
            w[outputs.span(k)] = draw.w[outputs.span(k)]
            part[id(draw)] = case.draws.truth.vjp(draw.x, w)[0][case.span].reshape(case.shape)
        over = under = 0.0
        for draw in case.draws.fit:
            p, gap = part[id(draw)], case.r(draw) - case.g(draw)
            known = np.isfinite(p) & np.isfinite(gap)
            over, under = (
                over + float(np.sum((p * gap)[known])),
                under + float(np.sum((p * p)[known])),
            )
        if under:
            number = 1 + over / under
            yield Explanation(
                "term",
                words.part_of_outputs(case.name, leaf.name, number),
                lambda draw, p=part, c=number: case.g(draw) + (c - 1) * p[id(draw)],
            )


def by_position_of_output(case: Case) -> Iterator[Explanation]:
    """Some entries of the output are not used: a row, a half, all but the first."""
    outputs = case.subject.outputs
    for k, leaf in enumerate(outputs.leaves):
        span, shape = outputs.span(k), leaf.shape
        index = np.indices(shape)
        for axis, size in enumerate(shape):
            if size < 2:
                continue
            along = index[axis].ravel()
            kept = {
                f"the first entry along axis {axis} of the upstream of `{leaf.name}` is left out": along
                > 0,
                f"the last entry along axis {axis} of the upstream of `{leaf.name}` is left out": along
                < size - 1,
                f"only the first entry along axis {axis} of the upstream of `{leaf.name}` is used": along
                == 0,
                f"only the last entry along axis {axis} of the upstream of `{leaf.name}` is used": along
                == size - 1,
            }
            for text, mask in kept.items():
                yield Explanation(
                    "term", f"{text} in the gradient for `{case.name}`", _masked(case, span, mask)
                )


def _masked(case: Case, span: slice, mask: Array) -> Predict:
    def predict(draw: Draw) -> Array:
        w = draw.w.copy()
        w[span] = np.where(mask, w[span], 0.0)
        return case.draws.truth.vjp(draw.x, w)[0][case.span].reshape(case.shape)

    return predict
