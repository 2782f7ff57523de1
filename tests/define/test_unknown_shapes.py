"""Shapes that are known only when the program runs: in control flow under XLA, and of explicit tangents."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)
UNKNOWN = {"first": tf.TensorSpec([None, 3]), "all": tf.TensorSpec([None, None])}


def twice(function: Callable[..., Any], x: Any) -> Any:
    shapes = (tf.TensorShape([]), tf.TensorShape([None, None]))
    return tf.while_loop(
        lambda i, _: i < 2,
        lambda i, y: (i + 1, function(y)),
        (0, x),
        shape_invariants=shapes,
        maximum_iterations=2,
    )[1]


def chosen(function: Callable[..., Any], x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > -1e9, lambda: function(x), lambda: x)


def twice_chosen(function: Callable[..., Any], x: Any) -> Any:
    return twice(lambda y: chosen(function, y), x)


def twice_in_a_function(function: Callable[..., Any], x: Any) -> Any:
    return twice(tf.function(function), x)


PLACES = {"loop": twice, "branch": chosen, "branch in a loop": twice_chosen,
          "function in a loop": twice_in_a_function}  # fmt: skip
RULES: dict[str, tuple[Callable[..., Any], float]] = {
    "of its shape": (lambda dy: 3.0 * dy, 3.0),
    "one more axis": (lambda dy: tf.stack([dy, dy]), 2.0),
    "another dtype": (lambda dy: tf.cast(5.0 * dy, tf.float64), 5.0),
    "zero": (lambda dy: 0.0, 0.0),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("unknown", UNKNOWN)
def test_in_control_flow_under_xla(unknown: str, place: str, rule: str) -> None:
    function = pb.with_gradient(lambda x: x * 1.0, RULES[rule][0])

    @tf.function(jit_compile=True, input_signature=[UNKNOWN[unknown]], autograph=False)
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(PLACES[place](function, x))
        return tape.gradient(y, x)

    times = 1 if place == "branch" else 2
    np.testing.assert_allclose(step(tf.constant(X)), 0 * X + RULES[rule][1] ** times)


class Cell(keras.layers.Layer):
    """A recurrent cell whose activation has a gradient of ours."""

    state_size = output_size = 3

    def __init__(self, activation: Any) -> None:
        super().__init__()
        self.activation = activation
        self.kernel = self.add_weight(shape=(5, 3), initializer="glorot_uniform")

    def call(self, x: Any, states: Any) -> Any:
        y = self.activation(tf.concat([x, states[0]], 1) @ self.kernel)
        return y, [y]


@pytest.mark.parametrize("compiled", [False, True], ids=["graph", "XLA"])
def test_training_a_recurrent_network_whose_last_batch_is_not_full(compiled: bool) -> None:
    def trained(activation: Any, **options: Any) -> Any:
        keras.utils.set_random_seed(3)
        layers = [keras.layers.RNN(Cell(activation)), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input((4, 2)), *layers])
        model.compile(keras.optimizers.SGD(0.1), "mse", **options)
        x = np.random.default_rng(0).normal(size=[10, 4, 2])
        model.fit(x, x[:, 0, :1], batch_size=4, epochs=2, verbose=0, shuffle=False)
        return model.layers[0].get_weights()[0]

    ours = pb.with_gradient(tf.tanh, lambda dy, *, outputs: dy * (1.0 - outputs**2))
    found = trained(ours, jit_compile=compiled)
    np.testing.assert_allclose(found, trained(tf.tanh, run_eagerly=True), rtol=1e-4, atol=1e-6)


def tangent(function: Callable[..., Any], x: Any) -> Any:
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        y = function(x)
    return accumulator.jvp(y)


def one_row(dx):
    return tf.reduce_sum(dx, 0, keepdims=True)


def turned(dx):
    return tf.transpose(dx)


FORWARD: dict[str, Callable[..., Any]] = {
    "through a function": lambda f, spec: (
        lambda x: tangent(tf.function(f, input_signature=[spec]), x)
    ),
    "inside a function": lambda f, spec: tf.function(
        lambda x: tangent(f, x), input_signature=[spec], autograph=False
    ),
    "inside, XLA": lambda f, spec: tf.function(
        lambda x: tangent(f, x), input_signature=[spec], jit_compile=True, autograph=False
    ),
}


@pytest.mark.parametrize("jvp", [one_row, turned], ids=lambda j: j.__name__)
@pytest.mark.parametrize("way", FORWARD)
@pytest.mark.parametrize("unknown", [*UNKNOWN.values(), tf.TensorSpec(None)], ids=str)
def test_an_explicit_tangent_of_another_shape_is_refused(unknown: Any, way: str, jvp: Any) -> None:
    function = pb.with_gradient(lambda x: x * 1.0, lambda dy: dy, jvp=jvp)
    # XLA drops assertions: there the node that fails is called after the jvp.
    words = rf"jvp.{jvp.__name__}.*test_unknown_shapes.py(:|_line_)\d+"
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        FORWARD[way](function, unknown)(tf.constant(X))


@pytest.mark.parametrize("way", FORWARD)
@pytest.mark.parametrize("unknown", [*UNKNOWN.values(), tf.TensorSpec(None)], ids=str)
def test_an_explicit_tangent_of_the_right_shape_is_used(unknown: Any, way: str) -> None:
    function = pb.with_gradient(lambda x: x * 1.0, lambda dy: dy, jvp=lambda dx: 7.0 * dx)
    np.testing.assert_allclose(FORWARD[way](function, unknown)(tf.constant(X)), 7 + 0 * X)


def too_short(dy):
    return tf.ones([2]) * tf.reduce_sum(dy)


def test_xla_names_the_rule_whose_gradient_has_another_shape() -> None:
    function = pb.with_gradient(lambda x: x * 1.0, too_short)

    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None])])
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(function(x))
        return tape.gradient(y, x)

    words = r"node rule_too_short_.*test_unknown_shapes.py_line_\d+_of"
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        step(tf.ones([3]))


def fine(dy):
    return dy


def of_five(dy):
    return tf.ones([5])


def test_of_a_list_of_rules_the_one_is_named_that_is_wrong() -> None:
    x = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        with pb.override({tf.multiply: [fine, of_five]}):
            y = tf.multiply(x, 2.0 * x)
    words = r"rule of_five \(.*test_unknown_shapes.py:\d+\) of .*float32\[5\]; wanted"
    with pytest.raises(pb.errors.RuleResultError, match=words):
        tape.gradient(y, x)
