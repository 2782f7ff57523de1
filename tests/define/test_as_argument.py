"""A function with a gradient of its own, handed to a tf.function as an argument, keeps it."""

import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from tests.modes import assert_gradients, eager

X = np.array([1.5, -2.0], np.float32)


def square(x):
    return x**2


def times_five(dy):
    return 5.0 * dy


def times_six(dy):
    return 6.0 * dy


def five_times() -> Any:
    return pb.with_gradient(square, times_five)


WAYS: dict[str, Callable[[Any], Any]] = {
    "by position": lambda f: functools.partial(tf.function(lambda g, x: g(x)), f),
    "by keyword": lambda f: functools.partial(tf.function(lambda x, g: g(x)), g=f),
    "as a default": lambda f: tf.function(lambda x, g=f: g(x)),
    "in a list": lambda f: functools.partial(tf.function(lambda gs, x: gs[0](x)), [f]),
    "in a dict": lambda f: functools.partial(tf.function(lambda gs, x: gs["g"](x)), {"g": f}),
    "compiled": lambda f: functools.partial(tf.function(lambda g, x: g(x), jit_compile=True), f),
}


@pytest.mark.parametrize("way", WAYS)
def test_it_keeps_its_rule(way: str) -> None:
    assert_gradients(eager(WAYS[way](five_times()), [tf.constant(X)]), [5 + 0 * X])


@pytest.mark.parametrize("way", WAYS)
def test_a_decorated_function_keeps_its_backward(way: str) -> None:
    @pb.custom_gradient
    def function(x):
        def backward(dy):
            return 5.0 * dy

        return x**2, backward

    assert_gradients(eager(WAYS[way](function), [tf.constant(X)]), [5 + 0 * X])


def test_each_function_is_traced_for_itself_and_once() -> None:
    traces: list[Any] = []

    @tf.function
    def run(function, x):
        traces.append(function)
        return function(x)

    five, six = five_times(), pb.with_gradient(square, times_six)
    for _ in range(2):
        for function, wanted in ((five, 5.0), (six, 6.0), (square, 2 * X)):
            found = eager(functools.partial(run, function), [tf.constant(X)])
            assert_gradients(found, [wanted + 0 * X])
    assert traces == [five, six, square]


def test_a_concrete_function_runs_with_the_function_it_was_traced_for() -> None:
    five = five_times()
    traced = tf.function(lambda g, x: g(x)).get_concrete_function(five, tf.TensorSpec([2]))
    assert_gradients(eager(traced, [tf.constant(X)]), [5 + 0 * X])
    with pytest.raises((TypeError, ValueError), match="with its own gradient"):
        traced(pb.with_gradient(square, times_six), tf.constant(X))


def test_a_tf_function_does_not_keep_its_argument_alive() -> None:
    run = tf.function(lambda function: 1.0)
    five = five_times()
    run(five)
    gone = weakref.ref(five)
    del five
    gc.collect()
    assert gone() is None
