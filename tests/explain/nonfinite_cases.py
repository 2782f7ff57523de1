"""Real functions in which NaN or Inf starts, each with what must be said and a mark at the line.

`# HERE` marks the line that must be found, `# ALSO` one that must be told too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

import pullback as pb


class Case(NamedTuple):
    """What to explain, and what must be said."""

    make: Callable[[], tuple[Any, list[Any]]]
    direction: str
    words: tuple[str, ...]


CASES: dict[str, Case] = {}


def case(direction: str, *words: str) -> Callable[[Any], Any]:
    def add(make: Any) -> Any:
        CASES[make.__name__] = Case(make, direction, words)
        return make

    return add


def vector(*numbers: float) -> tf.Tensor:
    return tf.constant(numbers, tf.float32)


# Backward


@case("backward", "tf.where", "log")
def the_where_trap_with_log():
    def f(x):
        logs = tf.math.log(x)  # HERE
        return tf.reduce_sum(tf.where(x > 0.0, logs, 0.0))  # ALSO

    return f, [vector(0.0, 1.0)]


@case("backward", "tf.where", "division by zero")
def the_where_trap_with_division():
    def f(x):
        inverse = 1.0 / x  # HERE
        return tf.reduce_sum(tf.where(x != 0.0, inverse, 0.0))  # ALSO

    return f, [vector(0.0, 2.0)]


@case("backward", "tf.where", "exp")
def the_where_trap_with_exp():
    @tf.function
    def f(x):
        big = tf.exp(x)  # HERE
        y = tf.where(x < 50.0, big, x)  # ALSO
        return tf.reduce_sum(y)

    return f, [vector(1.0, 1000.0)]


@case("backward", "tf.where", "negative")
def the_where_trap_with_a_root_of_negative_numbers():
    def f(x):
        root = x**0.5  # HERE
        return tf.reduce_sum(tf.where(x >= 0.0, root, 0.0))  # ALSO

    return f, [vector(-1.0, 4.0)]


@case("backward", "tf.where")
def the_where_trap_with_a_product_on_the_way():
    def f(x, w):
        inverse = 1.0 / x  # HERE
        scaled = inverse * w
        return tf.reduce_sum(tf.where(x > 0.0, scaled, 0.0))  # ALSO

    return f, [vector(0.0, 1.0), vector(2.0, 3.0)]


@case("backward", "tf.where", "power|base")
def the_where_trap_with_a_power():
    def f(x):
        y = x**0.5  # HERE
        return tf.reduce_sum(tf.where(x > 0.0, y, 0.0))  # ALSO

    return f, [vector(0.0, 1.0)]


@case("backward", "tf.where")
def the_where_trap_with_an_arc():
    def f(x):
        angle = tf.acos(x)  # HERE
        return tf.reduce_sum(tf.where(tf.abs(x) < 1.0, angle, 0.0))  # ALSO

    return f, [vector(1.0, 0.5)]


@case("backward", "norm", "zeros")
def the_norm_of_zeros():
    def f(x):
        return tf.norm(x)  # HERE

    return f, [vector(0.0, 0.0)]


@case("backward", "norm")
def the_distance_of_equal_points():
    def f(a, b):
        d = a - b
        return tf.sqrt(tf.reduce_sum(d * d))  # HERE

    return f, [vector(1.0, 2.0), vector(1.0, 2.0)]


@case("backward", "norm")
def the_norms_of_rows():
    @tf.function
    def f(x):
        lengths = tf.norm(x, axis=1)  # HERE
        return tf.reduce_sum(lengths)

    return f, [tf.constant([[3.0, 4.0], [0.0, 0.0]])]


@case("backward", "tf.sqrt", "0")
def the_root_of_zero():
    def f(x):
        return tf.reduce_sum(tf.sqrt(x))  # HERE

    return f, [vector(0.0, 4.0)]


@case("backward", "standard deviation")
def the_standard_deviation_of_equal_numbers():
    def f(x):
        spread = tf.math.reduce_std(x)  # HERE
        return spread * 2.0

    return f, [vector(3.0, 3.0, 3.0)]


@case("backward", "power below 1")
def a_small_power_of_zero():
    def f(x):
        return tf.reduce_sum(x**0.3)  # HERE

    return f, [vector(0.0, 1.0)]


@case("backward", "slope is infinite", "clip")
def the_arc_at_one():
    def f(x):
        return tf.reduce_sum(tf.acos(x))  # HERE

    return f, [vector(1.0, 0.2)]


@case("backward", "clip")
def the_arc_at_minus_one_in_a_graph():
    @tf.function
    def f(x):
        cosine = x / tf.norm(x)
        return tf.reduce_sum(tf.asin(cosine))  # HERE

    return f, [vector(-2.0)]


@case("backward", "both inputs are 0")
def the_angle_of_nothing():
    def f(y, x):
        return tf.reduce_sum(tf.atan2(y, x))  # HERE

    return f, [vector(0.0, 1.0), vector(0.0, 1.0)]


@case("backward", "custom gradient", "Inf")
def a_custom_gradient_with_inf():
    @tf.custom_gradient
    def safe(a):
        def grad(dy):
            return dy / (a - a)

        return a * 2.0, grad

    def f(x):
        return tf.reduce_sum(safe(x) - x)  # HERE

    return f, [vector(1.0, 2.0)]


@case("backward", "custom gradient")
def our_custom_gradient_with_inf():
    @pb.custom_gradient
    def steep(a):
        def backward(dy):
            return dy / 0.0

        return a * 2.0, backward

    def f(x):
        return tf.reduce_sum(steep(x))  # HERE

    return f, [vector(1.0, 2.0)]


@case("backward", "exp")
def clipped_after_it_overflows():
    def f(x):
        big = tf.exp(x)  # HERE
        return tf.reduce_sum(tf.minimum(big, 100.0))  # ALSO

    return f, [vector(1.0, 1000.0)]


@case("backward", "root mean square|mean of squares")
def the_root_of_a_mean_of_zeros():
    def f(y, t):
        return tf.sqrt(tf.reduce_mean(tf.square(y - t)))  # HERE

    return f, [vector(1.0, 2.0), vector(1.0, 2.0)]


@case("backward", "tf.math.reduce_euclidean_norm")
def the_euclidean_norm_of_zeros():
    def f(x):
        return tf.math.reduce_euclidean_norm(x)  # HERE

    return f, [vector(0.0, 0.0)]


@case("backward", "norm")
def a_norm_in_a_loop():
    @tf.function
    def f(x):
        total = 0.0
        for k in tf.range(3):
            total += tf.norm(x * tf.cast(k, tf.float32))  # HERE
        return total

    return f, [vector(1.0, 2.0)]


@case("backward", "norm")
def a_norm_in_a_layer():
    class Unit(keras.layers.Layer):
        def call(self, x):
            return x + tf.norm(x, axis=-1, keepdims=True)  # HERE

    model = keras.Sequential([keras.Input((2,)), Unit(name="unit"), keras.layers.Dense(1)])
    return model, [tf.zeros([1, 2])]


# Forward


@case("forward", "log(0)")
def the_log_of_zero():
    def f(p):
        return -tf.reduce_mean(tf.math.log(p))  # HERE

    return f, [vector(0.0, 1.0)]


@case("forward", "negative")
def the_log_of_negative_numbers():
    def f(p):
        return tf.reduce_mean(tf.math.log(p))  # HERE

    return f, [vector(-1.0, 1.0)]


@case("forward", "log(0)", "makes NaN of it")
def zero_times_the_log_of_zero():
    def f(p):
        logs = tf.math.log(p)  # HERE
        return -tf.reduce_sum(p * logs)  # ALSO

    return f, [vector(0.0, 1.0)]


@case("forward", "exp", "88|1e+03", "too large")
def an_exponential_that_overflows():
    def f(x):
        return tf.reduce_sum(tf.exp(x))  # HERE

    return f, [vector(1.0, 1000.0)]


@case("forward", "exp")
def a_softmax_by_hand():
    def f(x):
        e = tf.exp(x)  # HERE
        return tf.reduce_sum(e / tf.reduce_sum(e))

    return f, [vector(1.0, 1000.0)]


@case("forward", "0/0")
def zero_by_zero():
    def f(x):
        return tf.reduce_sum(x / tf.reduce_sum(x))  # HERE

    return f, [vector(0.0, 0.0)]


@case("forward", "division by zero")
def one_by_zero():
    @tf.function
    def f(x):
        y = x - x
        z = 1.0 / y  # HERE
        return tf.reduce_sum(z)

    return f, [vector(1.0, 2.0)]


@case("forward", "negative")
def the_root_of_negative_numbers():
    def f(x):
        return tf.reduce_sum(tf.sqrt(x - 1.0))  # HERE

    return f, [vector(0.0, 2.0)]


@case("forward", "negative numbers", "base")
def a_broken_power_of_negative_numbers():
    def f(x):
        return tf.reduce_sum(x**1.5)  # HERE

    return f, [vector(-1.0, 2.0)]


@case("forward", "softmax", "-Inf", "x.dtype.min")
def a_softmax_with_everything_masked():
    def f(x):
        mask = tf.constant([[True, True], [False, False]])
        logits = tf.where(mask, x, -np.inf)
        return tf.reduce_sum(tf.nn.softmax(logits) ** 2)  # HERE

    return f, [tf.ones([2, 2])]


@case("forward", "softmax", "x.dtype.min")
def a_softmax_masked_by_a_log():
    def f(x, mask):
        scores = x + tf.math.log(mask)
        return tf.reduce_sum(tf.nn.softmax(scores)[0] ** 2)  # HERE

    return f, [tf.ones([2, 2]), tf.constant([[0.0, 0.0], [1.0, 1.0]])]


@case("forward", "beyond ±1")
def the_arc_beyond_one():
    def f(x):
        return tf.reduce_sum(tf.acos(x))  # HERE

    return f, [vector(1.0001, 0.0)]


@case("forward", "float16", "65504")
def float16_overflows():
    def f(x):
        y = tf.cast(x, tf.float16)
        z = y * y  # HERE
        return tf.reduce_sum(tf.cast(z, tf.float32))

    return f, [vector(300.0, 1.0)]


@case("forward", "float16")
def a_cast_to_float16_overflows():
    def f(x):
        y = tf.cast(x, tf.float16)  # HERE
        return tf.reduce_sum(y)

    return f, [vector(1e6, 1.0)]


@case("forward", "0 · Inf")
def zero_times_a_constant_infinity():
    def f(x):
        return tf.reduce_sum(x * np.inf)  # HERE

    return f, [vector(0.0, 1.0)]


@case("forward", "Inf - Inf|exp|too large")
def infinity_less_infinity():
    def f(x):
        a = tf.exp(x)  # HERE
        return tf.reduce_sum(a - a)  # ALSO

    return f, [vector(1000.0)]


@case("forward", "division by zero|0/0")
def a_normalisation_in_a_layer():
    class Standardise(keras.layers.Layer):
        def call(self, x):
            centred = x - tf.reduce_mean(x, axis=0)
            return centred / tf.math.reduce_std(x, axis=0)  # HERE

    model = keras.Sequential(
        [keras.Input((2,)), Standardise(name="standardise"), keras.layers.Dense(1)]
    )
    return model, [tf.ones([3, 2])]


@case("forward", "log(0)")
def a_cross_entropy_by_hand_in_a_traced_function():
    @tf.function
    def f(logits, labels):
        p = tf.nn.softmax(logits)
        losses = -tf.reduce_sum(labels * tf.math.log(p), axis=1)  # HERE
        return tf.reduce_mean(losses)

    return f, [tf.constant([[0.0, 500.0]]), tf.constant([[1.0, 0.0]])]


@case("forward", "exp")
def a_softplus_by_hand():
    def f(x):
        return tf.reduce_sum(tf.math.log(1.0 + tf.exp(x)))  # HERE

    return f, [vector(100.0, 1.0)]


@case("forward", "negative power|base is 0")
def a_negative_power_of_zero():
    def f(x):
        return tf.reduce_sum(x**-2.0)  # HERE

    return f, [vector(0.0, 1.0)]


# What came in


@case("input", "`x` itself has NaN in 1 of its 3 entries")
def an_input_with_nan():
    def f(x):
        return tf.reduce_sum(tf.sin(x))

    return f, [vector(1.0, np.nan, 2.0)]


@case("input", "w", "NaN")
def a_weight_with_nan():
    w = tf.Variable([1.0, np.nan], name="w")

    def f(x):
        return tf.reduce_sum(w * x)

    return f, [vector(1.0, 2.0)]


@case("input", "`x` itself has Inf")
def an_input_with_inf():
    @tf.function
    def f(x):
        return tf.reduce_sum(x - tf.reduce_mean(x))

    return f, [vector(1.0, np.inf)]
