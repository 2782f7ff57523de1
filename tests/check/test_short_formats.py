"""Functions that compute in float16 or bfloat16, or in float32 between casts: their rounding is no mistake."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

FORMATS = [tf.float16, tf.bfloat16]
X = np.random.default_rng(0).normal(size=12)


def slope_of_gelu(z):
    """Φ(z) + z φ(z)."""
    return 0.5 * (1 + tf.math.erf(z / np.float32(np.sqrt(2)))) + z * tf.exp(
        -0.5 * z * z
    ) / np.float32(np.sqrt(2 * np.pi))


def gelu_in_float32(dtype, factor=1.0):
    """Cast to float32, computed there, cast back, with its derivative by hand."""

    @tf.custom_gradient
    def gelu_half(x):
        z = tf.cast(x, tf.float32)

        def gelu_pullback(dy):
            return tf.cast(factor * tf.cast(dy, tf.float32) * slope_of_gelu(z), dtype)

        return tf.cast(tf.nn.gelu(z), dtype), gelu_pullback

    return gelu_half


def relu_in_float32(dtype, slope_below=0.0):
    """The rule stays in the short format."""

    @tf.custom_gradient
    def relu_half(x):
        below = tf.cast(slope_below, dtype)
        return (
            tf.cast(tf.nn.relu(tf.cast(x, tf.float32)), dtype),
            lambda dy: tf.where(x > 0, dy, below * dy),
        )

    return relu_half


def short_inside(dtype):
    """float32 from outside, and stairs to anybody who takes small steps."""
    return lambda x: tf.cast(tf.tanh(tf.cast(x, dtype)), tf.float32)


@pytest.mark.parametrize("dtype", FORMATS, ids=lambda dtype: dtype.name)
class TestShortFormats:
    def test_second_order_is_said_to_be_left_out(self, dtype):
        fn, x = gelu_in_float32(dtype), tf.constant(X, dtype)
        said = "second derivatives are not tested"
        report = pb.check(fn, x)
        assert report.verdict == "right"
        assert any(said in note for note in report.coverage.notes)
        asked = pb.check(fn, x, order=2)
        assert asked.verdict == "undecided"
        assert any(said in reason for reason in asked.coverage.reasons)
        assert said not in str(pb.check(fn, x, order=1))

    @pytest.mark.parametrize("make", [gelu_in_float32, relu_in_float32])
    @pytest.mark.parametrize("seed", range(3))
    def test_a_right_rule_is_right(self, dtype, make, seed):
        report = pb.check(make(dtype), tf.constant(X, dtype), seed=seed)
        assert report.verdict == "right", str(report)

    @pytest.mark.parametrize(
        "make, option", [(gelu_in_float32, 1.2), (gelu_in_float32, -1.0), (relu_in_float32, 0.5)]
    )
    def test_a_wrong_rule_is_wrong(self, dtype, make, option):
        assert pb.check(make(dtype, option), tf.constant(X, dtype)).verdict == "wrong"

    @pytest.mark.parametrize("seed", range(3))
    def test_casts_inside_are_no_mistake(self, dtype, seed):
        report = pb.check(short_inside(dtype), tf.constant(X, tf.float32), seed=seed)
        assert report.verdict == "right", str(report)

    def test_a_single_number_can_be_read(self, dtype):
        total = gelu_in_float32(dtype)
        assert pb.check(lambda x: tf.reduce_sum(total(x)), tf.constant(X, dtype))

    def test_modes_may_differ_by_the_rounding_of_a_mixed_layer(self, dtype):
        keras.utils.set_random_seed(0)
        layer = keras.layers.Dense(4, activation="gelu", dtype=f"mixed_{dtype.name}")
        x = tf.constant(X.reshape(2, 6), tf.float32)
        layer(x)
        report = pb.check(layer, x, order=1)
        assert report.verdict == "right", str(report)


def test_what_overflows_in_the_short_format_alone_is_nobodys_mistake():
    @tf.custom_gradient
    def exp_half(x):
        y = tf.exp(tf.cast(x, tf.float32))
        return tf.cast(y, tf.float16), lambda dy: tf.cast(tf.cast(dy, tf.float32) * y, tf.float16)

    assert pb.check(exp_half, tf.constant([8.0, -1.0, 0.5], tf.float16)).verdict != "wrong"


def test_a_rule_that_rounds_what_the_function_does_not_is_wrong():
    @tf.custom_gradient
    def sine(x):
        return tf.sin(x), lambda dy: tf.cast(tf.cast(dy * tf.cos(x), tf.bfloat16), x.dtype)

    assert pb.check(sine, tf.constant(X, tf.float64)).verdict == "wrong"
