"""Forward mode through functions in functions that have been differentiated before, in whichever order.

TensorFlow keeps the backward pass of a function and transposes it for forward mode: what was built for one purpose
must not serve the other.
"""

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from tests.define.orders import (
    FORWARD,
    NOT_LINEAR,
    REFUSED,
    REVERSE,
    Function,
    gradient,
    inside,
    mapping,
    nested,
    tangent,
    tangent_and_gradient,
)

X = np.array([2.0, 3.0], np.float32)
LIMIT = 20.0


def cube(x):
    return x**3


def linear(dy, *, inputs):
    return dy * 3.0 * inputs[0] ** 2


def clipped(dy, *, inputs):
    return tf.clip_by_value(dy * 3.0 * inputs[0] ** 2, -LIMIT, LIMIT)


def seven(dx):
    return 7.0 * dx


orders = pytest.mark.parametrize("forward", FORWARD)
befores = pytest.mark.parametrize("before", REVERSE)
places = pytest.mark.parametrize(("depth", "differentiated"), [(1, 0), (2, 0), (2, 1), (3, 1)])


@places
@befores
@orders
def test_a_rule_that_is_not_linear_is_refused_after_reverse(
    forward: str, before: str, depth: int, differentiated: int
) -> None:
    x = tf.constant(X)
    functions = nested(pb.with_gradient(cube, clipped), depth)
    REVERSE[before](functions[differentiated], x)
    with pytest.raises(REFUSED, match=NOT_LINEAR):
        FORWARD[forward](functions[-1], x)


@places
@befores
@orders
def test_a_linear_rule_is_transposed_after_reverse(
    forward: str, before: str, depth: int, differentiated: int
) -> None:
    x = tf.constant(X)
    functions = nested(pb.with_gradient(cube, linear), depth)
    REVERSE[before](functions[differentiated], x)
    np.testing.assert_allclose(FORWARD[forward](functions[-1], x), 3 * X**2)


@befores
@orders
def test_an_explicit_jvp_is_used_after_reverse(forward: str, before: str) -> None:
    x = tf.constant(X)
    inner, outer = nested(pb.with_gradient(cube, clipped, jvp=seven), 2)
    REVERSE[before](inner, x)
    np.testing.assert_allclose(FORWARD[forward](outer, x), [7.0, 7.0])


@pytest.mark.parametrize("after", ["tape outside", "tape inside"])
@orders
def test_reverse_is_not_refused_after_forward(forward: str, after: str) -> None:
    x = tf.constant(X)
    inner, outer = nested(pb.with_gradient(cube, clipped), 2)
    with pytest.raises(REFUSED, match=NOT_LINEAR):
        FORWARD[forward](outer, x)
    for function in (outer, inner):
        np.testing.assert_allclose(REVERSE[after](function, x), [12.0, LIMIT])


@orders
def test_forward_and_reverse_in_turns(forward: str) -> None:
    x = tf.constant(X)
    inner, outer = nested(pb.with_gradient(cube, linear), 2)
    for function in (inner, outer, inner):
        np.testing.assert_allclose(FORWARD[forward](function, x), 3 * X**2)
        for mode in ("tape outside", "tape inside"):
            np.testing.assert_allclose(REVERSE[mode](function, x), 3 * X**2)
        for mode in ("two tapes", "two tapes inside"):
            np.testing.assert_allclose(REVERSE[mode](function, x), 30 * X**4, rtol=1e-5)


@befores
@pytest.mark.parametrize("depth", [1, 2])
def test_tape_and_accumulator_in_one_function(depth: int, before: str) -> None:
    x = tf.constant(X)
    straight = nested(pb.with_gradient(cube, linear), depth)[-1]
    bent = nested(pb.with_gradient(cube, clipped), depth)[-1]
    for function in (straight, bent):
        REVERSE[before](function, x)
    found = inside(tangent_and_gradient)(straight, x)
    np.testing.assert_allclose(found, [3 * X**2] * 2)
    with pytest.raises(REFUSED, match=NOT_LINEAR):
        inside(tangent_and_gradient)(bent, x)


@pytest.mark.parametrize("depth", [1, 2])
def test_the_tangent_of_a_gradient_does_not_ask_for_a_linear_rule(depth: int) -> None:
    """The tape is inside the function: the rule's own ops are differentiated, which the clipping allows."""
    x = tf.constant(X)
    function = nested(pb.with_gradient(cube, clipped), depth)[-1]
    slope = tf.function(lambda x: gradient(function, x))
    for _ in range(2):
        np.testing.assert_allclose(tangent(slope, x), [12.0, 0.0])


@befores
def test_a_rule_with_an_explicit_second_order_is_checked_too(before: str) -> None:
    @pb.custom_gradient
    def function(x):
        def backward(dy):
            def twice(ddx):
                return ddx * 6.0 * x

            return tf.clip_by_value(dy * 3.0 * x**2, -LIMIT, LIMIT), twice

        return x**3, backward

    x = tf.constant(X)
    inner, outer = nested(function, 2)
    REVERSE[before](inner, x)
    with pytest.raises(REFUSED, match=NOT_LINEAR):
        tangent(outer, x)


@pytest.mark.parametrize("first", [None, *REVERSE])
@orders
def test_under_vectorized_map(forward: str, first: str | None) -> None:
    x = tf.constant(X)
    straight, bent, told = (
        nested(mapping(function), 2)[-1]
        for function in (
            pb.with_gradient(cube, linear),
            pb.with_gradient(cube, clipped),
            pb.with_gradient(cube, clipped, jvp=seven),
        )
    )
    for function in (straight, bent, told) if first else ():
        REVERSE[first](function, x)
    np.testing.assert_allclose(FORWARD[forward](straight, x), 3 * X**2)
    np.testing.assert_allclose(FORWARD[forward](told, x), [7.0, 7.0])
    with pytest.raises(REFUSED, match=NOT_LINEAR):
        FORWARD[forward](bent, x)


def test_what_a_rule_differentiates_for_itself_need_not_be_linear() -> None:
    bent = tf.function(pb.with_gradient(cube, clipped))

    def rule(dy, *, inputs):
        return dy * gradient(bent, tf.stop_gradient(inputs[0]))

    function = pb.with_gradient(cube, rule)
    np.testing.assert_allclose(tangent(function, tf.constant(X)), [12.0, LIMIT])


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "a function"])
@pytest.mark.parametrize("rule", [linear, clipped], ids=lambda r: r.__name__)
def test_inside_a_custom_gradient_of_tensorflow(rule: Any, wrap: Function) -> None:
    """TensorFlow transposes the outer gradient, and with it ours, which it asks for in reverse."""
    function = wrap(pb.with_gradient(cube, rule))

    @tf.custom_gradient
    def around(x):
        def backward(dy):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = function(x)
            return tape.gradient(y, x, output_gradients=dy)

        return function(x), backward

    x = tf.constant(X)
    gradient(around, x)
    if rule is linear:
        np.testing.assert_allclose(tangent(around, x), 3 * X**2)
    else:
        with pytest.raises(REFUSED, match=NOT_LINEAR):
            tangent(around, x)


def test_nothing_stays_of_functions_that_kept_two_backward_passes() -> None:
    x = tf.constant(X)
    inner, outer = nested(pb.with_gradient(cube, linear), 2)
    for way in (*REVERSE.values(), *FORWARD.values()):
        way(outer, x)
    signature = tf.TensorSpec([2], tf.float32)
    graphs = [weakref.ref(f.get_concrete_function(signature).graph) for f in (inner, outer)]
    del inner, outer
    gc.collect()
    assert [graph() for graph in graphs] == [None, None]
