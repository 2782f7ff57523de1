"""Gradients that were told wrongly once: what a rule alone reads, and variables that are read by copies."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

X = np.array([0.3, 1.7], np.float32)


def sine_of_framework() -> Any:
    @tf.custom_gradient
    def sine(x: Any) -> Any:
        e = tf.exp(x)
        return tf.sin(x), lambda dy: dy * e

    return sine


def sine_of_pullback() -> Any:
    @pb.custom_gradient
    def sine(x: Any) -> Any:
        e = tf.exp(x)
        return tf.sin(x), lambda dy: dy * e

    return sine


def looped(sine: Any) -> Any:
    @tf.function
    def loop(x: Any) -> Any:
        for _ in tf.range(2):
            x = sine(x)
        return x

    return loop


WAYS = {
    "eager": lambda sine: sine,
    "traced": tf.function,
    "traced inside": lambda sine: tf.function(lambda x: 2.0 * sine(x)),
    "compiled": lambda sine: tf.function(sine, jit_compile=True),
    "looped": looped,
    "a call in a call": lambda sine: tf.function(lambda x: tf.function(sine)(x)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", [sine_of_framework, sine_of_pullback])
def test_a_rule_may_read_what_the_result_does_not_need(make: Any, way: str) -> None:
    fn, x = WAYS[way](make()), tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = fn(x)
    expected = tape.gradient(y, x)
    flow = pb.explain(fn, x)
    assert flow.notes == ()
    assert flow.sources[0].gradient.norm == pytest.approx(np.linalg.norm(expected), rel=1e-5)
    assert "Mend the rule" not in flow.why("x")


def test_a_penalty_on_the_gradient_of_such_a_rule() -> None:
    sine = tf.function(sine_of_framework())

    def penalty(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = sine(x)
        return tape.gradient(y, x) ** 2

    flow = pb.explain(penalty, tf.constant(X))
    assert flow.notes == ()
    assert flow.sources[0].gradient.norm == pytest.approx(
        np.linalg.norm(2 * np.exp(2 * X)), rel=1e-5
    )


def test_a_variable_whose_rows_were_read_or_written() -> None:
    w, same = (tf.Variable([1.0, 2.0, 3.0], name=n) for n in ("w", "same"))

    def gathered(x: Any) -> Any:
        return tf.reduce_sum(tf.gather(w, [0, 1])) + tf.reduce_sum(3.0 * x * w + x * same)

    def scattered(x: Any) -> Any:
        w.scatter_nd_add([[0]], [1.0])
        return tf.reduce_sum(3.0 * (x * w))

    x = tf.constant([1.0, 2.0, 3.0])
    for fn, expected in ((gathered, [4.0, 7.0, 9.0]), (scattered, [3.0, 6.0, 9.0])):
        flow = pb.explain(fn, x)
        told = {s.name: s.gradient.norm for s in flow.sources if s.gradient}
        assert flow.notes == ()
        assert told["w"] == pytest.approx(np.linalg.norm(expected))
        assert told.get("same", np.linalg.norm(x)) == pytest.approx(np.linalg.norm(x))


def test_the_scale_of_a_loss_is_forgotten_after_an_explanation():
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())
    weight = tf.Variable([1.0, 2.0])
    optimizer.build([weight])
    clipped = pb.rules.clip(value=1e-3)

    def loss():
        return optimizer.scale_loss(tf.reduce_sum(clipped(weight) * 3.0))

    def gradient_after(scaled):
        with tf.GradientTape() as tape:
            y = scaled() if scaled else tf.reduce_sum(clipped(weight) * 3.0)
        return tape.gradient(y, weight).numpy()

    pb.explain(loss, wrt=[weight])
    np.testing.assert_allclose(gradient_after(None), 1e-3)
    scale = float(optimizer.dynamic_scale)
    np.testing.assert_allclose(gradient_after(loss), 1e-3 * scale)
