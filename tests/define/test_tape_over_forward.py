"""A tape around forward mode: what the tangents are made of is known to it, outputs included."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

X = np.array([0.5, -1.0, 2.0], np.float32)


def by_outputs(dy: Any, *, outputs: Any) -> Any:
    return dy * outputs


def by_inputs(dy: Any, *, inputs: Any) -> Any:
    return dy * tf.exp(inputs[0])


def by_original(dy: Any, *, original: Any) -> Any:
    return original(dy)


RULES = pytest.mark.parametrize("rule", [by_outputs, by_inputs, by_original])


def reverse_over_forward(function: Callable[[Any], Any], x: Any) -> Any:
    """The derivative of the tangent along ones."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
            y = function(x)
        tangent = accumulator.jvp(y)
    return tape.gradient(tangent, x)


def tangent_along_ones(function: Callable[[Any], Any], x: Any) -> Any:
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        y = function(x)
    return accumulator.jvp(y)


def reverse_over_gone(function: Callable[[Any], Any], x: Any) -> Any:
    """The same, when the accumulator and the value are gone: a function that returns the tangent leaves that alone."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        tangent = tangent_along_ones(function, x)
    return tape.gradient(tangent, x)


WAYS = pytest.mark.parametrize("derivative", [reverse_over_forward, reverse_over_gone])


def assert_exp(found: Any) -> None:
    assert found is not None
    np.testing.assert_allclose(found, np.exp(X), rtol=1e-6)


@RULES
@WAYS
@pytest.mark.parametrize("jvp", [None, by_outputs, by_inputs])
@pytest.mark.parametrize("run", [lambda f: f, tf.function], ids=["eager", "tf.function"])
def test_a_tape_differentiates_the_tangent(rule: Any, derivative: Any, jvp: Any, run: Any) -> None:
    exp = pb.with_gradient(lambda x: tf.exp(x), rule, jvp=jvp)
    assert_exp(run(lambda x: derivative(exp, x))(tf.constant(X)))


@RULES
@WAYS
def test_so_does_a_tape_around_an_override(rule: Any, derivative: Any) -> None:
    with pb.override({tf.exp: rule}):
        assert_exp(derivative(tf.exp, tf.constant(X)))


@WAYS
def test_of_a_rule_that_closes_over_its_input(derivative: Any) -> None:
    @pb.custom_gradient
    def exp(x: Any) -> Any:
        return tf.exp(x), lambda dy: dy * tf.exp(x)

    assert_exp(derivative(exp, tf.constant(X)))


@RULES
def test_variables_have_tangents_as_well(rule: Any) -> None:
    exp, weight = pb.with_gradient(lambda x: tf.exp(x), rule), tf.Variable(X)
    with tf.GradientTape() as tape:
        with tf.autodiff.ForwardAccumulator(weight, tf.ones_like(weight)) as accumulator:
            y = exp(weight)
        tangent = accumulator.jvp(y)
    assert_exp(tape.gradient(tangent, weight))


def test_tangents_of_tangents_are_differentiated_in_turn() -> None:
    exp, x = pb.with_gradient(lambda x: tf.exp(x), by_outputs, jvp=by_outputs), tf.constant(X)
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as outer:
        found = reverse_over_forward(exp, x)
    assert_exp(found)
    assert_exp(outer.jvp(found))


def test_a_tape_that_watches_something_else_is_told_nothing() -> None:
    exp, x, other = pb.with_gradient(lambda x: tf.exp(x), by_outputs), tf.constant(X), tf.ones([])
    with tf.GradientTape() as tape:
        tape.watch(other)
        with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
            y = exp(x)
        tangent = accumulator.jvp(y)
    assert tape.gradient(tangent, other) is None
    np.testing.assert_allclose(tangent, np.exp(X), rtol=1e-6)
