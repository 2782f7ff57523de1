"""Wrong only under a condition on values: an interval of an input, of its size, of a difference, of an output.

A condition is said only if values inside are wrong and values outside are right, at all draws; each end is found by
halving the way between a wrong and a right point, and the error must end there and not fade.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis import words
from pullback.check.diagnosis.draws import Draw
from pullback.check.diagnosis.explanations import Case, Explanation, real_shape
from pullback.check.diagnosis.parts import ways
from pullback.check.probe import Array

Quantity = Callable[[Draw], Array]


@dataclass(frozen=True)
class Interval:
    """Values of a quantity, ends included where both are the same."""

    low: float
    high: float

    def holds(self, q: Array) -> Array:
        """Which values lie inside."""
        return (q >= self.low) & (q <= self.high)


def conditions(case: Case) -> Iterator[Explanation]:
    """Wrong in a way that can be told where a condition holds."""
    draws = [*case.draws.tested, *case.draws.pool]
    for name, quantity in _quantities(case):
        values, wrong = _gathered(case, draws, quantity)
        found = _interval(values, wrong, case.constants)
        if found is None:
            continue

        def mask(d: Draw, q: Quantity = quantity, i: Interval = found) -> Array:
            return i.holds(q(d))

        for how, inside in ways(case, mask):
            if case.holds(case.only_where(mask, inside), draws):
                ends = _sharpened(case, draws, quantity, found)
                if ends is None:
                    break
                where = words.interval(name, ends.low, ends.high)
                predict = case.only_where(lambda d, q=quantity, i=ends: i.holds(q(d)), inside)
                yield Explanation("condition", words.in_part(how, f"where {where}"), predict)


def _quantities(case: Case) -> Iterator[tuple[str, Quantity]]:
    if case.leaf.is_complex:
        return
    name = case.leaf.name
    yield name, case.x
    yield f"|{name}|", lambda d: np.abs(case.x(d))
    for k, leaf in enumerate(case.layout.leaves):
        if k != case.which and leaf.shape == case.leaf.shape and not leaf.is_complex:

            def other(d: Draw, k: int = k) -> Array:
                return d.x[case.layout.span(k)].reshape(case.shape)

            # in the order of the inputs, so that of both the same is said
            a, b = (name, leaf.name) if k > (case.which or 0) else (leaf.name, name)
            yield f"{name} − {leaf.name}", lambda d, f=other: case.x(d) - f(d)
            yield f"|{a} − {b}|", lambda d, f=other: np.abs(case.x(d) - f(d))
            yield f"{a} × {b}", lambda d, f=other: case.x(d) * f(d)
            yield leaf.name, other
    outputs = case.subject.outputs
    for k, leaf in enumerate(outputs.leaves):
        span = outputs.span(k)
        if real_shape(leaf) == case.shape:
            yield leaf.name, lambda d, s=span: d.y[s].reshape(case.shape)


def _gathered(case: Case, draws: list[Draw], quantity: Quantity) -> tuple[Array, Array]:
    """Values and whether they are wrong, of elements that have a gradient."""
    idle = not any(np.any(case.g(draw)[case.wrong(draw)]) for draw in draws)
    # where the gradient should be zero and is not, a zero is as good as any other value
    live = [np.isfinite(case.g(draw)) if idle else case.live(draw) for draw in draws]
    values = [np.broadcast_to(quantity(d), case.shape)[m] for d, m in zip(draws, live, strict=True)]
    wrong = [case.wrong(d)[m] for d, m in zip(draws, live, strict=True)]
    return np.concatenate(values), np.concatenate(wrong)


def _interval(values: Array, wrong: Array, constants: tuple[float, ...]) -> Interval | None:
    """The interval that holds all wrong values and no right ones, its ends between those and the next right ones."""
    bad, good = values[wrong], values[~wrong]
    if bad.size < n.SEVERAL or good.size < n.SEVERAL or not np.isfinite(bad).all():
        return None
    low, high = float(bad.min()), float(bad.max())
    if ((good >= low) & (good <= high)).any():
        return None
    if low == high:
        return Interval(low, high)
    below, above = good[good < low], good[good > high]
    return Interval(
        _between(float(below.max()), low, constants) if below.size else -np.inf,
        _between(high, float(above.min()), constants) if above.size else np.inf,
    )


def _between(low: float, high: float, constants: tuple[float, ...]) -> float:
    """Zero or a constant of the program that lies between, or else the middle."""
    return next((c for c in _plain_values(constants) if low <= c <= high), (low + high) / 2)


def _plain_values(constants: tuple[float, ...]) -> tuple[float, ...]:
    return 0.0, *constants, *(-c for c in constants)


def _sharpened(
    case: Case, draws: list[Draw], quantity: Quantity, found: Interval
) -> Interval | None:
    """The ends found by halving the way to a right point; nothing if the error fades out instead of ending."""
    if found.low == found.high:
        return found
    ends: list[float] = []
    for end, sign in ((found.low, -1.0), (found.high, 1.0)):
        if np.isfinite(end):
            pairs = _across(case, draws, quantity, end, sign)
            sharp = [_halved(case, quantity, *pair) for pair in (*pairs[:1], *pairs[1:][-1:])]
            known = [value for value in sharp if value is not None]
            if (
                not known
                or len(known) < len(sharp)
                or not np.allclose(known, known[0], n.EXPLAINED)
            ):
                return None
            end = known[0]
        ends.append(end)
    return Interval(*ends)


def _across(
    case: Case, draws: list[Draw], quantity: Quantity, end: float, sign: float
) -> list[tuple[int, Draw, Draw]]:
    """Elements, a draw where each is wrong, and one where it is right and lies beyond the end."""
    found: list[tuple[int, Draw, Draw]] = []
    for wrong in draws:
        for right in draws:
            beyond = (
                (sign * quantity(right) > sign * end)
                & ~case.wrong(right)
                & np.isfinite(case.g(right))
            )
            both = np.flatnonzero(beyond & case.wrong(wrong))
            found += [(int(element), wrong, right) for element in both[-1:]]
    return found


def _halved(case: Case, quantity: Quantity, element: int, wrong: Draw, right: Draw) -> float | None:
    """The value at which an element ends to be wrong, on the way from one point to another."""
    low, high, last = 0.0, 1.0, wrong
    for _ in range(n.HALVINGS):
        middle = (low + high) / 2
        moved = case.draws.truth.draw(wrong.x + middle * (right.x - wrong.x), wrong.w)
        if moved is None:
            return None
        if case.wrong(moved).ravel()[element]:
            low, last = middle, moved
        else:
            high = middle
    entry = case.span.start + element
    if last.gap[entry] < n.BARS * last.floor[entry]:
        return None
    values = [
        np.broadcast_to(quantity(d), case.shape).ravel()[element] for d in (wrong, last, right)
    ]
    return _plain(float(values[1]), abs(float(values[2] - values[0])), case.constants)


def _plain(value: float, width: float, constants: tuple[float, ...]) -> float:
    """A constant of the program, or zero, where the end found is that."""
    for constant in _plain_values(constants):
        if abs(value - constant) <= n.EXPLAINED * width:
            return float(constant)
    return float(f"{value:.3g}")
