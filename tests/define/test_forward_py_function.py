"""Forward mode over tf.py_function, whose gradient runs in another thread than the one that asks for it."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from tests.define.orders import (
    LIMIT,
    NOT_LINEAR,
    REVERSE,
    Function,
    X,
    by_function,
    clipped,
    gradient,
    inside,
    linear,
    square,
    tangent,
)

REFUSED = (tf.errors.UnknownError, tf.errors.InvalidArgumentError)


def in_python(function: Function) -> Function:
    return lambda x: tf.ensure_shape(tf.py_function(function, [x], tf.float32), [2])


def inside_of_a_function(function: Function, x: Any) -> Any:
    return inside(tangent)(tf.function(function), x)


MADE: dict[str, Function] = {
    "defined": lambda rule: pb.with_gradient(square, rule),
    "overridden op": lambda rule: pb.override({"Square": rule})(square),
    "overridden region": lambda rule: pb.override({square: rule})(by_function),
}
WAYS: dict[str, Function] = {"at once": tangent, "in a function": inside_of_a_function}

made = pytest.mark.parametrize("kind", MADE)
ways = pytest.mark.parametrize("way", WAYS)


@pytest.mark.parametrize("before", [None, "tape outside", "tape inside"])
@ways
@made
def test_a_rule_that_is_not_linear_is_refused(kind: str, way: str, before: str | None) -> None:
    x = tf.constant(X)
    function = in_python(MADE[kind](clipped))
    if before:
        REVERSE[before](function, x)
    with pytest.raises(REFUSED, match=NOT_LINEAR):
        WAYS[way](function, x)


@ways
@made
def test_a_linear_rule_is_transposed(kind: str, way: str) -> None:
    found = WAYS[way](in_python(MADE[kind](linear)), tf.constant(X))
    np.testing.assert_allclose(found, 2 * X)


@made
def test_reverse_needs_no_linear_rule(kind: str) -> None:
    x = tf.constant(X)
    function = in_python(MADE[kind](clipped))
    with pytest.raises(REFUSED, match=NOT_LINEAR):
        tangent(function, x)
    np.testing.assert_allclose(gradient(function, x), [4.0, LIMIT])
    np.testing.assert_allclose(inside(gradient)(function, x), [4.0, LIMIT])


def test_what_a_rule_differentiates_for_itself_need_not_be_linear() -> None:
    bent = pb.with_gradient(square, clipped)

    def rule(dy, *, inputs):
        return dy * gradient(bent, tf.stop_gradient(inputs[0]))

    function = in_python(pb.with_gradient(square, rule))
    np.testing.assert_allclose(tangent(function, tf.constant(X)), [4.0, LIMIT])
