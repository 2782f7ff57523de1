"""Forward mode through overridden functions in functions, differentiated before or not: a rule that is not linear is
refused in whichever order the passes come.
"""

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
LIMIT = 5.0


def linear(dy, *, inputs):
    return dy * 2.0 * inputs[0]


def clipped(dy, *, inputs):
    return tf.clip_by_value(dy * 2.0 * inputs[0], -LIMIT, LIMIT)


def square(x):
    return x * x


def by_one_op(x):
    return tf.square(x)


def by_function(x):
    return square(x)


TARGETS: dict[str, tuple[Any, Function]] = {
    "an op type": ("Square", by_one_op),
    "one op": (tf.square, by_one_op),
    "a region": (square, by_function),
}


def changed(target: str, rule: Any) -> Function:
    key, function = TARGETS[target]
    return pb.override({key: rule})(function)


targets = pytest.mark.parametrize("target", TARGETS)
orders = pytest.mark.parametrize("forward", FORWARD)
befores = pytest.mark.parametrize("before", REVERSE)
places = pytest.mark.parametrize(("depth", "differentiated"), [(1, 0), (2, 0), (2, 1)])


@places
@befores
@orders
@pytest.mark.parametrize("target", ["an op type", "a region"])
def test_a_rule_that_is_not_linear_is_refused_after_reverse(
    target: str, forward: str, before: str, depth: int, differentiated: int
) -> None:
    x = tf.constant(X)
    functions = nested(changed(target, clipped), depth)
    REVERSE[before](functions[differentiated], x)
    with pytest.raises(REFUSED, match=NOT_LINEAR):
        FORWARD[forward](functions[-1], x)


@befores
@orders
@targets
def test_a_linear_rule_is_transposed_after_reverse(target: str, forward: str, before: str) -> None:
    x = tf.constant(X)
    inner, outer = nested(changed(target, linear), 2)
    REVERSE[before](inner, x)
    np.testing.assert_allclose(FORWARD[forward](outer, x), 2 * X)


@orders
@targets
def test_reverse_is_not_refused_after_forward(target: str, forward: str) -> None:
    x = tf.constant(X)
    inner, outer = nested(changed(target, clipped), 2)
    with pytest.raises(REFUSED, match=NOT_LINEAR):
        FORWARD[forward](outer, x)
    for function in (outer, inner):
        np.testing.assert_allclose(gradient(function, x), [4.0, LIMIT])


@pytest.mark.parametrize("depth", [0, 1, 2])
@targets
def test_tape_and_accumulator_in_one_function(target: str, depth: int) -> None:
    x = tf.constant(X)
    straight, bent = (
        [function, *nested(function, 2)][depth]
        for function in (changed(target, linear), changed(target, clipped))
    )
    np.testing.assert_allclose(inside(tangent_and_gradient)(straight, x), [2 * X] * 2)
    with pytest.raises(REFUSED, match=NOT_LINEAR):
        inside(tangent_and_gradient)(bent, x)


@pytest.mark.parametrize("first", [None, "tape outside", "tape inside"])
@orders
@targets
def test_under_vectorized_map(target: str, forward: str, first: str | None) -> None:
    x = tf.constant(X)
    straight, bent = (nested(mapping(changed(target, rule)), 2)[-1] for rule in (linear, clipped))
    for function in (straight, bent) if first else ():
        REVERSE[first](function, x)
    np.testing.assert_allclose(FORWARD[forward](straight, x), 2 * X)
    with pytest.raises(REFUSED, match=NOT_LINEAR):
        FORWARD[forward](bent, x)


@pytest.mark.parametrize("target", ["an op type", "one op"])
def test_functions_that_were_there_before_a_block(target: str) -> None:
    x = tf.constant(X)
    key, function = TARGETS[target]
    inner, outer = nested(function, 2)
    with pb.override({key: clipped}):
        gradient(inner, x)
        with pytest.raises(REFUSED, match=NOT_LINEAR):
            inside(tangent)(outer, x)


@pytest.mark.parametrize("way", ["applied outside", "concrete"])
@pytest.mark.parametrize("target", ["an op type", "one op"])
def test_functions_that_were_there_before(target: str, way: str) -> None:
    x = tf.constant(X)
    key, function = TARGETS[target]
    _, outer = nested(function, 2)
    bent = pb.override({key: clipped})
    known = outer if way == "applied outside" else outer.get_concrete_function(tf.TensorSpec([2]))
    around = tf.function(bent(known))
    gradient(around, x)
    with pytest.raises(REFUSED, match=NOT_LINEAR):
        inside(tangent)(around, x)


@pytest.mark.parametrize("target", ["an op type", "one op"])
def test_a_rule_with_an_explicit_second_order_is_checked_too(target: str) -> None:
    def rule(dy, *, inputs):
        def second(ddx):
            return ddx * 2.0

        return tf.clip_by_value(dy * 2.0 * inputs[0], -LIMIT, LIMIT), second

    inner, outer = nested(changed(target, rule), 2)
    gradient(inner, tf.constant(X))
    with pytest.raises(REFUSED, match=NOT_LINEAR):
        inside(tangent)(outer, tf.constant(X))


@targets
def test_what_a_rule_differentiates_for_itself_need_not_be_linear(target: str) -> None:
    bent = tf.function(changed(target, clipped))

    def rule(dy, *, inputs):
        return dy * gradient(bent, tf.stop_gradient(inputs[0]))

    np.testing.assert_allclose(tangent(changed(target, rule), tf.constant(X)), [4.0, LIMIT])


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "a function"])
@pytest.mark.parametrize("rule", [linear, clipped], ids=lambda r: r.__name__)
@targets
def test_inside_a_custom_gradient_of_tensorflow(target: str, rule: Any, wrap: Function) -> None:
    """TensorFlow transposes the outer gradient, and with it ours, which it asks for in reverse."""
    function = wrap(changed(target, rule))

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
        np.testing.assert_allclose(tangent(around, x), 2 * X)
    else:
        with pytest.raises(REFUSED, match=NOT_LINEAR):
            tangent(around, x)
