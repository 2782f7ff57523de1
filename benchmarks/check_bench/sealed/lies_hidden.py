"""Calls for which "right" would be a lie: wrong for other values, upstreams, modes, surrogates."""

# ruff: noqa: ANN001, ANN201, ANN202
from __future__ import annotations

from functools import partial

import numpy as np
import tensorflow as tf

import pullback as pb
from benchmarks.check_bench.sealed.cases import NOT_RIGHT, entry, normal, uniform
from benchmarks.check_bench.sealed.lies import with_slope

hidden = partial(entry, "lies", NOT_RIGHT, "hidden")
upstream = partial(entry, "lies", NOT_RIGHT, "upstream")
mode = partial(entry, "lies", NOT_RIGHT, "mode")
against = partial(entry, "lies", NOT_RIGHT, "against")


@hidden()
def steep_entry():
    """log, twice too large, with one entry of 1e-30 among 1,000."""
    x = tf.concat([uniform(8, 0.5, 2.0, 999), tf.constant([1e-30])], 0)
    return with_slope(tf.math.log, lambda x: 2 / x), x


@hidden(quick=True)
def steep_entry_quick():
    """The same in quick mode."""
    x = tf.concat([uniform(9, 0.5, 2.0, 999), tf.constant([1e-30])], 0)
    return with_slope(tf.math.log, lambda x: 2 / x), x


@hidden()
def added_beyond_three():
    """Adds 0.5 to the gradient where x > 3, besides the upstream."""

    @pb.custom_gradient
    def function(x):
        def function_pullback(dy):
            return dy * tf.cos(x) + tf.where(x > 3, 0.5 * tf.ones_like(x), tf.zeros_like(x))

        return tf.sin(x), function_pullback

    return function, normal(10, 5)


@hidden()
def other_branch():
    """tf.cond: the branch of a negative sum is three times too large; the sum given is positive."""

    @pb.custom_gradient
    def function(x):
        def function_pullback(dy):
            return tf.cond(tf.reduce_sum(x) > 0, lambda: dy * 2 * x, lambda: dy * 6 * x)

        return x**2, function_pullback

    return function, uniform(11, 0.5, 1.5, 4)


@hidden()
def one_of_many():
    """One of 5,000 entries, the 3,333rd, is 10 % too large."""
    factor = np.ones(5000)
    factor[3333] = 1.1

    def slope(x):
        return tf.cos(x) * tf.constant(factor, x.dtype)

    return with_slope(tf.sin, slope), normal(12, 5000)


@hidden()
def large_values_only():
    """Wrong for |x| > 30."""

    def slope(x):
        return tf.where(tf.abs(x) > 30, tf.zeros_like(x), x / tf.sqrt(1 + x**2))

    return with_slope(lambda x: tf.sqrt(1 + x**2), slope), normal(13, 4)


@hidden()
def second_order_of_branch():
    """Detached where x < 0: first derivatives are right, second ones wrong there."""

    def slope(x):
        return tf.where(x < 0, tf.stop_gradient(3 * x**2), 3 * x**2)

    return with_slope(lambda x: x**3, slope), uniform(14, 0.5, 1.5, 4)


@hidden()
def half_precision_rule():
    """The rule computes in float16, the function in full."""

    def slope(x):
        return tf.cast(tf.cos(tf.cast(x, tf.float16)), x.dtype)

    return with_slope(tf.sin, slope), normal(15, 6)


@hidden()
def shared_between_calls():
    """The backward pass uses the values of the last forward call."""
    kept = {}

    @pb.custom_gradient
    def function(x):
        kept["x"] = x

        def function_pullback(dy):
            return dy * 2 * kept["x"]

        return x**2, function_pullback

    return function, normal(16, 4)


@upstream()
def clipped_upstream():
    """The upstream is clipped to [-1.6, 1.6]."""

    @pb.custom_gradient
    def function(x):
        def function_pullback(dy):
            return tf.clip_by_value(dy, -1.6, 1.6) * tf.cos(x)

        return tf.sin(x), function_pullback

    return function, normal(17, 4)


@upstream()
def clipped_at_thousand():
    """The upstream is clipped to [-1000, 1000]."""

    @pb.custom_gradient
    def function(x):
        def function_pullback(dy):
            return tf.clip_by_value(dy, -1000.0, 1000.0) * 2 * x

        return x**2, function_pullback

    return function, normal(18, 4)


@upstream()
def dead_zone():
    """Upstreams below 1e-3 give nothing."""

    @pb.custom_gradient
    def function(x):
        def function_pullback(dy):
            return tf.where(tf.abs(dy) < 1e-3, tf.zeros_like(dy), dy) * tf.exp(x)

        return tf.exp(x), function_pullback

    return function, normal(19, 4)


@upstream()
def normalised_upstream():
    """The gradient is scaled to norm 1 when it is longer than 100."""

    @pb.custom_gradient
    def function(x):
        def function_pullback(dy):
            return tf.clip_by_norm(dy * 2 * x, 100.0)

        return x**2, function_pullback

    return function, normal(20, 4)


@mode()
def raises_when_traced():
    """The rule asks for numpy(), which a traced tensor does not have."""

    @pb.custom_gradient
    def function(x):
        def function_pullback(dy):
            return tf.constant(dy.numpy() * np.cos(x.numpy()))

        return tf.sin(x), function_pullback

    return function, normal(21, 4)


@mode()
def other_when_traced():
    """Half the gradient inside tf.function."""

    @pb.custom_gradient
    def function(x):
        def function_pullback(dy):
            return dy * tf.cos(x) * (1.0 if tf.executing_eagerly() else 0.5)

        return tf.sin(x), function_pullback

    return function, normal(22, 4)


@against(against=lambda x: tf.clip_by_value(x, -1.0, 1.0))
def rounding_unclipped():
    """Meant to be that of clip(x, -1, 1), passes everything on; small values are given."""

    @pb.custom_gradient
    def steps(x):
        def steps_pullback(dy):
            return dy

        return tf.round(x), steps_pullback

    return steps, tf.constant([0.3, -0.4, 0.1])


@against(against=lambda x: tf.clip_by_value(x, -1.0, 1.0))
def wider_window():
    """Lets gradients pass up to 2 where the surrogate ends at 1; small values are given."""

    @pb.custom_gradient
    def sign(x):
        def sign_pullback(dy):
            return tf.where(tf.abs(x) <= 2, dy, tf.zeros_like(dy))

        return tf.sign(x), sign_pullback

    return sign, tf.constant([0.3, -0.4, 0.1])


@against(against=tf.tanh)
def surrogate_without_slope():
    """Meant to be that of tanh, is that of the identity."""

    @pb.custom_gradient
    def sign(x):
        def sign_pullback(dy):
            return dy

        return tf.sign(x), sign_pullback

    return sign, tf.constant([0.3, -0.4, 1.1])
