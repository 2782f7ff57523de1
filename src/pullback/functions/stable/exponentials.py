"""Logarithms of sums and differences of exponentials: no overflow inside, and gradients right where they are small.

A gradient here is e to a difference, which is as wrong, relatively, as the difference is absolutely: so the rounding of
a difference is computed too, and counted in.
"""

from __future__ import annotations

import math
from typing import Any

from pullback._define import with_partials
from pullback.functions._arguments import (
    arrays_for,
    axes_of,
    broadcasting_arrays,
    dtype_of,
    real_arrays,
    with_axes,
    with_own_gradient,
)
from pullback.functions._units import in_units
from pullback.functions.stable.softmax import difference, shared_out


@with_own_gradient
def sigmoids(z: Any, small: Any = None) -> Any:
    """σ(z) and σ(−z), for rules: each is right to the last digits where it is small, and so are their derivatives.

    `small` is e to minus the size of z, if it is known.
    """
    xp = arrays_for(z)
    small = xp.exp(-xp.magnitude(z)) if small is None else small
    above = 1.0 / (1.0 + small)
    below = small * above

    def sigmoids_pullback(up: Any, down: Any, *, outputs: Any) -> Any:
        return {"z": (up - down) * outputs[0] * outputs[1]}

    return xp.where(z < 0, below, above), xp.where(z < 0, above, below), sigmoids_pullback


@with_own_gradient
def softpluses(z: Any) -> Any:
    """The logarithms log(1 + exp(z)) and log(1 + exp(−z)), for rules."""
    xp = arrays_for(z)
    rest = xp.quick_log1p(xp.exp(-xp.magnitude(z)))

    def softpluses_pullback(to_up: Any, to_down: Any) -> Any:
        up, down = sigmoids(z)
        return to_up * up - to_down * down

    return xp.maximum(z, 0.0) + rest, xp.maximum(-z, 0.0) + rest, softpluses_pullback


def _one_over_expm1(x: Any) -> Any:
    return 1.0 / arrays_for(x).quick_expm1(x)


def _slope_of_one_over_expm1(x: Any, *, outputs: Any) -> Any:
    del x
    return -outputs * (1.0 + outputs)


one_over_expm1 = with_partials(_one_over_expm1, x=_slope_of_one_over_expm1)


def _one_or_nan(xp: Any, like: Any, undefined: Any) -> Any:
    """A factor of gradients, and of theirs: where a function is not defined, its gradient is no number either."""
    return xp.where(undefined, xp.nan_like(like), xp.ones_like(like))


@with_own_gradient
def log1mexp(x: Any) -> Any:
    """The logarithm log(1 − exp(−x)) for x > 0, with a gradient that is right near 0 and far from it.

    Use it for the logarithm of the probability of "not that", where x is −log of the probability of that.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.constant([1e-10, 1.0, 50.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = pb.functions.log1mexp(x)
    >>> [f"{g:.6g}" for g in tape.gradient(y, x)]
    ['1e+10', '0.581977', '1.92875e-22']
    """
    xp, a = real_arrays("log1mexp", x=x)
    value, pullback = in_units(xp, _log_of_rest, a)
    return xp.astype(value, dtype_of(xp, x)), pullback


def _log_of_rest(a: Any) -> Any:
    xp = arrays_for(a)

    def log1mexp_pullback(dy: Any) -> Any:
        return xp.wide(dy) * one_over_expm1(a) * _one_or_nan(xp, a, a < 0)

    return -xp.quick_log1p(one_over_expm1(a)), log1mexp_pullback


def _wide_difference(xp: Any, x: Any, y: Any) -> Any:
    """The same in float64, where nothing is lost of numbers of float32 that matters."""
    plain = xp.widest(x) - xp.widest(y)
    return xp.where(x == y, xp.zeros_like(plain), plain)


@with_own_gradient
def log_sub_exp(x: Any, y: Any) -> Any:
    """The logarithm log(exp(x) − exp(y)) for x > y, where neither exponential can be had.

    Use it for the logarithm of a difference of two numbers that are known by their logarithms. Of −inf twice it is
    −inf, with the gradient 0; for x < y value and gradient are NaN.

    >>> import pullback as pb, tensorflow as tf
    >>> x, y = tf.constant(1000.0), tf.constant(999.0)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch([x, y])
    ...     z = pb.functions.log_sub_exp(x, y)
    >>> f"{z:.4f}", [f"{g:.4f}" for g in tape.gradient(z, [x, y])]
    ('999.5413', ['1.5820', '-0.5820'])
    """
    xp, a, b = broadcasting_arrays("log_sub_exp", x=x, y=y)
    value, pullback = in_units(xp, _log_of_difference, a, b)
    return xp.astype(value, dtype_of(xp, x, y)), pullback


