"""Calls for which "right" would be a lie: wrong, not finite or not tested at the arguments given."""

# ruff: noqa: ANN201, ANN202, ANN001
from __future__ import annotations

from functools import partial

import numpy as np
import tensorflow as tf

import pullback as pb
from benchmarks.check_bench.sealed.cases import NOT_RIGHT, entry, normal, uniform

given = partial(entry, "lies", NOT_RIGHT, "given")
nonfinite = partial(entry, "lies", NOT_RIGHT, "nonfinite")
untested = partial(entry, "lies", NOT_RIGHT, "untested")
hidden = partial(entry, "lies", NOT_RIGHT, "hidden")
upstream = partial(entry, "lies", NOT_RIGHT, "upstream")
mode = partial(entry, "lies", NOT_RIGHT, "mode")
against = partial(entry, "lies", NOT_RIGHT, "against")


def with_slope(value, slope):
    """An element-wise function and what is taken for its derivative."""

    @pb.custom_gradient
    def function(x):
        def function_pullback(dy):
            return dy * slope(x)

        return value(x), function_pullback

    return function


@nonfinite()
def cosine_quotient():
    """(1 - cos x)/x by where: NaN at 0, where the derivative is 1/2."""

    def quotient(x):
        return tf.where(x == 0, tf.zeros_like(x), (1 - tf.cos(x)) / x)

    return quotient, tf.constant([0.0, 0.5, -1.0])


@nonfinite()
def cross_entropy_by_where():
    """NaN at p = 0 and 1: the unused branch is 0·log 0."""

    def entropy(p):
        inside = (p > 0) & (p < 1)
        return tf.where(inside, -p * tf.math.log(p) - (1 - p) * tf.math.log(1 - p), 0 * p)

    return entropy, tf.constant([0.0, 0.3, 1.0])


@nonfinite()
def distance_to_itself():
    """The distance of two equal points: NaN."""
    return lambda a, b: tf.norm(a - b, axis=1), tf.ones([2, 3]), tf.ones([2, 3])


@nonfinite()
def square_with_hole():
    """x² with the rule 2x·x/x: NaN at 0."""
    return with_slope(lambda x: x**2, lambda x: 2 * x * (x / x)), tf.constant([0.0, 1.0, -2.0])


@nonfinite()
def one_nan_of_many():
    """One NaN among 1,000 entries, at a zero."""
    x = tf.concat([normal(1, 999), tf.zeros([1])], 0)
    return with_slope(lambda x: x**3, lambda x: 3 * x**4 / x**2), x


@nonfinite()
def product_by_quotient():
    """The product of all, with the rule product/x, at a zero."""

    @pb.custom_gradient
    def product(x):
        y = tf.reduce_prod(x)

        def product_pullback(dy):
            return dy * y / x

        return y, product_pullback

    return product, tf.constant([2.0, 0.0, 3.0])


@nonfinite()
def infinite_slope_claimed():
    """|x|^1.5 with a rule that is infinite at 0, where the slope is 0."""

    def slope(x):
        return tf.where(x == 0, np.inf, 1.5 * tf.sign(x) * tf.sqrt(tf.abs(x)))

    return with_slope(lambda x: tf.abs(x) ** 1.5, slope), tf.constant([0.0, 1.0])


@nonfinite()
def overflow_in_branch():
    """Softplus by where: the unused exponential overflows and the gradient is NaN."""

    def softplus(x):
        return tf.where(x > 30, x, tf.math.log(1 + tf.exp(x)))

    return softplus, tf.constant([1000.0, 1.0])


@untested()
def whole_numbers_only():
    """NaN unless x is whole; the rule is wrong and nothing can be compared."""

    def value(x):
        return tf.where(x == tf.round(x), x**2, np.nan)

    return with_slope(value, lambda x: 4 * x), tf.constant([1.0, 2.0, 5.0])


@untested()
def order_of_polygamma():
    """The order is whole; twice the derivative is claimed for the argument."""

    @pb.custom_gradient
    def function(n, x):
        def function_pullback(dy):
            return None, 2 * dy * tf.math.polygamma(n + 1, x)

        return tf.math.polygamma(n, x), function_pullback

    return function, tf.constant([1.0, 2.0]), tf.constant([0.7, 1.5])


def _failing_from(limit, fn):
    calls = []

    def failing(x):
        calls.append(1)
        if len(calls) >= limit:
            raise RuntimeError("no more today")
        return fn(x)

    return failing


