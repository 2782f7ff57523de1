"""Explanations of part of a gradient by index: a few elements, rows, halves, a triangle, the border."""

from collections.abc import Callable, Iterator

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis import words
from pullback.check.diagnosis.draws import Draw
from pullback.check.diagnosis.explanations import Case, Explanation, Predict
from pullback.check.probe import Array

Mask = Callable[[Draw], Array]
Ways = Callable[[Case, Mask], Iterator[tuple[str, Predict]]]


def regions(case: Case, how_wrong: Ways | None = None) -> Iterator[Explanation]:
    """Wrong in some places in a way that can be told, right in all others, whatever the values."""
    wrong, live = (_union(case, of) for of in (case.wrong, case.live))
    right = live & ~wrong
    if not wrong.any() or not right.any():
        return
    if any((case.wrong(draw) & ~wrong).any() for draw in case.draws.pool):
        return
    for name, mask in _named_regions(case, wrong):
        if not mask[wrong].all() or (mask & right).any():
            continue
        kind = "element" if name.startswith("element") else "places"

        def there(_: Draw, mask: Array = mask) -> Array:
            return mask

        for how, inside in (how_wrong or ways)(case, there):
            text = words.in_part(how, f"in {name}")
            yield Explanation(kind, text, case.only_where(there, inside))


def _union(case: Case, of: Mask) -> Array:
    return np.any([of(draw) for draw in case.draws.tested], axis=0)


def ways(case: Case, mask: Mask) -> Iterator[tuple[str, Predict]]:
    """How a gradient may be wrong in part: zero, with a factor, the upstream as it came, not zero as it should be."""
    draws = case.draws.tested
    idle = all(not np.any(case.g(d)[mask(d)]) for d in draws)
    should = words.IDLE if idle else ""
    if not idle:
        yield "is zero", lambda _: np.zeros(case.shape)
        number = case.factor(case.g, case.r, draws, mask)
        if number is not None:
            yield words.times(number), lambda draw: number * case.g(draw)
    for name, upstream in case.upstreams():
        yield f"is {name}{' as it came' if should else ''}{should}", upstream
        number = case.factor(upstream, case.r, draws, mask)
        if number:
            text = f"is {words.short(number)} times {name}{should}"
            yield text, lambda d, c=number, f=upstream: c * f(d)
    if idle:
        yield f"is not zero{should}", case.r


def somehow(case: Case, _: Mask) -> Iterator[tuple[str, Predict]]:
    """Without saying how."""
    yield "is wrong", case.r


def _named_regions(case: Case, wrong: Array) -> Iterator[tuple[str, Array]]:
    where, is_complex = np.argwhere(wrong), case.leaf.is_complex
    index, shape = np.indices(case.shape), case.leaf.shape
    if is_complex:  # whose parts are the last axis
        yield "the imaginary part", index[-1] == 1
        yield "the real part", index[-1] == 0
    if len(where) <= n.FEW_ELEMENTS:
        indices = ", ".join(_element(list(map(int, place)), is_complex) for place in where)
        yield f"element {indices}" if len(where) == 1 else f"elements {indices}", wrong
    for axis, size in enumerate(shape):
        if size > 1:
            yield from _along(axis, size, index[axis])
    for axis in range(len(shape) - 1):
        row, column = index[axis], index[axis + 1]
        both = f"axes {axis} and {axis + 1}" if len(shape) > 2 else "the matrix"
        ends = [(row, shape[axis] - 1), (column, shape[axis + 1] - 1)]
        yield f"the border of {both}", np.any([(i == 0) | (i == end) for i, end in ends], axis=0)
        yield f"the diagonal of {both}", row == column
        yield f"all but the diagonal of {both}", row != column
        yield f"the upper triangle of {both}", row < column
        yield f"the lower triangle of {both}", row > column
        yield f"the diagonal and above of {both}", row <= column
        yield f"the diagonal and below of {both}", row >= column
    yield f"{int(wrong.sum())} of {wrong.size} elements", wrong


def _element(index: list[int], is_complex: bool) -> str:
    if not is_complex:
        return str(index)
    return f"{index[:-1]} ({'imaginary' if index[-1] else 'real'} part)"


def _along(axis: int, size: int, along: Array) -> Iterator[tuple[str, Array]]:
    yield f"the first entry along axis {axis}", along == 0
    yield f"the last entry along axis {axis}", along == size - 1
    yield f"all but the first entry along axis {axis}", along > 0
    yield f"all but the last entry along axis {axis}", along < size - 1
    yield f"the first half along axis {axis}", along < size // 2
    yield f"the second half along axis {axis}", along >= size - size // 2
    yield f"every other entry along axis {axis} (0, 2, …)", along % 2 == 0
    yield f"every other entry along axis {axis} (1, 3, …)", along % 2 == 1
    for k in range(size if size <= n.MANY else 0):
        yield f"index {k} along axis {axis}", along == k
        yield f"index {k} and above along axis {axis}", along >= k
        yield f"below index {k} along axis {axis}", along < k
        for end in range(k + 2, size):
            yield f"index {k} to {end - 1} along axis {axis}", (along >= k) & (along < end)
