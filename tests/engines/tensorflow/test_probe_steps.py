"""A function operation by operation: values, local derivatives, and what a change at one place does to the gradient."""

import numpy as np
import pytest
import tensorflow as tf

from pullback.engines.tensorflow.probing.make import make_probe

X = tf.constant(np.random.default_rng(0).normal(size=(3, 4)))


def chain(x):
    total = tf.reduce_sum(x * x, -1, keepdims=True)
    return tf.tanh(x) / total


@tf.function
def compiled(x):
    total = tf.reduce_sum(x * x, -1, keepdims=True)
    return tf.tanh(x) / total


def stopped(x):
    largest = tf.stop_gradient(tf.reduce_max(x, -1, keepdims=True))
    return tf.math.log(tf.reduce_sum(tf.exp(x - largest), -1, keepdims=True)) + largest


def straight_through(x):
    return x + tf.stop_gradient(tf.sin(x) - x)


def program(fn, *args):
    probe = make_probe(fn, args, {}, None, 0)
    xs = probe.start()
    ws = [np.random.default_rng(1).normal(size=leaf.shape) for leaf in probe.outputs]
    own = probe.own_vjp(xs, ws)
    return probe.program_steps(), xs, ws, own


def pulled_from_the_inputs(steps, xs, ws):
    """The gradient, put together from what flows back to the arguments themselves."""
    values = steps.values(xs, ws)
    back = steps.local(xs, values.inputs, values.cotangents)
    only = [
        [
            b if origin[0] == -1 else np.zeros_like(b)
            for b, origin in zip(made, step.origins, strict=True)
        ]
        for made, step in zip(back, steps.steps, strict=True)
    ]
    return steps.pull(xs, only)


@pytest.mark.parametrize("fn", [chain, compiled, stopped, straight_through])
def test_what_flows_back_to_the_arguments_is_the_gradient(fn):
    steps, xs, ws, own = program(fn, X)
    np.testing.assert_allclose(pulled_from_the_inputs(steps, xs, ws)[0], own[0], 1e-12)


@pytest.mark.parametrize("fn", [chain, compiled])
def test_steps_have_their_lines_and_names(fn):
    steps, *_ = program(fn, X)
    found = {step.op: step for step in steps.steps}
    assert found["Sum"].line == "total = tf.reduce_sum(x * x, -1, keepdims=True)"
    assert found["Sum"].output == "total"
    assert found["RealDiv"].inputs == ("", "total")
    assert found["Tanh"].inputs == ("x",)


def test_tangents_are_differences_of_values():
    steps, xs, ws, _ = program(chain, X)
    u, t = np.random.default_rng(2).normal(size=X.shape), 1e-5
    ahead, behind = (steps.values([xs[0] + s * u], ws).inputs for s in (t, -t))
    for made, a, b in zip(steps.tangents(xs, [u]), ahead, behind, strict=True):
        for tangent, one, other in zip(made, a, b, strict=True):
            np.testing.assert_allclose(tangent, (one - other) / (2 * t), 1e-6, 1e-8)


def test_a_stop_that_stops_nothing_of_the_derivative_is_kept():
    steps, *_ = program(stopped, X)
    assert all("largest" not in step.inputs for step in steps.steps)


def test_a_variant_takes_an_option_otherwise():
    steps, xs, ws, _ = program(tf.cumsum, X)
    values = steps.values(xs, ws)
    (made,) = steps.variants(xs, values)
    found = dict(made)["accumulated in the wrong direction"]
    np.testing.assert_allclose(found[0], np.cumsum(ws[0], 0), 1e-12)


def test_of_many_steps_the_first_and_the_last_are_looked_at():
    def long(x):
        for _ in range(200):
            x = tf.sin(x)
        return x

    steps, *_ = program(long, X)
    assert len(steps.steps) == 100
    assert steps.steps[50].origins == ((-2, 0),)
