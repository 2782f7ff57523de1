"""Wrong only under a condition on values: an interval of the input's own values, its size, or against another input.

A condition is said only if values inside are wrong and values outside are right, with its ends found by halving on one
element, and the error gone just beyond them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis import words
from pullback.check.diagnosis.draws import Draw
from pullback.check.diagnosis.explanations import Case, Explanation
from pullback.check.diagnosis.parts import ways
from pullback.check.probe import Array

Quantity = Callable[[Draw], Array]


@dataclass(frozen=True)
class Interval:
    """Values of a quantity, with or without their ends."""

    low: float
    high: float

    def holds(self, q: Array) -> Array:
        """Which values lie inside."""
        return (q >= self.low) & (q <= self.high)


def conditions(case: Case) -> Iterator[Explanation]:
    """The plainest condition that tells wrong from right elements on every draw."""
    draws = [*case.draws.tested, *case.draws.pool]
    for name, quantity, can_halve in _quantities(case):
        values, wrong = _gathered(case, draws, quantity)
        found = _interval(values, wrong)
        if found is None:
            continue
        if can_halve:
            found = _sharpened(case, quantity, found, values, wrong)
        if found is None:
            continue
        for how, inside in _ways_inside(case, draws, quantity, found):
            yield Explanation(
                "condition",
                words.condition(case.name, name, found.low, found.high, how, case.constants),
                lambda d, q=quantity, f=inside, i=found: np.where(i.holds(q(d)), f(d), case.g(d)),
            )


def _quantities(case: Case) -> Iterator[tuple[str, Quantity, bool]]:
    yield case.name, case.x, True
    yield f"|{case.name}|", lambda d: np.abs(case.x(d)), True
    for k, leaf in enumerate(case.layout.leaves):
        if k != case.which and leaf.shape == case.leaf.shape and not leaf.is_complex:
            span = case.layout.span(k)
            yield leaf.name, lambda d, s=span: d.x[s].reshape(case.shape), False
            yield (
                f"{case.name} − {leaf.name}",
                lambda d, s=span: case.x(d) - d.x[s].reshape(case.shape),
                False,
            )
    outputs = case.subject.outputs
    for k, leaf in enumerate(outputs.leaves):
        if leaf.shape == case.leaf.shape and not leaf.is_complex:
            span = outputs.span(k)
            yield leaf.name, lambda d, s=span: d.y[s].reshape(case.shape), False
            yield (
                f"the upstream of {leaf.name}",
                lambda d, s=span: d.w[s].reshape(case.shape),
                False,
            )
    for axis, size in enumerate(case.shape):
        if size > 2:
            yield (
                f"the rank of {case.name} along axis {axis}",
                lambda d, k=axis: _rank(case.x(d), k),
                False,
            )


def _rank(x: Array, axis: int) -> Array:
    """0 for the greatest, 1 for the next."""
    return np.argsort(np.argsort(-x, axis=axis, kind="stable"), axis=axis, kind="stable").astype(
        float
    )


def _gathered(case: Case, draws: list[Draw], quantity: Quantity) -> tuple[Array, Array]:
    """Values and whether they are wrong, of elements that have a gradient."""
    values, wrong = [], []
    for draw in draws:
        live = case.live(draw)
        values.append(np.broadcast_to(quantity(draw), case.shape)[live])
        wrong.append(case.wrong(draw)[live])
    return np.concatenate(values), np.concatenate(wrong)


def _interval(values: Array, wrong: Array) -> Interval | None:
    """The interval that holds all wrong values and no right ones, its ends half way to the next right ones."""
    bad, good = values[wrong], values[~wrong]
    if bad.size < n.LEAST_VALUES or good.size < n.LEAST_VALUES or not np.isfinite(bad).all():
        return None
    low, high = float(bad.min()), float(bad.max())
    if ((good >= low) & (good <= high)).any():
        return None
    below, above = good[good < low], good[good > high]
    return Interval(
        -np.inf if not below.size else (low + float(below.max())) / 2 if low != high else low,
        np.inf if not above.size else (high + float(above.min())) / 2 if low != high else high,
    )


def _sharpened(
    case: Case, quantity: Quantity, found: Interval, values: Array, wrong: Array
) -> Interval | None:
    """The ends found by halving on one element; nothing if the error fades out instead of ending."""
    if found.low == found.high:
        return found
    draw = max(case.draws.tested, key=lambda d: int(case.wrong(d).sum()))
    chosen = np.flatnonzero((case.wrong(draw) & case.live(draw)).ravel())
    if not chosen.size:
        return found
    entry = case.span.start + int(chosen[0])
    ends = []
    for end, sign in ((found.low, -1.0), (found.high, 1.0)):
        if not np.isfinite(end):
            ends.append(end)
            continue
        good = values[~wrong]
        beyond = good[good * sign > end * sign]
        right = float(beyond.min() if sign > 0 else beyond.max())
        bad = values[wrong]
        inside = float(bad.max() if sign > 0 else bad.min())
        sharp = _halved(case, draw, entry, inside, right)
        if sharp is None:
            return None
        ends.append(_plain(sharp, case.constants))
    return Interval(*ends)


def _halved(case: Case, draw: Draw, entry: int, wrong: float, right: float) -> float | None:
    """Where one element begins to be right, between a wrong and a right value; nothing if its error fades."""
    errors = []
    for _ in range(n.HALVINGS):
        middle = (wrong + right) / 2
        error = _error_at(case, draw, entry, middle)
        if error is None:
            return None
        if error > 0:
            errors.append(error)
            wrong = middle
        else:
            right = middle
    fades = len(errors) > 2 and errors[-1] < n.FADED * errors[0]
    return None if fades else (wrong + right) / 2


def _error_at(case: Case, draw: Draw, entry: int, value: float) -> float | None:
    """The relative error of one element with another value."""
    x = draw.x.copy()
    x[entry] = np.copysign(value, x[entry]) if value >= 0 > x[entry] else value
    moved = case.draws.draw(x, draw.w)
    if moved is None or not np.isfinite(moved.g[entry]):
        return None
    return float(moved.gap[entry] / max(abs(moved.g[entry]), abs(moved.r[entry]), 1e-300))


def _plain(value: float, constants: tuple[float, ...]) -> float:
    """A constant of the program, or zero, where the end found is that."""
    for constant in (0.0, *constants, *(-c for c in constants)):
        if abs(value - constant) <= n.SNAP * max(abs(constant), abs(value), n.SNAP):
            return float(constant)
    return float(f"{value:.3g}")


def _ways_inside(
    case: Case, draws: list[Draw], quantity: Quantity, found: Interval
) -> Iterator[tuple[str, Callable[[Draw], Array]]]:
    """How it is wrong inside, with the factor fitted there alone."""
    over = under = 0.0
    for draw in draws:
        g, r = case.g(draw), case.r(draw)
        known = (
            found.holds(np.broadcast_to(quantity(draw), case.shape))
            & np.isfinite(g)
            & np.isfinite(r)
        )
        over, under = over + float(np.sum((g * r)[known])), under + float(np.sum((g * g)[known]))
    number = over / under if under else None
    for how, inside in ways(case, np.ones(case.shape, bool)):
        if how.startswith(("has the wrong sign", "is off")):
            continue
        if how == "is wrong" and number is not None:
            text = "has the wrong sign" if abs(number + 1) < 1e-9 else words.times(number)
            yield text, lambda d: number * case.g(d)
        yield how, inside
