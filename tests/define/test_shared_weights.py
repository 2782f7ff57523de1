"""One variable read in a body and before it: what comes before keeps its own share of the gradient."""

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import pullback as pb

W = tf.Variable(3.0)
X = 2.0


def plain(x):
    return W * x


called = tf.function(plain)


@tf.function
def called_inside(x):
    return called(x)


def branched(x):
    return tf.cond(x > 0.0, lambda: W * x, lambda: W * x * 7.0)


def looped(x):
    def body(i, h):
        return i + 1, W * h

    return tf.while_loop(lambda i, _: i < 1, body, (0, x), maximum_iterations=1)[1]


def call_in_branch(x):
    return tf.cond(x > 0.0, lambda: called(x), lambda: called_inside(x) * 7.0)


BEFORE = {
    "plain": plain,
    "called": called,
    "called inside a call": called_inside,
    "in a branch": branched,
    "in a loop": looped,
    "called in a branch": call_in_branch,
}


def with_tape(function: Callable[[Any], Any], x: Any) -> list[Any]:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, [x, W])


def mapped(function: Callable[[Any], Any], x: Any) -> list[Any]:
    """The gradients of one of two equal rows."""
    found = with_tape(lambda x: tf.vectorized_map(function, tf.stack([x, x])), x)
    return [g / 2.0 for g in found]


WAYS: dict[str, Callable[..., Any]] = {
    "eager": with_tape,
    "tape outside": lambda f, x: with_tape(tf.function(f), x),
    "tape inside": lambda f, x: tf.function(lambda x: with_tape(f, x))(x),
    "XLA": lambda f, x: tf.function(lambda x: with_tape(f, x), jit_compile=True)(x),
    "tf.vectorized_map": mapped,
}


def original_of(dy, *, original):
    return original(dy)


def by_hand(dy, *, outputs, inputs):
    return dy * outputs / inputs[0]


every_way = pytest.mark.parametrize("way", WAYS)
every_start = pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)


def assert_near(found: list[Any], wanted: list[float]) -> None:
    assert [float(g) for g in found] == pytest.approx(wanted, rel=1e-6)


@every_way
@every_start
@pytest.mark.parametrize("rule", [original_of, by_hand], ids=lambda f: f.__name__)
def test_before_the_argument(rule: Any, before: Any, way: str) -> None:
    times = pb.with_gradient(lambda h: W * h, rule)
    found = WAYS[way](lambda x: times(before(x)), tf.constant(X))
    assert_near(found, [W.numpy() ** 2, 2 * W.numpy() * X])  # of W² x


@every_way
@every_start
def test_before_a_tensor_that_is_closed_over(before: Any, way: str) -> None:
    def function(x):
        h = before(x)
        times = pb.with_gradient(lambda z: z * h * W, by_hand)
        return times(5.0 * x)

    found = WAYS[way](function, tf.constant(X))
    w = W.numpy()
    assert_near(found, [10 * w * w * X, 10 * w * X * X])  # of 5 W² x²


@every_way
def test_two_tensors_that_are_closed_over_one_made_of_the_other(way: str) -> None:
    def function(x):
        first = tf.square(x)
        second = 3.0 * first
        times = pb.with_gradient(lambda z: z * first * second, by_hand)
        return times(W * 1.0)

    found = WAYS[way](function, tf.constant(X))
    assert_near(found, [12 * W.numpy() * X**3, 3 * X**4])  # of 3 W x⁴


@every_way
@every_start
def test_under_an_override(before: Any, way: str) -> None:
    def times(h):
        return W * h

    def twice(dy, *, original):
        return 2.0 * original(dy)

    function = pb.override({times: twice})(lambda x: times(before(x)))
    w = W.numpy()
    # The rule is for what goes to the argument; what goes to W in `times` is as it was.
    assert_near(WAYS[way](function, tf.constant(X)), [2 * w * w, (2 + 1) * w * X])


def thrice(x):
    return 3.0 * x


@every_way
@pytest.mark.parametrize("made", [thrice, tf.function(thrice)], ids=["plain", "called"])
def test_the_original_where_the_argument_was_made_into_what_is_closed_over(
    made: Any, way: str
) -> None:
    def function(x):
        h = made(x)
        return pb.with_gradient(lambda z: z * h * W, original_of)(x)

    found = WAYS[way](function, tf.constant(X))
    assert_near(found, [6 * W.numpy() * X, 3 * X * X])  # of 3 W x²


@every_way
@every_start
def test_a_whole_rule_holds_fixed_what_the_argument_was_made_into(before: Any, way: str) -> None:
    def function(x):
        h = before(x)

        @pb.custom_gradient
        def times(z):
            return z * h * W, lambda dy: 7.0 * dy

        return times(x)

    found = WAYS[way](function, tf.constant(X))
    assert_near(found, [7.0, W.numpy() * X * X])  # W where `times` reads it, and no more
