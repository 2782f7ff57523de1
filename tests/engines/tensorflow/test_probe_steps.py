"""A function operation by operation: values, local derivatives, and what a change at one place does to the gradient."""

import numpy as np
import pytest
import tensorflow as tf

from pullback.check.programs.steps import Slips, Steps, own_gradients
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
    traced = probe.traced_function()
    return Steps(traced, xs), xs, ws, own_gradients(traced, xs, ws)


def pulled_from_the_inputs(steps, xs, ws):
    """The gradient, put together from what flows back to the arguments themselves."""
    at = steps.at(xs, ws)
    back = steps.local(at, at.inputs, at.cotangents)
    changes = {
        (s, j): back[s][j]
        for s, step in enumerate(steps.steps)
        for j, origin in enumerate(step.origins)
        if origin[0] == -1
    }
    return steps.pull(at, changes)


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
    at = steps.at(xs, ws)
    u, t = np.random.default_rng(2).normal(size=X.shape), 1e-5
    ahead, behind = (steps.at([xs[0] + s * u], ws).inputs for s in (t, -t))
    for made, a, b in zip(steps.tangents(at, [u]), ahead, behind, strict=True):
        for tangent, one, other in zip(made, a, b, strict=True):
            np.testing.assert_allclose(tangent, (one - other) / (2 * t), 1e-6, 1e-8)


def test_a_stop_that_stops_nothing_of_the_derivative_is_kept():
    steps, *_ = program(stopped, X)
    assert all("largest" not in step.inputs for step in steps.steps)


def test_a_variant_takes_an_option_otherwise():
    steps, xs, ws, _ = program(tf.cumsum, X)
    (made,) = steps.misread(steps.at(xs, ws))
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


def test_a_factor_on_the_way_back_is_that_of_the_gradient():
    steps, xs, ws, own = program(lambda x: tf.exp(tf.sin(x)), X)
    at, (sine, _) = steps.at(xs, ws), range(2)
    found = steps.slipped(at, Slips(factors={(sine, 0): 3.0}))
    np.testing.assert_allclose(found[0], 3 * own[0])
    exp = np.exp(np.sin(xs[0]))
    found = steps.slipped(at, Slips(values={(sine, 0): 2 * xs[0]}))
    np.testing.assert_allclose(found[0], ws[0] * exp * np.cos(2 * xs[0]))
    found = steps.slipped(at, Slips(factors={(sine, 0): 0.0}, derivatives={(sine, 0): xs[0]}))
    np.testing.assert_allclose(found[0], ws[0] * exp * xs[0])


def test_other_indices_give_the_gradient_of_another_function():
    steps, xs, ws, _ = program(lambda x: tf.gather(x * x, [2, 0]), X)
    at = steps.at(xs, ws)
    (indices,) = at.held
    found = steps.altered(at, [[np.array([1, 1], a.dtype) if a.shape else a for a in indices]])
    wanted = np.zeros(X.shape)
    wanted[1] = ws[0].sum(0) * 2 * xs[0][1]
    np.testing.assert_allclose(found[0], wanted)
