"""Gradients that are meant to differ from the derivative, and those of TensorFlow's own operations."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

X = tf.constant(np.random.default_rng(0).normal(size=(3, 4)), tf.float32)


@pb.custom_gradient
def guided(x):
    return tf.nn.relu(x), lambda dy: tf.where((dy > 0) & (x > 0), dy, 0.0)


def of_inputs(dy, *, inputs):
    return tf.nn.relu(dy) * tf.cast(inputs[0] > 0, dy.dtype)


def of_original(dy, *, original):
    return tf.where(dy > 0, original(dy), 0.0)


def clipped(limit):
    return pb.with_gradient(tf.identity, lambda dy: tf.clip_by_value(dy, -limit, limit))


def scaled(factor):
    return pb.custom_gradient(lambda x: (tf.sin(x), lambda dy: factor * dy * tf.cos(x)))


def test_a_reference_rule_is_what_is_meant():
    assert pb.check(guided, X, against=of_inputs)
    assert not pb.check(guided, X)


def test_a_rule_that_lets_more_through_is_not_the_reference():
    @pb.custom_gradient
    def unmasked(x):
        return tf.nn.relu(x), lambda dy: tf.nn.relu(dy)

    assert pb.check(unmasked, X, against=of_inputs).verdict == "wrong"


def test_a_difference_at_zero_alone_is_found():
    @pb.custom_gradient
    def at_zero(x):
        return tf.nn.relu(x), lambda dy: tf.where((dy > 0) & (x >= 0), dy, 0.0)

    assert pb.check(at_zero, X, against=of_inputs).verdict == "wrong"


def test_a_function_with_a_gradient_of_its_own_is_a_reference():
    assert pb.check(clipped(1.0), X, against=clipped(1.0))
    # the two differ for upstreams beyond 1 only
    assert pb.check(clipped(1.0), X, against=clipped(1e3)).verdict == "wrong"


def test_original_is_that_of_the_function_without_its_rule():
    assert pb.check(pb.with_gradient(tf.nn.relu, of_original), X, against=of_original)
    assert pb.check(
        pb.override({tf.nn.relu: of_inputs}), lambda x: tf.nn.relu(x), X, against=of_original
    )


def test_original_that_nobody_has_is_refused():
    with pytest.raises(pb.PullbackError, match=r"asks for `original`.*pb.with_gradient\(plain"):
        pb.check(guided, X, against=of_original)


def test_an_approximation_is_right_within_its_tolerance():
    assert pb.check(scaled(1.0005), X).verdict == "wrong"
    report = pb.check(scaled(1.0005), X, tolerance=1e-3)
    assert report.ok
    assert "within tolerance=0.001" in str(report)
    assert pb.check(scaled(1.005), X, tolerance=1e-3).verdict == "wrong"


@pytest.mark.parametrize("tolerance", [-1.0, 1.0, "much"])
def test_a_tolerance_is_a_share(tolerance):
    with pytest.raises(pb.PullbackError, match="tolerance is a share of the gradient"):
        pb.check(tf.sin, X, tolerance=tolerance)


def test_what_the_rounding_of_the_arguments_hides_is_a_note():
    report = pb.check(scaled(1 + 2e-8), X)
    assert report.ok
    assert "which the rounding of the arguments hides" in str(report)
    assert pb.check(scaled(1 + 2e-8), tf.cast(X, tf.float64)).verdict == "wrong"


def test_second_derivatives_that_tensorflow_misses_are_a_note():
    layer = keras.layers.LayerNormalization()
    report = pb.check(layer, X)
    assert report.ok
    assert "second derivatives of StopGradient are wrong or missing" in str(report)


def test_second_derivatives_that_were_asked_for_are_a_finding():
    report = pb.check(keras.layers.LayerNormalization(), X, order=2)
    assert report.findings[0].kind == "second"
    assert "StopGradient" in report.diagnosis


def test_the_operation_whose_gradient_is_wrong_is_named():
    report = pb.check(tf.math.cumprod, tf.constant([1.0, 0.0, 2.0]))
    assert "is zero where x = 0" in report.diagnosis
    assert "own gradient of Cumprod" in report.diagnosis


def test_a_rule_that_raises_in_a_graph_is_a_finding():
    @pb.custom_gradient
    def eager_only(x):
        def rule(dy):
            if not tf.executing_eagerly():
                raise RuntimeError("only eagerly")
            return dy * tf.cos(x)

        return tf.sin(x), rule

    report = pb.check(eager_only, X)
    assert report.findings[0].kind == "mode"
    assert "RuntimeError: only eagerly" in report.diagnosis


def test_a_function_that_cannot_be_traced_is_no_finding():
    report = pb.check(lambda x: x * float(tf.reduce_sum(X)), X)
    assert report.ok, str(report)
