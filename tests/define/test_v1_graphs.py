"""Graphs and sessions of TensorFlow 1, with variables that a function makes for itself."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

v1 = tf.compat.v1
X = np.array([1.0, 2.0], np.float32)
W = np.array([3.0, 4.0], np.float32)
kinds = pytest.mark.parametrize("resource", [True, False], ids=["resource", "reference"])


def weight(resource: bool) -> Any:
    with v1.variable_scope("part", use_resource=resource, reuse=v1.AUTO_REUSE):
        return v1.get_variable("w", initializer=W)


def gradients(build: Callable[[Any], tuple[Any, Sequence[Any]]]) -> list[Any]:
    """The gradients by the input and by what `build` names besides."""
    with tf.Graph().as_default(), v1.Session() as session:
        x = tf.constant(X)
        y, others = build(x)
        found = v1.gradients(y, [x, *others])
        session.run(v1.global_variables_initializer())
        return [None if g is None else session.run(g).tolist() for g in found]


@kinds
def test_a_variable_made_inside_keeps_its_ordinary_gradient(resource: bool) -> None:
    @pb.custom_gradient
    def function(x):
        return x * weight(resource), lambda dy: 10.0 * dy

    assert gradients(lambda x: (function(x), [weight(resource)])) == [[10, 10], [1, 2]]


@kinds
def test_a_variable_made_before_keeps_its_ordinary_gradient(resource: bool) -> None:
    def build(x):
        w = weight(resource)
        return pb.with_gradient(lambda x: x * w, lambda dy: 10.0 * dy)(x), [w]

    assert gradients(build) == [[10, 10], [1, 2]]


@kinds
def test_a_variable_as_argument_follows_the_rule(resource: bool) -> None:
    function = pb.with_gradient(tf.multiply, lambda dy: (10.0 * dy, 20.0 * dy))

    def build(x):
        w = weight(resource)
        return function(x, w), [w]

    assert gradients(build) == [[10, 10], [20, 20]]


@pytest.mark.parametrize("depth", [1, 2])
def test_a_rule_gets_the_variable_that_was_made_inside(depth: int) -> None:
    def around(inner: Callable[[Any], Any], factor: float) -> Callable[[Any], Any]:
        @pb.custom_gradient
        def function(x):
            def grad(dy, variables=None):
                assert [v.name for v in variables] == ["part/w:0"]
                return factor * dy, [2.0 * factor * dy]

            return inner(x), grad

        return function

    function = lambda x: x * weight(resource=True)  # noqa: E731
    for factor in (10.0, 30.0)[:depth]:
        function = around(function, factor)
    wanted = (10.0, 30.0)[depth - 1]
    found = gradients(lambda x: (function(x), [weight(resource=True)]))
    assert found == [[wanted] * 2, [2 * wanted] * 2]


def test_the_original_of_variables() -> None:
    def rule(dy, *, original, variables):
        dx, (dw,) = original(dy)
        return 5.0 * dx, [7.0 * dw]

    function = pb.with_gradient(lambda x: x * weight(resource=True), rule)
    found = gradients(lambda x: (function(x), [weight(resource=True)]))
    assert found == [[15, 20], [7, 14]]


def test_a_placeholder_of_unknown_size() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None])
        y = pb.with_gradient(tf.square, lambda dy, *, original: 3.0 * original(dy))(x)
        assert session.run(v1.gradients(y, x)[0], {x: X}).tolist() == [6, 12]
