"""Elementary functions for compiled programs, to be used where nothing differentiates them.

XLA's own `log1p` and `expm1` take several times as long beside others in one unit, those of float64 run number by
number, and `expm1` of float32 is off by 5 units in the last place. These are series, which run on many numbers at once
and are off by 3 at most. In programs that are not compiled they are TensorFlow's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow.array_functions.programs import compiled_here


@dataclass(frozen=True)
class _Format:
    """How a dtype is laid out, and how many terms its digits need."""

    integer: Any
    fraction_bits: int
    root_of_half: int  # √½ as the bits of an integer
    terms_of_log: int  # of powers of (√2 − 1) / (√2 + 1), squared
    terms_of_exp: int  # of powers of log 2, over factorials


_FORMATS = {
    tf.float32: _Format(tf.int32, 23, 0x3F3504F3, 5, 9),
    tf.float64: _Format(tf.int64, 52, 0x3FE6A09E667F3BCD, 10, 16),
}


def quick_log1p(x: Any) -> Any:
    """The logarithm log(1 + x)."""
    if not compiled_here():
        return tf.math.log1p(x)
    whole, form = 1.0 + x, _FORMATS[x.dtype]
    # whole = m · 2ᵉ with m between √½ and √2; log m = 2 artanh((m − 1) / (m + 1)).
    bits, shift = tf.bitcast(whole, form.integer), tf.constant(form.fraction_bits, form.integer)
    e = tf.bitwise.right_shift(bits - tf.constant(form.root_of_half, form.integer), shift)
    m = tf.bitcast(bits - tf.bitwise.left_shift(e, shift), x.dtype)
    near = e == 0  # where m − 1 is x, to all digits
    s = tf.where(near, x, m - 1.0) / tf.where(near, 2.0 + x, m + 1.0)
    square, last = s * s, form.terms_of_log
    series = tf.constant(1.0 / (2 * last + 1), x.dtype)
    for k in range(last - 1, 0, -1):
        series = series * square + 1.0 / (2 * k + 1)
    found = tf.cast(e, x.dtype) * math.log(2.0) + (2.0 * s + 2.0 * s * square * series)
    infinity, nan = (tf.constant(v, x.dtype) for v in (math.inf, math.nan))
    edge = tf.where(whole > 0, infinity, tf.where(whole == 0, -infinity, nan))
    return tf.where((whole > 0) & (whole < infinity), found, edge)


def quick_expm1(x: Any) -> Any:
    """The difference exp(x) − 1."""
    if not compiled_here():
        return tf.math.expm1(x)
    last = _FORMATS[x.dtype].terms_of_exp
    series = tf.constant(1.0 / math.factorial(last), x.dtype)
    for k in range(last - 1, 1, -1):
        series = series * x + 1.0 / math.factorial(k)
    # Farther out, what the difference loses is a factor of two at most.
    return tf.where(tf.abs(x) < math.log(2.0), x + x * x * series, tf.exp(x) - 1.0)
