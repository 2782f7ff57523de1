"""Right gradients at awkward places: kinks, ties, jumps, steep, flat and noisy functions."""

# ruff: noqa: ANN201, ANN202, ANN001
from __future__ import annotations

from functools import partial

import keras
import numpy as np
import tensorflow as tf

import pullback as pb
from benchmarks.check_bench.sealed.cases import NOT_WRONG, entry, normal, uniform

kink = partial(entry, "right", NOT_WRONG, "kink")
jump = partial(entry, "right", NOT_WRONG, "jump")
noise = partial(entry, "right", NOT_WRONG, "noise")
scale = partial(entry, "right", NOT_WRONG, "scale")


@kink()
def relu_at_zero():
    return tf.nn.relu, tf.constant([0.0, 1.0, -1.0, 0.0])


@kink()
def abs_at_zero():
    return tf.abs, tf.constant([0.0, -2.0, 0.0])


@kink()
def maximum_of_ties():
    return tf.reduce_max, tf.constant([1.0, 3.0, 3.0, 2.0])


@kink()
def sort_of_ties():
    return tf.sort, tf.constant([2.0, 1.0, 2.0, 0.5])


@kink()
def top_two_of_ties():
    return lambda x: tf.math.top_k(x, 2)[0], tf.constant([2.0, 1.0, 2.0, 2.0])


@kink()
def larger_of_equals():
    return tf.maximum, tf.constant([1.0, 2.0, -1.0]), tf.constant([1.0, 0.0, -1.0])


@kink()
def clip_at_bounds():
    return lambda x: tf.clip_by_value(x, -1.0, 1.0), tf.constant([-1.0, 1.0, 0.3, 2.0])


@kink()
def relu6_at_six():
    return tf.nn.relu6, tf.constant([6.0, 0.0, 3.0])


@kink()
def hard_sigmoid_ends():
    return keras.activations.hard_sigmoid, tf.constant([-3.0, 3.0, 1.0])


@kink()
def pooled_ties():
    return lambda x: tf.nn.max_pool1d(x, 2, 2, "VALID"), tf.ones([1, 6, 1])


@kink()
def subgradient_half():
    @pb.custom_gradient
    def relu(x):
        def relu_pullback(dy):
            return dy * (tf.sign(x) + 1) / 2

        return tf.nn.relu(x), relu_pullback

    return relu, tf.constant([0.0, 0.7, -0.4])


@kink()
def median_of_even():
    return lambda x: tf.reduce_mean(tf.sort(x)[1:3]), tf.constant([4.0, 1.0, 1.0, 3.0])


@kink()
def top_of_hat():
    return lambda x: tf.nn.relu(1 - tf.abs(x - 1.0)), tf.constant([1.0, 2.0, 0.0, 1.5])


@kink()
def soft_threshold_edge():
    def shrink(x):
        return tf.sign(x) * tf.nn.relu(tf.abs(x) - 0.5)

    return shrink, tf.constant([0.5, -0.5, 0.0, 1.0])


@jump()
def floor_times_x():
    return lambda x: x * tf.floor(x), tf.constant([1.3, -0.4, 2.6])


@jump()
def rounded():
    @pb.custom_gradient
    def steps(x):
        def steps_pullback(dy):
            return tf.zeros_like(dy)

        return tf.round(4 * x) / 4, steps_pullback

    return steps, tf.constant([0.3, -0.7, 1.05])


@jump()
def sign_of_x():
    return tf.sign, tf.constant([0.3, -0.7])


@jump()
def remainder():
    return lambda x: tf.math.floormod(x, 1.0), tf.constant([0.3, 1.7, -0.2])


@jump()
def wrapped_angle():
    return tf.atan2, tf.constant([0.5, -0.2, 1.0]), tf.constant([-1.0, -0.3, 0.4])


@jump()
def indicator():
    return lambda x: tf.where(x > 0.5, x**2, 3.0 - x), tf.constant([0.2, 0.9])


@jump()
def digitised():
    def weighed(x, w):
        return w * tf.gather(tf.constant([1.0, 2.0, 5.0], w.dtype), tf.cast(x, tf.int32))

    return weighed, tf.constant([0.4, 1.2, 2.3]), normal(1, 3)


@scale()
def steep_tanh():
    return lambda x: tf.tanh(1e4 * x), tf.constant([0.0, 1e-5, 0.4, -2e-4])


@scale()
def saturated_sigmoid():
    return tf.sigmoid, tf.constant([50.0, -80.0, 0.0, 700.0])


@scale()
def large_offset():
    return lambda x: 1e8 + x**2, tf.constant([0.3, -1.0, 2.0])


@scale()
def large_input_offset():
    return lambda x: tf.sin(x - 1e6), 1e6 + uniform(2, 0.0, 1.0, 4, dtype=tf.float64)


@scale()
def tiny_values():
    return lambda x: x**2 + x, tf.constant([1e-20, -3e-18, 2e-25])


@scale()
def huge_values():
    return lambda x: x / (1 + x**2 / 1e20), tf.constant([1e12, -3e11, 2e9])


@scale()
def mixed_magnitudes():
    return tf.math.log1p, tf.constant([1e-12, 1.0, 1e12, 1e-30])


@scale()
def fast_waves():
    return lambda x: tf.sin(1000 * x), tf.constant([0.3, -1.0, 2.0])


@scale()
def gelu_cancellation():
    def gelu(x):
        return 0.5 * x * (1 + tf.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    return gelu, tf.constant([-6.0, -5.0, 0.0, 4.0])


@scale()
def normalised_zero_row():
    return lambda x: tf.math.l2_normalize(x, 1), tf.constant([[0.0, 0.0], [3.0, 4.0]])


@scale()
def log_of_steep_entry():
    return tf.math.log, tf.concat([tf.constant([1e-30]), uniform(3, 0.5, 2.0, 20)], 0)


@scale()
def far_softmax():
    return tf.nn.softmax, tf.constant([[0.0, 100.0, -100.0], [1.0, 2.0, 3.0]])


@noise()
def single_precision_inside():
    def inside(x):
        return tf.cast(tf.sin(tf.cast(x, tf.float32)) ** 2, x.dtype)

    return inside, normal(4, 6)


@noise()
def half_precision_inside():
    def inside(x):
        return tf.cast(tf.sin(tf.cast(x, tf.float16)), x.dtype)

    return inside, normal(5, 6)


@noise()
def half_precision_input():
    return lambda x: tf.reduce_sum(tf.exp(x) * x, -1), normal(6, 3, 4, dtype=tf.float16)


@noise()
def long_single_sum():
    def total(x):
        return tf.reduce_sum(tf.cast(x, tf.float32) ** 2)

    return total, normal(7, 2000)


@noise()
def catmull_single():
    return lambda x: tf.image.resize(x, [7, 7], "bicubic"), normal(8, 1, 4, 4, 1)


@noise()
def cancelled_offset():
    return lambda x: (1e6 + tf.cast(x, tf.float32)) - 1e6 + 2 * x, normal(9, 5)
