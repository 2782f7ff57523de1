"""Ways of writing and combining functions that are easy to get wrong: the same gradient in each mode."""

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import UnsupportedError
from tests.modes import MODES, assert_gradients

X = np.array([0.5, -1.5, 2.0], np.float32)
VARIABLE = tf.Variable(X)
KERAS_VARIABLE = keras.Variable(X)


def three(dy):
    return 3.0 * dy


def ten_times_original(dy, *, original):
    return 10.0 * original(dy)


@tf.custom_gradient
def stock(x):
    def grad(dy):
        return 5.0 * dy

    return tf.sin(x), grad


@tf.custom_gradient
def stock_around_ours(x):
    def grad(dy):
        return 5.0 * dy

    return pb.with_gradient(tf.sin, three)(x), grad


class Doubling:
    def __call__(self, x):
        return 2.0 * x

    def method(self, x):
        return 2.0 * x


def twice_the_same(x):
    first, second = pb.with_gradient(lambda x: (x, x), lambda a, b: 5.0 * a + 7.0 * b)(x)
    return first, 2.0 * second


def chained(x):
    for _ in range(4):
        x = pb.with_gradient(lambda z: z * 1.0, lambda dz: 2.0 * dz)(x)
    return x


CASES: dict[str, tuple[Callable[..., Any], Any]] = {
    "a NumPy array as output": (pb.with_gradient(lambda x: np.ones(3, np.float32), three), 3.0),
    "a variable as output": (pb.with_gradient(lambda x: VARIABLE, three), 3.0),
    "a Keras variable as output": (pb.with_gradient(lambda x: KERAS_VARIABLE, three), 3.0),
    "the input as output": (lambda x: pb.with_gradient(lambda x: x, three)(x) + x, 4.0),
    "the same output twice": (twice_the_same, 19.0),
    "the same input twice": (
        lambda x: pb.with_gradient(lambda a, b: a * b, lambda d: (3.0 * d, 5.0 * d))(x, x),
        8.0,
    ),
    "None among the outputs": (
        lambda x: pb.with_gradient(lambda x: (2.0 * x, None), lambda a, b: 3.0 * a)(x)[0],
        3.0,
    ),
    "a number among the outputs": (
        lambda x: pb.with_gradient(lambda x: {"y": x * 1.0, "n": 3}, lambda u: 3.0 * u["y"])(x)[
            "y"
        ],
        3.0,
    ),
    "a function": (pb.with_gradient(tf.function(lambda x: tf.sin(x)), three), 3.0),
    "the original of a function": (
        pb.with_gradient(tf.function(lambda x: x**2), ten_times_original),
        20 * X,
    ),
    "a partial": (pb.with_gradient(functools.partial(tf.math.pow, y=2.0), three), 3.0),
    "a callable object": (pb.with_gradient(Doubling(), three), 3.0),
    "a bound method": (pb.with_gradient(Doubling().method, three), 3.0),
    "an original that is ours": (
        pb.with_gradient(pb.with_gradient(tf.sin, three), ten_times_original),
        30.0,
    ),
    "an original that is stock": (pb.with_gradient(lambda x: stock(x), ten_times_original), 50.0),
    "stock around ours": (stock_around_ours, 5.0),
    "options of an op": (
        lambda x: pb.with_gradient(tf.nn.softmax, three)(x, axis=-1, name="s"),
        3.0,
    ),
    "a chain": (chained, 16.0),
    "a scalar rule for a scalar": (
        lambda x: pb.with_gradient(lambda s: s * 1.0, lambda ds: 3.0)(tf.reduce_sum(x)),
        3.0,
    ),
    "an empty tensor beside": (
        lambda x: pb.with_gradient(lambda x, e: x * 1.0, lambda d: (3.0 * d, None))(
            x, tf.zeros([0, 2])
        ),
        3.0,
    ),
}
SOME_MODES = [
    "eager",
    "tf.function, tape outside",
    "tf.function, tape inside",
    "nested tf.function, tape outside",
    "XLA",
    "tf.cond",
    "tf.while_loop",
]


@pytest.mark.parametrize("mode", SOME_MODES)
@pytest.mark.parametrize("name", CASES)
def test_the_same_gradient_in_every_mode(name: str, mode: str) -> None:
    function, wanted = CASES[name]
    assert_gradients(MODES[mode](function, [tf.constant(X)]), [wanted + 0 * X])


@pytest.mark.parametrize(
    "mode", ["eager", "tf.function, tape outside", "tf.function, tape inside", "XLA"]
)
def test_recompute_grad_around_ours(mode: str) -> None:
    recomputed = tf.recompute_grad(pb.with_gradient(lambda x: tf.sin(x), three))
    assert_gradients(MODES[mode](recomputed, [tf.constant(X)]), [3 + 0 * X])


class Pair(tf.experimental.ExtensionType):
    first: tf.Tensor
    second: tf.Tensor


@pytest.mark.parametrize("mode", ["eager", "tf.function, tape outside", "tf.function, tape inside"])
def test_extension_types_are_refused(mode: str) -> None:
    function = pb.with_gradient(lambda pair: pair.first * 2.0, three)
    with pytest.raises(UnsupportedError, match=r"ExtensionType \(Pair\).*Pass its tensors"):
        MODES[mode](lambda x: function(Pair(x, x)), [tf.constant(X)])


def test_the_body_runs_once_a_call() -> None:
    """So that statistics and counters inside it move once."""
    count = tf.Variable(0.0, trainable=False)

    def counting(x):
        count.assign_add(1.0)
        return x * 2.0

    for rule in (three, ten_times_original, lambda dy, *, variables: (dy, [])):
        function = pb.with_gradient(counting, rule)
        for mode in ("eager", "tf.function, tape outside", "tf.function, tape inside"):
            count.assign(0.0)
            MODES[mode](function, [tf.constant(X)])
            assert float(count) == 1.0


def test_a_random_body_is_differentiated_as_it_ran() -> None:
    dropout = pb.with_gradient(
        lambda x: tf.nn.dropout(x, 0.5), lambda dy, *, original: original(dy)
    )
    x = tf.ones([1000])
    for call in (dropout, tf.function(dropout), tf.function(dropout, jit_compile=True)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = call(x)
        np.testing.assert_allclose(tape.gradient(y, x), y)


def test_a_persistent_tape_knows_what_lies_between() -> None:
    x = tf.constant(X)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = pb.with_gradient(lambda x: x * 2.0, three)(x)
        z = y**2
    np.testing.assert_allclose(tape.gradient(z, y), 4 * X)
    np.testing.assert_allclose(tape.gradient(y, x), [3.0] * 3)
    np.testing.assert_allclose(tape.gradient(z, x), 12 * X)


def test_a_graph_of_the_first_version() -> None:
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [3])
        (gradient,) = tf.gradients(pb.with_gradient(tf.sin, three)(x), x)
        with tf.compat.v1.Session() as session:
            assert session.run(gradient, {x: X}).tolist() == [3.0] * 3


def test_inside_a_dataset() -> None:
    rounded = pb.with_gradient(tf.round, three)
    rows = tf.data.Dataset.from_tensor_slices(X).map(rounded)
    assert [float(row) for row in rows] == np.round(X).tolist()