def _log_of_difference(a: Any, b: Any) -> Any:
    xp = arrays_for(a)
    gap, rest = difference(xp, a, b)

    def log_sub_exp_pullback(dz: Any) -> Any:
        down = one_over_expm1(gap)
        up = 1.0 + down
        dz = xp.wide(dz) * _one_or_nan(xp, gap, (a < b) | ((a == b) & (a == math.inf)))
        nothing = (a == -math.inf) & (b == -math.inf)
        # Both are their first-order Taylor polynomials in what rounding has lost, which is 0 of equal numbers.
        found = {
            "x": dz * up * (1.0 - xp.times_or_zero(down, rest)),
            "y": -dz * down * (1.0 - xp.times_or_zero(up, rest)),
        }
        return {name: xp.where(nothing, xp.zeros_like(g), g) for name, g in found.items()}

    # In float64, as the sum may cancel.
    above = xp.quick_log1p(one_over_expm1(_wide_difference(xp, a, b)))
    return xp.astype(xp.widest(a) - above, a.dtype), log_sub_exp_pullback


@with_own_gradient
def logaddexp(x: Any, y: Any) -> Any:
    """The logarithm log(exp(x) + exp(y)), where neither can be had; of −inf twice it is −inf, with the gradient 0.

    Use it to add numbers that are known by their logarithms.

    >>> import pullback as pb, tensorflow as tf
    >>> x, y = tf.constant([1000.0, -float("inf")]), tf.constant([1001.0, -float("inf")])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     z = pb.functions.logaddexp(x, y)
    >>> [f"{g:.4f}" for g in tape.gradient(z, x)]
    ['0.2689', '0.0000']
    """
    xp, a, b = broadcasting_arrays("logaddexp", x=x, y=y)
    value, pullback = in_units(xp, _log_of_sum, a, b)
    return xp.astype(value, dtype_of(xp, x, y)), pullback


def _log_of_sum(a: Any, b: Any) -> Any:
    xp = arrays_for(a)
    gap, rest = difference(xp, a, b)
    largest = xp.maximum(a, b)

    def logaddexp_pullback(dz: Any) -> Any:
        dz = xp.where(largest == -math.inf, xp.zeros_like(gap), xp.wide(dz))
        up, down = sigmoids(gap)
        return {"x": dz * up * (1.0 + rest * down), "y": dz * down * (1.0 - rest * up)}

    # In float64, as the sum may cancel: of −0.7 and log 2, say.
    small = xp.exp(-xp.magnitude(_wide_difference(xp, a, b)))
    total = xp.widest(largest) + xp.quick_log1p(small)
    return xp.astype(total, a.dtype), logaddexp_pullback


@with_own_gradient
def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The logarithm of Σ exp(x) along axes: of −inf alone −inf, with the gradient 0; entries of +inf share theirs.

    Use it where rows may be masked out altogether by −inf, of which TensorFlow's gradient is NaN.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.constant([[0.0, 0.0], [-float("inf"), -float("inf")]])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = pb.functions.logsumexp(x, axis=1)
    >>> tape.gradient(y, x).numpy().tolist()
    [[0.5, 0.5], [0.0, 0.0]]
    """
    xp, a = real_arrays("logsumexp", x=x)
    axes = axes_of("logsumexp", a, axis)
    value, pullback = in_units(xp, _log_of_total, a, axes=axes, keepdims=bool(keepdims))
    return xp.astype(value, dtype_of(xp, x)), pullback


def _log_of_total(a: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    xp = arrays_for(a)
    largest = xp.widest(xp.max(xp.stop_gradient(a), axes, keepdims=True))
    # In float64, as the largest entry and the logarithm of the rest may cancel.
    most = float(xp.limits(largest).max)
    wide, top = xp.widest(a), largest
    # Infinite entries count as the largest number, so that their difference is 0. It is seen beforehand only where
    # that costs less than to compute with it.
    if not (xp.runs_at_once() and xp.all_between(largest, -math.inf, most)):
        wide = xp.minimum(wide, most)
        top = xp.where(largest == -math.inf, xp.zeros_like(largest), xp.minimum(largest, most))
    parts = xp.exp(wide - top)
    whole = xp.sum(parts, axes, keepdims=True)

    def logsumexp_pullback(dy: Any) -> Any:
        dy = with_axes(xp, xp.widest(dy), axes, keepdims)
        return shared_out(dy, a, *map(xp.stop_gradient, (parts, whole)), axes=axes)

    total = largest + xp.log(whole)
    total = total if keepdims else xp.squeeze(total, axes)
    return xp.astype(total, a.dtype), logsumexp_pullback
