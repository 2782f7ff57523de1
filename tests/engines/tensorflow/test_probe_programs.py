"""Slow functions are traced, and what a check says of them is what it says of eager execution."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from pullback.check import check
from pullback.engines.tensorflow.probing import make_probe, programs

X = tf.constant(np.random.default_rng(0).normal(size=6), tf.float64)


@pytest.fixture(autouse=True)
def everything_is_slow(monkeypatch):
    monkeypatch.setattr(programs, "_SLOW", 0.0)
    monkeypatch.setattr(programs, "_RUNS", 1)


def probe_of(fn, *args):
    """A probe that has run everything often enough to be traced."""
    probe = make_probe(fn, args, {}, None, 0)
    xs = probe.start()
    ws = [np.ones(leaf.shape) for leaf in probe.outputs]
    for _ in range(3):
        probe.values(xs)
        probe.vjp(xs, ws)
        probe.claims(xs, ws, xs, second=False)
        probe.claims(xs, ws, xs, second=True)
    return probe


def traced(probe):
    return {what for what, program in probe.programs.made.items() if program is not None}


def test_value_gradient_and_its_derivatives_are_traced_and_right():
    probe = probe_of(lambda x: x**3, X)
    assert traced(probe) == {"values", "vjp", "jvp", "second"}
    x, w, u = (np.random.default_rng(k).normal(size=6) for k in range(3))
    claims = probe.claims([x], [w], [u], second=True)
    np.testing.assert_allclose(claims.values[0], x**3)
    np.testing.assert_allclose(claims.vjp[0], 3 * x**2 * w)
    np.testing.assert_allclose(claims.jvp[0], 3 * x**2 * u)
    np.testing.assert_allclose(claims.second[0], 6 * x * w * u)


def test_variables_move_in_a_program():
    scale = tf.Variable(np.full(6, 2.0))
    probe = probe_of(lambda x: x * scale, X)
    x, w = np.arange(6.0), np.ones(6)
    values, gradients = probe.vjp([x, np.full(6, 5.0)], [w])
    np.testing.assert_allclose(values[0], 5 * x)
    np.testing.assert_allclose(gradients[0], np.full(6, 5.0))
    np.testing.assert_allclose(gradients[1], x)
    probe.close()
    np.testing.assert_array_equal(scale.numpy(), np.full(6, 2.0))


def reads_a_number(x):
    return x * float(tf.reduce_sum(x))


def is_another_when_traced(x):
    return x if tf.executing_eagerly() else 2 * x


def draws(x):
    return x * tf.random.uniform([], dtype=x.dtype)


def has_as_many_outputs_as_positives(x):
    return tf.boolean_mask(x, x > 0)


@pytest.mark.parametrize(
    "fn", [reads_a_number, is_another_when_traced, draws, has_as_many_outputs_as_positives]
)
def test_what_a_program_cannot_stand_for_stays_eager(fn):
    assert traced(probe_of(fn, X)) == set()


@tf.custom_gradient
def overflowing(x):
    return x * x, lambda dy: 2 * dy * x * 1e200 * 1e-200


def test_what_is_not_finite_is_not_optimized_away():
    probe = probe_of(overflowing, X)
    assert "vjp" in traced(probe)
    _, gradients = probe.vjp([np.array([1e150, 1, 2, 3, 4, 5])], [np.ones(6)])
    assert np.isinf(gradients[0][0])
    np.testing.assert_allclose(gradients[0][1:], [2, 4, 6, 8, 10])


def test_the_optimizer_is_as_before():
    before = tf.config.optimizer.get_experimental_options()
    probe_of(tf.sin, X)
    assert tf.config.optimizer.get_experimental_options() == before


def refuses_negatives(x):
    tf.debugging.assert_non_negative(x)
    return tf.sqrt(x)


def test_points_that_a_program_refuses_are_outside_the_domain():
    report = check(refuses_negatives, tf.abs(X) + 0.1)
    assert report.ok, str(report)


@tf.custom_gradient
def wrong_above_three(x):
    return tf.sin(x), lambda dy: dy * tf.cos(x) * tf.where(x > 3.0, 2.0, tf.ones_like(x))


def test_a_wrong_rule_is_found_when_traced():
    assert not check(wrong_above_three, X).ok


def test_running_statistics_are_put_back_by_programs():
    layer = keras.layers.BatchNormalization()
    rows = tf.reshape(tf.cast(X, tf.float32), (3, 2))
    layer.build(rows.shape)
    before = [w.numpy() for w in layer.weights]
    assert check(layer, rows, kwargs={"training": True}, order=1)
    for weight, old in zip(layer.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), old)


def refuse(x):
    raise ValueError("too many calls")


@pytest.mark.parametrize(
    ("last", "why"),
    [(refuse, "began to raise during the check: too many calls"), (tf.cos, "gave other values")],
)
def test_a_function_that_is_another_one_at_the_end_has_no_verdict(last, why):
    calls = []

    def function(x):
        calls.append(x)
        return last(x) if len(calls) == limit else tf.sin(x)

    limit = 0
    assert check(function, X).verdict == "right"
    limit = len(calls)
    calls.clear()
    report = check(function, X)
    assert report.verdict == "undecided"
    assert why in str(report)