@untested()
def fails_from_third_call():
    """Raises from the third call on."""
    return _failing_from(3, tf.sin), normal(2, 4)


@untested()
def fails_from_thirtieth_call():
    """Raises from the 30th call on, with a rule that is wrong for negative values."""
    wrong = with_slope(lambda x: x**2, lambda x: 2 * tf.abs(x))
    return _failing_from(30, wrong), uniform(3, 0.5, 2.0, 4)


@untested()
def no_numbers():
    """Integers only: nothing to differentiate."""
    return lambda n: n * 2, tf.constant([1, 2, 3])


@untested()
def no_entries():
    """An empty tensor: nothing to compare."""
    return with_slope(lambda x: x**2, lambda x: 5 * x), tf.zeros([0])


@untested()
def nothing_but_nan():
    """The function is NaN at the arguments given."""
    return with_slope(lambda x: tf.sqrt(x), lambda x: x), tf.constant([-1.0, -2.0])


@untested()
def ever_new_draws():
    """NumPy draws in every call, and the rule ignores them."""

    def value(x):
        return x * np.random.default_rng().uniform(0.5, 1.5, size=4)

    return with_slope(value, tf.ones_like), normal(4, 4)


def _inside(x, value):
    return tf.where((x >= 0) & (x <= 1), value, np.nan)


@given()
def edge_of_domain():
    """Defined on [0, 1] only, given its ends, and twice what it should be."""
    value = with_slope(lambda x: _inside(x, x * (1 - x)), lambda x: 2 * (1 - 2 * x))
    return value, tf.constant([0.0, 1.0])


@given()
def corner_of_domain():
    """Defined for x >= 1 only, given 1, and three times what it should be."""

    def value(x):
        return tf.where(x >= 1, x**2, np.nan)

    return with_slope(value, lambda x: 6 * x), tf.constant([1.0, 1.0])


@given()
def wrong_at_zero():
    """sinh with a rule that is 0 at exactly 0."""
    value = with_slope(tf.sinh, lambda x: tf.where(x == 0, tf.zeros_like(x), tf.cosh(x)))
    return value, tf.constant([0.0, 1.0, -0.5])


@given()
def twice_at_tie():
    """The larger of two, both of which get the whole gradient where they are equal."""

    @pb.custom_gradient
    def larger(x, y):
        def larger_pullback(dy):
            return dy * tf.cast(x >= y, dy.dtype), dy * tf.cast(y >= x, dy.dtype)

        return tf.maximum(x, y), larger_pullback

    return larger, tf.constant([1.0, 2.0]), tf.constant([1.0, 0.0])


@given()
def wrong_at_equals():
    """x·y with a rule that doubles where x = y, as given."""

    @pb.custom_gradient
    def product(x, y):
        def product_pullback(dy):
            twice = tf.where(x == y, 2 * dy, dy)
            return twice * y, twice * x

        return x * y, product_pullback

    return product, tf.constant([1.5, 2.0, -1.0]), tf.constant([1.5, 0.3, -1.0])


@given()
def wrong_at_whole():
    """x³ with a rule that is wrong at whole numbers, which are given."""

    def slope(x):
        return tf.where(x == tf.round(x), 2 * x**2, 3 * x**2)

    return with_slope(lambda x: x**3, slope), tf.constant([1.0, 2.0, 3.0])


@given()
def outside_subgradients():
    """|x| with the slope 2 at 0, outside [-1, 1]."""
    slope = with_slope(tf.abs, lambda x: tf.sign(x) + 2 * tf.cast(x == 0, x.dtype))
    return slope, tf.constant([0.0, 1.0])


@given()
def cancelling_kinks():
    """Two hats whose kinks cancel at 1, where the slope is 1 on both sides and the gradient 0."""

    def hats(x):
        return tf.nn.relu(1 - tf.abs(x - 1.0)) + 2 * tf.nn.relu(1 - tf.abs(x - 2.0))

    return hats, tf.constant([1.0, 1.0])


@given()
def detached_factor():
    """x·stop_gradient(x): half the derivative."""
    return lambda x: x * tf.stop_gradient(x), normal(5, 4)


@given()
def dropped_input():
    """The second input is used and gets None."""

    @pb.custom_gradient
    def product(x, y):
        def product_pullback(dy):
            return dy * tf.sin(y), None

        return x * tf.sin(y), product_pullback

    return product, normal(6, 3), normal(7, 3)


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
