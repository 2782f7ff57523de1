"""What runs under an override, handed to a tf.function as an argument, keeps its gradient."""

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from tests.define.test_as_argument import WAYS
from tests.modes import assert_gradients, eager

X = np.array([1.5, 2.0], np.float32)
FIVE = [5.0 + 0.0 * X]


def five_times(dy: Any) -> Any:
    return 5.0 * dy


def by_one_op(x: Any) -> Any:
    return tf.square(x)


def square(x: Any) -> Any:
    return x * x


def by_function(x: Any) -> Any:
    return square(x)


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(x: Any) -> Any:
        return 1.0 * function(x)

    return inner


wrapped = decorated(square)


APPLIED: dict[str, Callable[[], Any]] = {
    "op type": lambda: pb.override({"Square": five_times})(by_one_op),
    "function of TensorFlow": lambda: pb.override({tf.square: five_times})(tf.square),
    "region": lambda: pb.override({square: five_times})(by_function),
    "tf.function": lambda: pb.override({"Square": five_times})(tf.function(by_one_op)),
    "concrete function": lambda: pb.override({"Square": five_times})(
        tf.function(by_one_op).get_concrete_function(tf.TensorSpec([2]))
    ),
    "layer": lambda: pb.override({"Relu": five_times})(keras.layers.ReLU()),
    "model": lambda: pb.override({"Relu": five_times})(
        keras.Sequential([keras.Input([]), keras.layers.ReLU()])
    ),
    "decorated afterwards": lambda: decorated(pb.override({"Square": five_times})(by_one_op)),
}
IN_A_BLOCK: dict[str, tuple[Any, Any]] = {
    "op type": ("Square", by_one_op),
    "function of TensorFlow": (tf.square, tf.square),
    "function of Keras": (keras.ops.square, keras.ops.square),
    "region": (square, by_function),
    "the region itself": (square, square),
    "a decorated function": (wrapped, wrapped),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", APPLIED)
def test_what_an_override_was_applied_to(kind: str, way: str) -> None:
    assert_gradients(eager(WAYS[way](APPLIED[kind]()), [tf.constant(X)]), FIVE)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", IN_A_BLOCK)
def test_what_runs_in_a_block(kind: str, way: str) -> None:
    target, function = IN_A_BLOCK[kind]
    run = WAYS[way](function)
    with pb.override({target: five_times}):
        assert_gradients(eager(run, [tf.constant(X)]), FIVE)
    assert_gradients(eager(run, [tf.constant(X)]), [2 * X])


def test_each_is_traced_for_itself_and_once() -> None:
    traces: list[Any] = []

    @tf.function
    def run(function: Any, x: Any) -> Any:
        traces.append(function)
        return function(x)

    five = pb.override({"Square": five_times})(by_one_op)
    minus = pb.override({"Square": tf.negative})(by_one_op)
    for _ in range(2):
        for function, wanted in ((five, 5.0), (minus, -1.0), (by_one_op, 2 * X)):
            found = eager(functools.partial(run, function), [tf.constant(X)])
            assert_gradients(found, [wanted + 0 * X])
    assert traces == [five, minus, by_one_op]


def test_functions_made_in_a_block_are_themselves() -> None:
    """What they copy from the function behind does not speak for them."""
    with pb.override({wrapped: five_times}):
        assert_gradients(eager(wrapped, [tf.constant(X)]), FIVE)
        made = [
            pb.with_gradient(wrapped, tf.negative),
            pb.override({square: tf.negative})(wrapped),
        ]
    run = tf.function(lambda g, x: g(x))
    for function in made:
        found = eager(functools.partial(run, function), [tf.constant(X)])
        assert_gradients(found, [-1.0 + 0.0 * X])
    assert not hasattr(wrapped, "__tf_tracing_type__")
