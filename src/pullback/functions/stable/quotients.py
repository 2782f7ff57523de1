"""Quotients and logarithms for rules, which may be infinite where nobody asks: to all orders, 0 · ∞ is 0 in them."""

from __future__ import annotations

from typing import Any

from pullback.functions._arguments import arrays_for, with_own_gradient


@with_own_gradient
def reciprocal(x: Any) -> Any:
    """1 / x."""
    xp = arrays_for(x)

    def reciprocal_pullback(dy: Any, *, outputs: Any) -> Any:
        return -xp.times_or_zero(outputs, xp.times_or_zero(outputs, dy))

    return 1.0 / x, reciprocal_pullback


@with_own_gradient
def quotient(x: Any, y: Any) -> Any:
    """The quotient, and 0 where x is."""
    xp = arrays_for(x)

    def quotient_pullback(dz: Any, *, outputs: Any) -> Any:
        over = reciprocal(y)
        # Forward mode multiplies by this first: its 0 · ∞ is to be 0 as well.
        of_y = xp.where((x == 0) & (y == 0), xp.zeros_like(over), over)
        return {
            "x": xp.times_or_zero(over, dz),
            "y": -xp.times_or_zero(of_y, xp.times_or_zero(outputs, dz)),
        }

    return xp.where(x == 0, xp.zeros_like(x), x / y), quotient_pullback


@with_own_gradient
def log(x: Any) -> Any:
    """The logarithm."""
    xp = arrays_for(x)

    def log_pullback(dy: Any) -> Any:
        return xp.times_or_zero(reciprocal(x), dy)

    return xp.log(x), log_pullback


@with_own_gradient
def log_of_rest(x: Any) -> Any:
    """The logarithm log(1 − x)."""
    xp = arrays_for(x)

    def log_of_rest_pullback(dy: Any) -> Any:
        return -xp.times_or_zero(reciprocal(1.0 - x), dy)

    return xp.log1p(-x), log_of_rest_pullback


@with_own_gradient
def log_of_ratio(x: Any, y: Any) -> Any:
    """The logarithm log(x / y); near 1 it is that of one plus a small difference."""
    xp = arrays_for(x)
    near = xp.magnitude(x - y) < 0.5 * y
    small = xp.where(near, x - y, xp.zeros_like(y)) / xp.where(near, y, xp.ones_like(y))

    def log_of_ratio_pullback(dz: Any) -> Any:
        to_x, to_y = (xp.times_or_zero(reciprocal(v), dz) for v in (x, y))
        return {"x": to_x, "y": -to_y}

    return xp.where(near, xp.log1p(small), xp.log(x) - xp.log(y)), log_of_ratio_pullback
