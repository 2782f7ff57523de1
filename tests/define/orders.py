"""Ways to differentiate a function, forward and in reverse, at once and inside a tf.function: to be tried in turn."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.errors import NotLinearError

REFUSED = (NotLinearError, tf.errors.InvalidArgumentError)
NOT_LINEAR = "not linear in its upstream"

Function = Callable[..., Any]


def tangent(function: Function, x: Any) -> Any:
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        y = function(x)
    return accumulator.jvp(y)


def gradient(function: Function, x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x)


def second(function: Function, x: Any) -> Any:
    """The derivative of the gradient of the sum of squares: its upstream depends on the input."""
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(function(x) ** 2)
        slope = tape.gradient(y, x)
    return outer.gradient(slope, x)


def tangent_and_gradient(function: Function, x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
            y = function(x)
    return accumulator.jvp(y), tape.gradient(y, x)


def inside(way: Function) -> Function:
    return lambda function, x: tf.function(lambda x: way(function, x))(x)


REVERSE: dict[str, Function] = {
    "tape outside": gradient,
    "tape inside": inside(gradient),
    "two tapes": second,
    "two tapes inside": inside(second),
}
FORWARD: dict[str, Function] = {
    "accumulator outside": tangent,
    "accumulator inside": inside(tangent),
}


def nested(function: Function, depth: int) -> list[Function]:
    """The function in tf.functions, the innermost first."""
    found: list[Function] = [tf.function(function)]
    for _ in range(depth - 1):
        found.append(tf.function(calling(found[-1])))
    return found


def calling(function: Function) -> Function:
    return lambda x: function(x)


def mapping(function: Function) -> Function:
    return lambda x: tf.vectorized_map(function, x)


X = np.array([2.0, 3.0], np.float32)
LIMIT = 5.0


def square(x):
    """The function whose gradient is replaced."""
    return tf.square(x)


def by_function(x):
    """A call of it, in a function of its own."""
    return square(x)


def linear(dy, *, inputs):
    """Its own gradient."""
    return dy * 2.0 * inputs[0]


def clipped(dy, *, inputs):
    """A rule that is not linear in its upstream."""
    return tf.clip_by_value(dy * 2.0 * inputs[0], -LIMIT, LIMIT)
