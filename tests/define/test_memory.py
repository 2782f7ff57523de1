"""What a tape keeps alive: what the rule itself holds, and nothing else."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

SIZE = 1000


def alive(references: list[weakref.ref]) -> int:
    gc.collect()
    return sum(reference() is not None for reference in references)


def deep(x: Any, seen: list[weakref.ref], depth: int = 20) -> Any:
    """A chain of operations whose intermediate results are noted."""
    for _ in range(depth):
        x = tf.sin(x)
        seen.append(weakref.ref(x))
    return x


def kept_by(define: Callable[[list[weakref.ref]], Callable[[Any], Any]]) -> tuple[int, Any]:
    """How many intermediate results of a body live on under a tape, and the gradient."""
    seen: list[weakref.ref] = []
    function = define(seen)
    x = tf.ones([SIZE])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    y_reference = weakref.ref(y)
    count = alive([s for s in seen if s() is not y_reference()])
    return count, tape.gradient(y, x)


def double(dy):
    return 2.0 * dy


def test_ordinary_operations_keep_everything() -> None:
    """What the other tests would see if nothing were done."""
    count, _ = kept_by(lambda seen: lambda x: deep(x, seen))
    assert count >= 19


def test_a_rule_without_residuals_keeps_nothing() -> None:
    count, gradient = kept_by(lambda seen: pb.with_gradient(lambda x: deep(x, seen), double))
    assert count == 0
    np.testing.assert_allclose(gradient, 2.0)


def test_a_residual_is_all_that_is_kept() -> None:
    def define(seen: list[weakref.ref]) -> Any:
        @pb.custom_gradient
        def function(x):
            hidden = deep(x, seen, 10)

            def backward(dy):
                return dy * hidden

            return deep(hidden, seen, 10), backward

        return function

    assert kept_by(define)[0] == 1


def test_a_captured_variable_costs_what_ordinary_operations_cost() -> None:
    variable = tf.Variable(2.0)
    count, _ = kept_by(lambda seen: pb.with_gradient(lambda x: deep(x, seen) * variable, double))
    assert count <= 1


@pytest.mark.parametrize(
    "rule, kept",
    [
        (double, 0),
        (lambda dy, *, outputs: dy * outputs, 0),
        (lambda dy, *, inputs: dy * inputs[0], 1),
        (lambda dy, *, op: dy, 0),
    ],
    ids=["nothing", "outputs", "inputs", "op"],
)
def test_inputs_are_kept_only_when_asked_for(rule: Any, kept: int) -> None:
    function = pb.with_gradient(lambda x: tf.sin(x), rule)
    source = tf.ones([SIZE])
    with tf.GradientTape() as tape:
        tape.watch(source)
        x = tf.identity(source)
        reference = weakref.ref(x)
        y = function(x)
        del x
    assert alive([reference]) == kept
    assert tape.gradient(y, source) is not None


@pytest.mark.parametrize("asks, kept", [(False, 0), (True, 1)])
def test_outputs_are_kept_only_when_asked_for(asks: bool, kept: int) -> None:
    rule = (lambda dy, *, outputs: dy * outputs) if asks else double
    function = pb.with_gradient(lambda x: tf.sin(x), rule)
    x = tf.ones([SIZE])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
        total = tf.negative(y)
    reference = weakref.ref(y)
    del y
    assert alive([reference]) == kept
    assert tape.gradient(total, x) is not None


def test_static_arguments_are_let_go() -> None:
    class Payload:
        pass

    payload = Payload()
    reference = weakref.ref(payload)
    function = pb.with_gradient(lambda x, payload: x * 1.0, lambda dy: dy)
    x = tf.ones([3])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x, payload)
    del payload
    assert alive([reference]) == 0
    assert tape.gradient(y, x) is not None


def test_everything_goes_with_the_tape() -> None:
    @pb.custom_gradient
    def function(x):
        hidden = tf.exp(x)
        references.append(weakref.ref(hidden))

        def backward(dy):
            return dy * hidden

        return hidden * 2.0, backward

    references: list[weakref.ref] = []
    x = tf.ones([SIZE])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    assert alive(references) == 1
    tape.gradient(y, x)
    del tape, y
    assert alive(references) == 0


def test_without_a_tape_nothing_is_kept() -> None:
    references: list[weakref.ref] = []

    @pb.custom_gradient
    def function(x):
        hidden = tf.exp(x)
        references.append(weakref.ref(hidden))

        def backward(dy):
            return dy * hidden

        return hidden * 2.0, backward

    y = function(tf.ones([SIZE]))
    assert alive(references) == 0
    assert y.shape == [SIZE]
