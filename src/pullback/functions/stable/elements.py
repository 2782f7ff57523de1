"""Products with zeros in them, and a choice between functions that are not defined everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback._project import describe
from pullback.errors import ArgumentError
from pullback.functions._arguments import (
    arrays_for,
    axes_of,
    dtype_of,
    in_models,
    real_arrays,
    with_own_gradient,
)


@with_own_gradient
def cumprod(x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Any:
    """Cumulative products, as `tf.math.cumprod`, whose gradient is wrong where an entry is 0: it divides by entries.

    Use it for transmittances, survival probabilities and other products that may reach 0, as an entry or by underflow.
    Its gradient multiplies only, in about log₂ n steps. A product that overflows is infinite, and what comes after it
    infinite or NaN.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.constant([0.0, 2.0, 3.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = pb.functions.cumprod(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [9.0, 0.0, 0.0]
    """
    xp, a = real_arrays("cumprod", x=x)
    (axis,) = axes_of("cumprod", a, axis, one=True)
    products = xp.cumprod(a, axis, exclusive, reverse)

    def cumprod_pullback(dy: Any) -> Any:
        dy = xp.shifted(xp.wide(dy), axis, 1, reverse) if exclusive else xp.wide(dy)
        return _slopes(xp, a, _products_before(a, axis=axis, reverse=reverse), dy, axis, reverse)

    return xp.astype(products, dtype_of(xp, x)), cumprod_pullback


def _slopes(xp: Any, a: Any, before: Any, dy: Any, axis: int, reverse: bool) -> Any:
    """dx[k] = Π before k · S[k], with S[k] = dy[k] + x[k+1] · S[k+1]; of exclusive products S begins one later."""
    later = xp.shifted(a, axis, 1, reverse)
    return before * xp.linear_recurrence(later, dy, axis, reverse)


@with_own_gradient
def _products_before(a: Any, *, axis: int, reverse: bool) -> Any:
    """The products of what comes before each entry, whose rule differentiates nothing but multiplications."""
    xp = arrays_for(a)

    def products_before_pullback(dy: Any) -> Any:
        dy = xp.shifted(dy, axis, 1, reverse)
        return _slopes(xp, a, xp.products_before(a, axis, reverse), dy, axis, reverse)

    return xp.cumprod(a, axis, exclusive=True, reverse=reverse), products_before_pullback


@in_models
def safe_where(condition: Any, f: Callable[..., Any], g: Callable[..., Any], x: Any) -> Any:
    """f(x) where the condition holds, g(x) elsewhere, entry by entry; neither sees entries that are not its own.

    Use it in place of `tf.where(condition, f(x), g(x))`, whose gradient is NaN wherever the function that is not
    chosen has an infinite slope. In the place of the other's entries each function sees one of its own.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.constant([0.0, 4.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = pb.functions.safe_where(x > 0, lambda v: 1.0 / v, tf.zeros_like, x)
    >>> tape.gradient(y, x).numpy().tolist()
    [0.0, -0.0625]
    """
    xp = arrays_for(x, condition)
    for function, name in ((f, "f"), (g, "g")):
        if not callable(function):
            raise ArgumentError(
                f"pb.functions.safe_where got {name} as {function!r}; wanted a function of x. Write `lambda x: ...`."
            )
    x = xp.asarray(x)
    condition = xp.as_condition(condition)
    if condition is None:
        raise ArgumentError(
            "pb.functions.safe_where got a condition that is not of booleans. Write one such as `x > 0`."
        )
    if not xp.broadcasts_to(condition, x):
        raise ArgumentError(
            f"pb.functions.safe_where got a condition {describe(condition)} for x {describe(x)}; wanted the shape "
            "of x. Write one such as `x > 0`."
        )
    mine = xp.where(condition, x, xp.stop_gradient(xp.an_entry(x, condition)))
    other = xp.where(condition, xp.stop_gradient(xp.an_entry(x, ~condition)), x)
    return xp.where(condition, f(mine), g(other))
