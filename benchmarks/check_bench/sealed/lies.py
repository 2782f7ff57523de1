"""Calls for which "right" would be a lie: wrong, not finite or untested at the arguments given."""

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


def with_slope(value, slope):
    """An element-wise function and what is taken for its derivative."""
    # AutoGraph cannot tell two lambdas on one line apart, and there is nothing to convert.
    value, slope = (tf.autograph.experimental.do_not_convert(f) for f in (value, slope))

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
