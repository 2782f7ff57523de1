"""Forward mode: tangents by an explicit jvp, or by transposing the rule."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import NotLinearError
from tests.modes import MODES, assert_gradients

X = np.array([0.5, -1.5, 2.0], np.float32)
Y = np.array([3.0, 0.25, -2.0], np.float32)
DX = np.array([1.0, 10.0, 100.0], np.float32)


def tangent_of(function: Callable[..., Any], *primals: Any) -> Any:
    """The tangents of a function when every input moves by DX."""
    tangents = [tf.constant(DX, p.dtype) for p in primals]
    with tf.autodiff.ForwardAccumulator(list(primals), tangents) as accumulator:
        outputs = function(*primals)
    return tf.nest.map_structure(accumulator.jvp, outputs)


WAYS: dict[str, Callable[..., Any]] = {
    "eager": tangent_of,
    "through a function": lambda f, *xs: tangent_of(tf.function(f), *xs),
    "inside a function": lambda f, *xs: tf.function(lambda *x: tangent_of(f, *x))(*xs),
    "through two functions": lambda f, *xs: tangent_of(tf.function(tf.function(f)), *xs),
    "inside, XLA": lambda f, *xs: tf.function(lambda *x: tangent_of(f, *x), jit_compile=True)(*xs),
}


def ten(dy):
    return 10.0 * dy


def seven(dx):
    return 7.0 * dx


@pytest.mark.parametrize("way", WAYS)
def test_an_explicit_jvp_is_used_as_it_is(way: str) -> None:
    function = pb.with_gradient(lambda x: tf.sin(x), ten, jvp=seven)
    np.testing.assert_allclose(WAYS[way](function, tf.constant(X)), 7 * DX)


@pytest.mark.parametrize(
    "mode", ["eager", "tf.function, tape outside", "tf.function, tape inside", "XLA"]
)
def test_an_explicit_jvp_leaves_the_gradient_alone(mode: str) -> None:
    function = pb.with_gradient(lambda x: tf.sin(x), ten, jvp=seven)
    assert_gradients(MODES[mode](function, [tf.constant(X)]), [10 + 0 * X])


@pytest.mark.parametrize("way", WAYS)
def test_without_a_jvp_the_rule_is_transposed(way: str) -> None:
    function = pb.with_gradient(lambda x: x**2, ten)
    np.testing.assert_allclose(WAYS[way](function, tf.constant(X)), 10 * DX)


@pytest.mark.parametrize("way", WAYS)
def test_transposed_where_the_function_has_no_derivative(way: str) -> None:
    function = pb.with_gradient(lambda x: tf.round(x), ten)
    np.testing.assert_allclose(WAYS[way](function, tf.constant(X)), 10 * DX)


def matrix_rule(dy):
    return tf.linalg.matvec(tf.constant([[1.0, 2.0, 3.0], [0.0, 5.0, 0.0], [7.0, 0.0, 0.0]]), dy)


@pytest.mark.parametrize("way", WAYS)
def test_a_rule_that_mixes_elements_is_transposed(way: str) -> None:
    matrix = np.array([[1.0, 2, 3], [0, 5, 0], [7, 0, 0]])
    function = pb.with_gradient(lambda x: x * 1.0, matrix_rule)
    np.testing.assert_allclose(WAYS[way](function, tf.constant(X)), matrix.T @ DX)


def two_rule(dz, dw):
    return 2.0 * dz + 3.0 * dw, 5.0 * dw


@pytest.mark.parametrize("way", WAYS)
def test_two_inputs_and_two_outputs(way: str) -> None:
    function = pb.with_gradient(lambda x, y: (x * y, x + y), two_rule)
    dz, dw = WAYS[way](function, tf.constant(X), tf.constant(Y))
    np.testing.assert_allclose(dz, 2 * DX)
    np.testing.assert_allclose(dw, 3 * DX + 5 * DX)


def two_jvp(dx, dy, *, inputs, outputs):
    assert len(outputs) == 2
    return dx * inputs["y"], {"w": 11.0 * dy}["w"]


@pytest.mark.parametrize("way", WAYS)
def test_an_explicit_jvp_may_ask_for_inputs_and_outputs(way: str) -> None:
    function = pb.with_gradient(lambda x, y: (x * y, x + y), two_rule, jvp=two_jvp)
    dz, dw = WAYS[way](function, tf.constant(X), tf.constant(Y))
    np.testing.assert_allclose(dz, DX * Y)
    np.testing.assert_allclose(dw, 11 * DX)


@pytest.mark.parametrize("way", WAYS)
def test_a_jvp_of_a_decorated_function(way: str) -> None:
    @pb.custom_gradient(jvp=seven)
    def function(x):
        def backward(dy):
            return 10.0 * dy

        return tf.sin(x), backward

    np.testing.assert_allclose(WAYS[way](function, tf.constant(X)), 7 * DX)


@pytest.mark.parametrize("way", WAYS)
def test_a_jvp_that_stops(way: str) -> None:
    function = pb.with_gradient(lambda x: x * 1.0, ten, jvp=lambda dx: None)
    assert WAYS[way](function, tf.constant(X)).numpy().tolist() == [0.0] * len(X)


@pytest.mark.parametrize("way", WAYS)
def test_a_jvp_of_another_dtype_is_cast(way: str) -> None:
    function = pb.with_gradient(lambda x: x * 1.0, ten, jvp=lambda dx: tf.cast(dx, tf.float64))
    found = WAYS[way](function, tf.constant(X))
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, DX)


VARIABLE = tf.Variable([2.0, 3.0, 4.0])


@pytest.mark.parametrize("jvp", [None, ten], ids=["transposed", "explicit"])
@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "through a function"])
def test_captured_variables_keep_their_tangents(wrap: Any, jvp: Any) -> None:
    function = wrap(pb.with_gradient(lambda x: x * VARIABLE, ten, jvp=jvp))
    x = tf.constant(X)
    with tf.autodiff.ForwardAccumulator([x, VARIABLE], [tf.constant(DX)] * 2) as accumulator:
        y = function(x)
    np.testing.assert_allclose(accumulator.jvp(y), 10 * DX + X * DX)


def clipped(dy):
    return tf.clip_by_value(dy, -0.1, 0.1)


def ignoring(dy):
    return tf.constant(X)


def affine(dy):
    return 2.0 * dy + 1.0


def absolute(dy):
    return tf.abs(dy)


def positive(dy):
    return tf.nn.relu(dy)


def squared(dy):
    return dy * dy


NOT_LINEAR = [clipped, ignoring, affine, absolute, positive, squared]


@pytest.mark.parametrize("rule", NOT_LINEAR, ids=lambda r: r.__name__)
def test_a_rule_that_is_not_linear_is_refused(rule: Any) -> None:
    function = pb.with_gradient(lambda x: x * 1.0, rule)
    message = rf"rule {rule.__name__} \(.*test_forward.py:\d+\) .*not linear.*jvp=your_function"
    with pytest.raises(NotLinearError, match=message):
        tangent_of(function, tf.constant(X))


@pytest.mark.parametrize("rule", NOT_LINEAR, ids=lambda r: r.__name__)
@pytest.mark.parametrize(
    "way", ["through a function", "inside a function", "through two functions"]
)
def test_a_rule_that_is_not_linear_fails_in_graphs(rule: Any, way: str) -> None:
    function = pb.with_gradient(lambda x: x * 1.0, rule)
    errors = (NotLinearError, tf.errors.InvalidArgumentError)
    with pytest.raises(errors, match=f"rule {rule.__name__} .*not linear in its upstream"):
        WAYS[way](function, tf.constant(X))


@pytest.mark.parametrize("rule", NOT_LINEAR, ids=lambda r: r.__name__)
def test_a_rule_that_is_not_linear_gives_no_number_in_xla(rule: Any) -> None:
    function = pb.with_gradient(lambda x: x * 1.0, rule)
    assert np.isnan(WAYS["inside, XLA"](function, tf.constant(X))).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("rule", [clipped, affine, absolute, positive, squared])
def test_a_rule_that_is_not_linear_is_refused_in_low_precision(rule: Any, dtype: str) -> None:
    function = pb.with_gradient(lambda x: x * 1.0, rule)
    with pytest.raises(NotLinearError, match="not linear in its upstream"):
        tangent_of(function, tf.cast(tf.constant(X), dtype))


@pytest.mark.parametrize("rule", NOT_LINEAR, ids=lambda r: r.__name__)
def test_such_a_rule_is_fine_backwards(rule: Any) -> None:
    function = pb.with_gradient(lambda x: x * 1.0, rule)
    wanted = rule(tf.ones([3])).numpy()
    for mode in ("eager", "tf.function, tape outside", "tf.function, tape inside"):
        assert_gradients(MODES[mode](function, [tf.constant(X)]), [wanted])


@pytest.mark.parametrize("rule", NOT_LINEAR, ids=lambda r: r.__name__)
def test_such_a_rule_with_a_jvp_is_fine_forwards(rule: Any) -> None:
    function = pb.with_gradient(lambda x: x * 1.0, rule, jvp=seven)
    np.testing.assert_allclose(tangent_of(function, tf.constant(X)), 7 * DX)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e2])
def test_linear_rules_of_every_precision_and_size_are_let_through(dtype: str, scale: float) -> None:
    x = tf.cast(tf.constant(np.linspace(-2, 2, 257)), dtype)
    mask = tf.cast(tf.sin(x) * 0.37 * tf.cast(scale, dtype), dtype)

    def rule(dy):
        return tf.cumsum(dy * mask) / 257.0 + mask * dy

    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        y = pb.with_gradient(lambda x: x * 1.0, rule)(x)
    assert np.isfinite(np.asarray(accumulator.jvp(y), np.float64)).all()


def test_forward_over_forward() -> None:
    """The second derivative of a rule 10 x² by two accumulators."""
    x = tf.constant(X)
    function = pb.with_gradient(
        lambda x: tf.sin(x), lambda dy, *, inputs: 10.0 * dy * inputs[0] ** 2
    )
    with (
        tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as outer,
        tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as inner,
    ):
        y = function(x)
        slope = inner.jvp(y)
    np.testing.assert_allclose(outer.jvp(slope), 20 * X, rtol=1e-5)


def test_reverse_over_forward() -> None:
    x = tf.constant(X)
    function = pb.with_gradient(
        lambda x: tf.sin(x), lambda dy, *, inputs: 10.0 * dy * inputs[0] ** 2
    )
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
            y = function(x)
        slope = accumulator.jvp(y)
    np.testing.assert_allclose(tape.gradient(slope, x), 20 * X, rtol=1e-5)
