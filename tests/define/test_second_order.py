"""Derivatives of the gradient, in every arrangement of tapes.

Each mode gives the gradient of the sum of squares of the first gradient: for a first gradient g(x)
that acts element by element that is 2 g(x) g'(x).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import UnsupportedError
from tests.modes import SECOND_ORDER, assert_in_mode, with_tape

X = np.array([0.5, -1.5, 2.0])
Y = np.array([3.0, 0.25, -2.0])


class Case(NamedTuple):
    function: Callable[..., Any]
    args: Sequence[np.ndarray]
    wanted: Sequence[Any]


CASES: dict[str, Case] = {}


def case(name: str, args: Sequence[np.ndarray], wanted: Sequence[Any]) -> Callable[[Any], Any]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES[name] = Case(function, args, wanted)
        return function

    return add


@case("a residual that is an input", [X], [2 * (10 * X**2) * 20 * X])
@pb.custom_gradient
def from_input(x):
    def backward(dy):
        return 10.0 * dy * x * x

    return tf.sin(x), backward


@case("a residual that is an intermediate", [X], [2 * np.exp(3 * X) * 3 * np.exp(3 * X)])
@pb.custom_gradient
def from_intermediate(x):
    hidden = tf.exp(3.0 * x)

    def backward(dy):
        return dy * hidden

    return tf.sin(x), backward


@case("a residual that is an output", [X], [2 * 5 * np.tanh(X) * 5 / np.cosh(X) ** 2])
@pb.custom_gradient
def from_output(x):
    y = tf.tanh(x)

    def backward(dy):
        return 5.0 * dy * y

    return y, backward


def rule_with_inputs(dy, *, inputs):
    return dy * inputs["x"] ** 3


@case("inputs asked for", [X], [2 * X**3 * 3 * X**2])
def asks_for_inputs(x):
    return pb.with_gradient(lambda x: tf.sin(x), rule_with_inputs)(x)


def rule_with_outputs(dy, *, outputs):
    # The outputs are sin(x), and the derivative of sin is this very rule: sin(x) again.
    return dy * outputs


@case("outputs asked for", [X], [2 * np.sin(X) * np.sin(X)])
def asks_for_outputs(x):
    return pb.with_gradient(lambda x: tf.sin(x), rule_with_outputs)(x)


def half_original(dy, *, original):
    return 0.5 * original(dy)


@case("original asked for", [X], [2 * 1.5 * X**2 * 3 * X])
def asks_for_original(x):
    return pb.with_gradient(lambda x: x**3, half_original)(x)


def default_second(dz, *, inputs):
    return dz * inputs[0] ** 2, pb.DEFAULT


# Gradients: g = (x², x), so the sum of squares x⁴ + x² has the derivative 4x³ + 2x in x.
@case("DEFAULT for one of them", [X, Y], [4 * X**3 + 2 * X, None])
def default_of_one(x, y):
    return pb.with_gradient(lambda x, y: x * y, default_second)(x, y)


# g = (x y², x² y): x²y⁴ + x⁴y², derivatives 2xy⁴ + 4x³y² and 4x²y³ + 2x⁴y.
@case("two inputs", [X, Y], [2 * X * Y**4 + 4 * X**3 * Y**2, 4 * X**2 * Y**3 + 2 * X**4 * Y])
@pb.custom_gradient
def two_inputs(x, y):
    def backward(dz):
        return dz * x * y * y, dz * x * x * y

    return x + y, backward


@case("an explicit second", [X], [2 * (7 * X) * 11])
@pb.custom_gradient
def explicit(x):
    def backward(dy):
        def second(ddx):
            return 11.0 * dy * ddx

        return 7.0 * dy * x, second

    return tf.sin(x), backward


# g = (2x, 3y); the given second derivative swaps: dd → (5 ddy, 7 ddx), applied to 2 g.
@case("an explicit second of two inputs", [X, Y], [5 * 2 * 3 * Y, 7 * 2 * 2 * X])
@pb.custom_gradient
def explicit_of_two(x, y):
    def backward(dz):
        def second(ddx, ddy):
            return 5.0 * dz * ddy, 7.0 * dz * ddx

        return (2.0 * dz * x, 3.0 * dz * y), second

    return x * y, backward


@case("an explicit second that is None", [X], [None])
@pb.custom_gradient
def explicit_none(x):
    def backward(dy):
        def second(ddx):
            return None

        return 7.0 * dy * x, second

    return tf.sin(x), backward


@case("an explicit second, flat", [X, Y], [5 * 2 * 3 * Y, 7 * 2 * 2 * X])
@pb.custom_gradient
def explicit_flat(x, y):
    def backward(dz):
        def second(ddx, ddy):
            return 5.0 * dz * ddy, 7.0 * dz * ddx

        return 2.0 * dz * x, 3.0 * dz * y, second

    return x * y, backward


@case("partials", [X], [2 * np.cos(X) * -np.sin(X)])
def partials(x):
    return pb.with_partials(lambda x: x * 1.0, x=tf.cos)(x)


# y = f(x)², f' given as 3x: g = 2 f f' = 6 x sin(x); g' = 6 sin(x) + 6x · 3x (sin's given derivative is 3x).
@case(
    "ordinary operations behind",
    [X],
    [2 * 6 * X * np.sin(X) * (6 * np.sin(X) + 18 * X**2)],
)
def ordinary_behind(x):
    return pb.with_gradient(lambda x: tf.sin(x), lambda dy, *, inputs: 3.0 * dy * inputs[0])(x) ** 2


# y = f(x²): g = 2x · 3x² = 6x³.
@case("ordinary operations in front", [X], [2 * 6 * X**3 * 18 * X**2])
def ordinary_in_front(x):
    triple = pb.with_gradient(lambda x: tf.sin(x), lambda dy, *, inputs: 3.0 * dy * inputs[0])
    return triple(x**2)


@case("a constant gradient", [X], [None])
@pb.custom_gradient
def constant_gradient(x):
    def backward(dy):
        return 4.0 * dy

    return tf.round(x), backward


@case("nested custom gradients", [X], [2 * 3 * np.sin(X) * 3 * 7])
@pb.custom_gradient
def nested(x):
    def seven(dy):
        return 7.0 * dy

    def backward(dy):
        return 3.0 * dy * pb.with_gradient(tf.sin, seven)(x)

    return x * 1.0, backward


@case("a closed-over tensor", [X, Y], [2 * X * Y**2 + 0 * X, 2 * X**2 * Y + 2 * X * 0])
def closes_over(x, y):
    @pb.custom_gradient
    def f(x):
        def backward(dz):
            return dz * x * y

        return tf.stop_gradient(x) * tf.stop_gradient(y), backward

    return f(x)


@pytest.mark.parametrize("mode", SECOND_ORDER)
@pytest.mark.parametrize("name", CASES)
def test_second_derivatives(name: str, mode: str) -> None:
    function, args, wanted = CASES[name]
    assert_in_mode(SECOND_ORDER[mode], function, [tf.constant(a) for a in args], wanted)


VARIABLE = tf.Variable([2.0, 3.0, -4.0], dtype=tf.float64, name="captured")


@pb.custom_gradient
def scaled_by_variable(x):
    def backward(dy):
        return 10.0 * dy * VARIABLE * x

    return tf.sin(x) * VARIABLE, backward


def mixed(function: Callable[[Any], Any], x: Any) -> Any:
    """The derivative, with respect to the variable, of the gradient with respect to the input."""
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = function(x)
        gradient = inner.gradient(y, x)
    return outer.gradient(gradient, VARIABLE)


def of_variable(function: Callable[[Any], Any], x: Any) -> Any:
    """The derivative, with respect to the input, of the gradient with respect to the variable."""
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            y = function(x)
        gradient = inner.gradient(y, VARIABLE)
    return outer.gradient(gradient, x)


WAYS = {
    "eager": lambda derivative, f: derivative(f, tf.constant(X)),
    "through a function": lambda derivative, f: derivative(tf.function(f), tf.constant(X)),
    "inside": lambda derivative, f: tf.function(lambda x: derivative(f, x))(tf.constant(X)),
    "XLA": lambda d, f: tf.function(lambda x: d(f, x), jit_compile=True)(tf.constant(X)),
}


@pytest.mark.parametrize("way", WAYS)
def test_mixed_derivatives_of_a_captured_variable(way: str) -> None:
    np.testing.assert_allclose(WAYS[way](mixed, scaled_by_variable), 10 * X, rtol=1e-6)
    np.testing.assert_allclose(WAYS[way](of_variable, scaled_by_variable), np.cos(X), rtol=1e-6)


def fifth_power(dy, *, inputs):
    return dy * inputs[0] ** 5


def third_derivative(function: Callable[[Any], Any], x: Any) -> Any:
    with tf.GradientTape() as third:
        third.watch(x)
        with tf.GradientTape() as second:
            second.watch(x)
            with tf.GradientTape() as first:
                first.watch(x)
                y = function(x)
            dy = first.gradient(y, x)
        ddy = second.gradient(dy, x)
    return third.gradient(ddy, x)


@pytest.mark.parametrize("way", WAYS)
def test_third_order(way: str) -> None:
    function = pb.with_gradient(lambda x: tf.sin(x), fifth_power)
    np.testing.assert_allclose(WAYS[way](third_derivative, function), 20 * X**3, rtol=1e-6)


def value_and_slope(function: Callable[[Any], Any], x: Any) -> Any:
    """The gradient of y² + 3 (dy/dx)², which uses the output and its gradient together."""
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = function(x)
        slope = inner.gradient(y, x)
        loss = tf.reduce_sum(y**2 + 3.0 * slope**2)
    return outer.gradient(loss, x)


@pytest.mark.parametrize("way", WAYS)
def test_a_loss_of_the_value_and_its_gradient_counts_nothing_twice(way: str) -> None:
    function = pb.with_gradient(lambda x: tf.sin(x), fifth_power)
    wanted = 2 * np.sin(X) * X**5 + 6 * X**5 * 5 * X**4
    np.testing.assert_allclose(WAYS[way](value_and_slope, function), wanted, rtol=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_the_same_with_residuals_of_the_body(way: str) -> None:
    wanted = 2 * np.tanh(X) * 5 * np.tanh(X) + 6 * 5 * np.tanh(X) * 5 / np.cosh(X) ** 2
    np.testing.assert_allclose(WAYS[way](value_and_slope, from_output), wanted, rtol=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_the_same_with_an_explicit_second(way: str) -> None:
    wanted = 2 * np.sin(X) * 7 * X + 6 * 7 * X * 11
    np.testing.assert_allclose(WAYS[way](value_and_slope, explicit), wanted, rtol=1e-6)


def hessian_diagonal(function: Callable[[Any], Any], x: Any) -> Any:
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.reduce_sum(function(x))
        gradient = inner.gradient(y, x)
    return tf.linalg.diag_part(outer.jacobian(gradient, x))


@pytest.mark.parametrize("way", ["eager", "through a function", "inside"])
def test_a_hessian_by_jacobian(way: str) -> None:
    np.testing.assert_allclose(WAYS[way](hessian_diagonal, from_input), 20 * X, rtol=1e-6)


def test_upstream_of_the_second_order_is_linear() -> None:
    """The derivative of the gradient with respect to the upstream is the rule itself."""
    x, scale = tf.constant(X), tf.Variable(2.0, dtype=tf.float64)
    for function in (from_input, explicit):
        with tf.GradientTape() as outer:
            gradient = with_tape(lambda x, f=function: scale * f(x), [x], ())[0]
        slope = outer.gradient(gradient, scale)
        expected = {from_input: 10 * X**2, explicit: 7 * X}[function]
        np.testing.assert_allclose(slope, expected.sum(), rtol=1e-6)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("function, wanted", [(from_input, 20 * X), (explicit, 11 + 0 * X)])
def test_a_tape_opened_after_the_call(function: Any, wanted: Any, persistent: bool) -> None:
    x = tf.constant(X)
    with tf.GradientTape(persistent=persistent) as first:
        first.watch(x)
        y = function(x)
    with tf.GradientTape() as late:
        late.watch(x)
        gradient = first.gradient(y, x)
    np.testing.assert_allclose(late.gradient(gradient, x), wanted, rtol=1e-6)


@pb.custom_gradient
def explicit_without_input(x):
    def backward(dy):
        def second(ddx):
            return 11.0 * ddx

        return 7.0 * dy, second

    return tf.sin(x), backward


def test_an_explicit_second_of_inputs_that_are_gone() -> None:
    x = tf.constant(X)
    with tf.GradientTape() as first:
        first.watch(x)
        y = explicit_without_input(x + 1.0)
    with tf.GradientTape() as late:
        late.watch(x)
        with pytest.raises(UnsupportedError, match="Let the outer tape watch them before calling"):
            first.gradient(y, x)


def test_forward_over_reverse() -> None:
    x = tf.constant(X)
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        gradient = with_tape(from_input, [x], ())[0]
    np.testing.assert_allclose(accumulator.jvp(gradient), 20 * X, rtol=1e-6)


@pytest.mark.parametrize("jvp", [None, lambda dx, *, inputs: 3.0 * inputs[0] ** 2 * dx])
def test_higher_orders_with_and_without_a_jvp(jvp):
    cube = pb.custom_gradient(lambda x: (x**3, lambda dy: 3.0 * dy * x**2), jvp=jvp)

    def derivative(f):
        def g(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            return tape.gradient(y, x)

        return g

    f, found = lambda x: cube(x) ** 2, []
    for _ in range(4):
        f = derivative(f)
        found += [float(f(tf.constant(2.0))), float(tf.function(f)(tf.constant(2.0)))]
    assert found == [192.0, 192.0, 480.0, 480.0, 960.0, 960.0, 1440.0, 1440.0]
