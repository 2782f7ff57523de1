"""Ways to a solution: iteration, Anderson's acceleration of it, Newton's method, and descent by Newton's directions.

All of them work on rows of numbers and return the solution, a residual and the number of steps. Residuals are roots of
mean squares beside 1 plus that of the solution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.functions.implicit.linear_solvers import Solved

Rows = Callable[[Any], Any]


def mean_size(xp: Any, a: Any) -> Any:
    """The root of the mean square; of no numbers, as of a batch of no examples, 0."""
    return xp.sqrt(xp.divide_or_zero(xp.sum(xp.square(a)), xp.size(a, (0, 1))))


def beside(xp: Any, residual: Any, x: Any) -> Any:
    """The size of a residual beside that of the solution; NaN where the latter's square is out of range."""
    whole = 1.0 + mean_size(xp, x)
    return mean_size(xp, residual) / xp.where(xp.isfinite(whole), whole, xp.nan_like(whole))


def _goes_on(xp: Any, tolerance: float | None, most: int) -> Callable[..., Any]:
    def goes_on(k: Any, size: Any, *_: Any) -> Any:
        return k < most if tolerance is None else xp.logical_and(k < most, size > tolerance)

    return goes_on


def iterated(
    xp: Any, f: Rows, x: Any, tolerance: float | None, most: int, damping: float
) -> Solved:
    """Take x ← f(x), or a part of the way there."""

    def stepped(x: Any) -> tuple[Any, Any]:
        y = f(x)
        return y, (y if damping == 1.0 else x + damping * (y - x))

    if tolerance is None:
        # Sizes cost time: only the last step is measured.
        _, x = xp.loop(lambda k, _: k < most - 1, lambda k, x: (k + 1, stepped(x)[1]), (0, x))
        y, following = stepped(x)
        return Solved(following, beside(xp, y - x, y), most)

    def step(k: Any, size: Any, x: Any) -> tuple[Any, Any, Any]:
        del size
        y, following = stepped(x)
        return k + 1, beside(xp, y - x, y), following

    start = (0, xp.infinity_like(x), x)
    k, size, x = xp.loop(_goes_on(xp, tolerance, most), step, start)
    return Solved(x, size, k)


def anderson(
    xp: Any, f: Rows, x: Any, tolerance: float | None, most: int, damping: float, memory: int
) -> Solved:
    """The mix of the last steps whose residuals cancel best.

    The memory starts full of the first step: equal residuals share equally, which is that step itself.
    """
    y = f(x)

    def step(k: Any, size: Any, x: Any, y: Any, xs: Any, ys: Any) -> tuple[Any, ...]:
        del size, x, y
        differences = ys - xs
        gram = xp.einsum("ibn,jbn->bij", differences, differences)
        shares = xp.shares_of(gram)
        x = xp.einsum("bi,ibn->bn", shares, xs + damping * differences)
        y = f(x)
        slot = k % memory
        return k + 1, beside(xp, y - x, y), x, y, xp.with_row(xs, slot, x), xp.with_row(ys, slot, y)

    state = (1, beside(xp, y - x, y), x, y, xp.rows_like(x, memory), xp.rows_like(y, memory))
    k, size, _, y, *_ = xp.loop(_goes_on(xp, tolerance, most), step, state)
    return Solved(y, size, k)


def stepped(
    xp: Any, residual: Rows, step: Rows, x: Any, tolerance: float | None, most: int
) -> Solved:
    """Take x ← step(x), until the residual of the equation is small."""
    if tolerance is None:
        _, x = xp.loop(lambda k, _: k < most, lambda k, x: (k + 1, step(x)), (0, x))
        return Solved(x, beside(xp, residual(x), x), most)

    def measured(k: Any, size: Any, x: Any) -> tuple[Any, Any, Any]:
        del size
        x = step(x)
        return k + 1, beside(xp, residual(x), x), x

    start = (0, beside(xp, residual(x), x), x)
    k, size, x = xp.loop(_goes_on(xp, tolerance, most), measured, start)
    return Solved(x, size, k)


Directions = Callable[[Any], tuple[Any, Any]]


def newton(xp: Any, direction: Directions, x: Any, tolerance: float | None, most: int) -> Solved:
    """Take x ← x + d, given what has the residual and the direction d = −F_x⁻¹ F at x.

    A step that makes the residual larger is halved, as often as that helps.
    """

    def step(k: Any, size: Any, x: Any, d: Any, r: Any, share: Any) -> tuple[Any, ...]:
        moved = x + share * d
        r_there, d_there = direction(moved)
        size_there = mean_size(xp, r_there)
        worse = xp.logical_not(size_there < mean_size(xp, r))
        retry = xp.logical_and(worse, share > _LEAST)

        def keep(old: Any, new: Any) -> Any:
            return xp.where(retry, old, new)

        share = xp.where(retry, share / 2.0, xp.ones_like(share))
        measured = keep(size, beside(xp, r_there, moved))
        return k + 1, measured, keep(x, moved), keep(d, d_there), keep(r, r_there), share

    r, d = direction(x)
    size = beside(xp, r, x)
    state = (0, size, x, d, r, xp.ones_like(size))
    k, size, x, *_ = xp.loop(_goes_on(xp, tolerance, most), step, state)
    return Solved(x, size, k)


def descended(
    xp: Any, value: Rows, direction: Directions, x: Any, tolerance: float | None, most: int
) -> Solved:
    """Take x ← x + s d, given what has the gradient and Newton's direction; s is halved until the value falls enough.

    Where that direction does not go down, it is the gradient's.
    """

    def downhill(gradient: Any, d: Any) -> tuple[Any, Any]:
        slope = xp.sum(gradient * d)
        down = slope < 0
        return xp.where(down, d, -gradient), xp.where(down, slope, -xp.sum(xp.square(gradient)))

    def step(k: Any, size: Any, x: Any, g: Any, d: Any) -> tuple[Any, ...]:
        del size
        d, slope = downhill(g, d)
        before = value(x)

        def too_far(n: Any, share: Any) -> Any:
            there = value(x + share * d)
            rounding = 4.0 * xp.limits(x).eps * xp.magnitude(before)
            falls = there <= before + 1e-4 * share * slope + rounding
            return xp.logical_and(n < _HALVINGS, xp.logical_not(falls))

        _, share = xp.loop(too_far, lambda n, s: (n + 1, s / 2.0), (0, xp.ones_like(before)))
        x = x + share * d
        g, d = direction(x)
        return k + 1, beside(xp, g, x), x, g, d

    g, d = direction(x)
    state = (0, beside(xp, g, x), x, g, d)
    k, size, x, *_ = xp.loop(_goes_on(xp, tolerance, most), step, state)
    return Solved(x, size, k)


_HALVINGS = 20
_LEAST = 2.0**-10  # of a step of Newton's; then it is taken, worse or not
