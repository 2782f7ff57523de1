"""Traces and registry entries vanish with their graphs; eager calls leave nothing behind."""

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.framework.ops import gradient_registry

import pullback as pb
from tests.define.features import FEATURES

X = [0.5, -1.5, 2.0]


def entries() -> int:
    return sum(name.startswith("pullback_") for name in gradient_registry.list())


def graphs() -> int:
    return sum(isinstance(o, tf.Graph) for o in gc.get_objects())


def settled(*counts: Callable[[], int]) -> list[int]:
    for _ in range(2):
        gc.collect()
    return [count() for count in counts]


def objects() -> int:
    return len(gc.get_objects())


def trace(function: Callable[[Any], Any]) -> None:
    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x)

    step(tf.constant(X))


def trace_outside(function: Callable[[Any], Any]) -> None:
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.function(function)(x)
    tape.gradient(y, x)


def trace_cond(function: Callable[[Any], Any]) -> None:
    trace_outside(lambda x: tf.cond(tf.reduce_sum(x) > 0.0, lambda: function(x), lambda: x))


def trace_loop(function: Callable[[Any], Any]) -> None:
    def loop(x):
        return tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, function(x)), (0, x))[1]

    trace_outside(loop)


def trace_vectorized(function: Callable[[Any], Any]) -> None:
    trace_outside(lambda x: tf.vectorized_map(function, x))


VARIABLE = tf.Variable(3.0)


@pb.custom_gradient
def with_residual(x):
    hidden = tf.exp(x) * VARIABLE

    def backward(dy):
        return dy * hidden

    return tf.sin(x) * VARIABLE, backward


@pytest.mark.parametrize(
    "way",
    [trace, trace_outside, trace_cond, trace_loop, trace_vectorized],
    ids=lambda w: w.__name__,
)
def test_traces_leave_nothing(way: Callable[..., None]) -> None:
    way(with_residual)
    before = settled(entries, graphs)
    for _ in range(5):
        way(with_residual)
    assert settled(entries, graphs) == before


def test_a_living_function_keeps_its_gradient() -> None:
    function = tf.function(with_residual)
    x = tf.constant(X)
    function(x)
    settled(entries)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    assert tape.gradient(y, x) is not None


def test_definitions_inside_a_trace_leave_nothing() -> None:
    def define_and_use(x):
        return pb.with_gradient(lambda x: x * 2.0, lambda dy: 3.0 * dy)(x)

    trace(define_and_use)
    before = settled(entries, graphs)
    for _ in range(5):
        trace(define_and_use)
    assert settled(entries, graphs) == before


def eager_call(function: Callable[..., Any], xs: list[Any]) -> None:
    with tf.GradientTape() as tape:
        tape.watch(xs)
        y = function(*xs)
    tape.gradient(tf.nest.flatten(y, expand_composites=True), xs)


def test_eager_calls_leave_no_objects() -> None:
    features = [f for f in FEATURES if f.name != "RaggedTensor"]
    inputs = [f.tensors() for f in features]
    for _ in range(2):
        for feature, xs in zip(features, inputs, strict=True):
            eager_call(feature.fn, xs)
    (before,) = settled(objects)
    for _ in range(10):
        for feature, xs in zip(features, inputs, strict=True):
            eager_call(feature.fn, xs)
    assert settled(objects)[0] - before < 10 * len(features)


def test_a_call_does_not_wait_for_the_garbage_collector() -> None:
    """Large buffers must go when the tape goes, not when the collector comes by."""
    x = tf.constant(X)
    gc.collect()
    gc.disable()
    try:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = with_residual(x)
        tape.gradient(y, x)
        references = sys.getrefcount(x)
        for _ in range(20):
            eager_call(with_residual, [x])
        assert sys.getrefcount(x) - references <= 2
    finally:
        gc.enable()
