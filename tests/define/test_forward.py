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


def clipped_at_3(dy):
    return tf.clip_by_value(dy, -3.0, 3.0)


def clipped_at_1000(dy):
    return 1e-9 * tf.clip_by_value(dy, -1e3, 1e3)


def clipped_by_norm(dy):
    return tf.clip_by_norm(dy, 5.0)


def cut_above(dy):
    return tf.where(dy > 1e3, 0.0, dy)


def cut_below(dy):
    return tf.where(dy < -1e3, 0.0, dy)


def without_small_ones(dy):
    return tf.where(tf.abs(dy) < 1e-3, 0.0, dy)


def rounded(dy):
    return tf.round(dy * 1e2) / 1e2


def slightly_affine(dy):
    return dy + 1e-4


def the_largest(dy):
    return tf.sort(dy)


NOT_LINEAR = [
    clipped, ignoring, affine, absolute, positive, squared, clipped_at_3, clipped_at_1000, clipped_by_norm, cut_above,
    cut_below, without_small_ones, rounded, slightly_affine, the_largest,
]  # fmt: skip


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


@tf.custom_gradient
def tripled_with_another_gradient(dy):
    return 3.0 * dy, lambda ddy: 5.0 * ddy


def stopped(dy):
    return tf.stop_gradient(dy)


def stopped_and_small(dy):
    return 1e-9 * tf.stop_gradient(dy)


def half_stopped(dy):
    return dy + tf.stop_gradient(dy)


def a_tenth_stopped(dy):
    return 0.9 * dy + 0.1 * tf.stop_gradient(dy)


def in_numpy(dy):
    return tf.numpy_function(lambda a: 2 * a, [dy], tf.float32)


def with_a_custom_gradient(dy):
    return tripled_with_another_gradient(dy)


HIDDEN = [
    stopped, stopped_and_small, half_stopped, a_tenth_stopped, in_numpy, with_a_custom_gradient,
]  # fmt: skip


@pytest.mark.parametrize("rule", HIDDEN, ids=lambda r: r.__name__)
@pytest.mark.parametrize("way", [way for way in WAYS if "XLA" not in way])
def test_a_rule_of_which_a_part_is_hidden_is_refused(rule: Any, way: str) -> None:
    function = pb.with_gradient(lambda x: x * 1.0, rule)
    errors = (NotLinearError, tf.errors.InvalidArgumentError)
    message = (
        rf"rule {rule.__name__} \(.*test_forward.py:\d+\) .*hidden from diff.*jvp=your_function"
    )
    with pytest.raises(errors, match=message):
        WAYS[way](function, tf.constant(X))


@pytest.mark.parametrize("rule", [stopped, half_stopped, a_tenth_stopped, with_a_custom_gradient])
def test_a_rule_of_which_a_part_is_hidden_gives_no_number_in_xla(rule: Any) -> None:
    function = pb.with_gradient(lambda x: x * 1.0, rule)
    assert np.isnan(WAYS["inside, XLA"](function, tf.constant(X))).all()


def test_one_of_two_gradients_is_hidden_however_small_it_is() -> None:
    def rule(dy):
        return 1e4 * dy, 1e-2 * tf.stop_gradient(dy)

    function = pb.with_gradient(lambda x, y: x * y, rule)
    with pytest.raises(NotLinearError, match="hidden from differentiation"):
        tangent_of(function, tf.constant(X), tf.constant(Y))


@pytest.mark.parametrize("rule", [cut_above, cut_below, clipped_at_3, positive])
def test_a_scalar_upstream_is_tried_with_both_signs(rule: Any) -> None:
    x = tf.constant(2.0)
    with (
        pytest.raises(NotLinearError, match="not linear in its upstream"),
        tf.autodiff.ForwardAccumulator(x, tf.ones([])),
    ):
        pb.with_gradient(lambda x: x * 1.0, rule)(x)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("rule", [clipped, affine, absolute, positive, squared, clipped_at_3])
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


def assert_let_through(rule: Any, x: Any) -> None:
    """Forward mode by the transposed rule works."""
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        y = pb.with_gradient(lambda x: x * 1.0, rule)(x)
    assert np.isfinite(np.asarray(accumulator.jvp(y), np.complex128)).all()


DTYPES = ["float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e2])
def test_linear_rules_of_every_precision_and_size_are_let_through(dtype: str, scale: float) -> None:
    x = tf.cast(tf.constant(np.linspace(-2, 2, 257)), dtype)
    mask = tf.cast(tf.sin(x) * 0.37 * tf.cast(scale, dtype), dtype)
    assert_let_through(lambda dy: tf.cumsum(dy * mask) / 257.0 + mask * dy, x)


LINEAR: dict[str, Callable[[Any], Any]] = {
    "sum": lambda dy: tf.reduce_sum(dy) * tf.ones_like(dy),
    "alternating sum": lambda dy: (
        tf.reduce_sum(dy * tf.cast(tf.range(tf.size(dy)) % 2 * 2 - 1, dy.dtype)) * tf.ones_like(dy)
    ),
    "centred": lambda dy: dy - tf.reduce_mean(dy),
    "differences": lambda dy: 4.0 * dy - 3.0 * dy,
    "nothing": tf.zeros_like,
    "in float16": lambda dy: tf.cast(3 * tf.cast(dy, tf.float16), dy.dtype),
    "in bfloat16": lambda dy: tf.cast(3 * tf.cast(dy, tf.bfloat16), dy.dtype),
    "in float32": lambda dy: tf.cast(3 * tf.cast(dy, tf.float32) / 7, dy.dtype),
    "size times sign": lambda dy: tf.abs(dy) * tf.sign(dy),  # without a derivative at zero
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", LINEAR)
def test_rules_with_cancellation_and_in_other_dtypes_are_let_through(name: str, dtype: str) -> None:
    for count in (0, 1, 2, 3, 64, 257, 5000):
        assert_let_through(LINEAR[name], tf.cast(np.linspace(-1, 2, count), dtype))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
@pytest.mark.parametrize("logit", [0.0, 5.0, 12.0, 25.0, 60.0, 200.0])
def test_the_gradient_of_a_saturated_softmax_is_let_through(logit: float, dtype: str) -> None:
    y = tf.nn.softmax(tf.constant([logit, 0.0, -1.0], dtype))
    assert_let_through(lambda dy: y * (dy - tf.reduce_sum(dy * y)), tf.zeros([3], dtype))


@pytest.mark.parametrize("factor", [1e-30, 1e-9, 1e25, 1e36])
def test_very_small_and_very_large_gradients_are_let_through(factor: float) -> None:
    assert_let_through(lambda dy: factor * dy, tf.constant(X))


@pytest.mark.parametrize("rule", [tf.math.conj, lambda dy: (2 + 3j) * dy])
def test_linear_rules_of_complex_numbers_are_let_through(rule: Any) -> None:
    assert_let_through(rule, tf.constant([1 + 2j, 3 - 1j]))


def pushed(function: Any, x: Any, dx: Any) -> Any:
    with tf.autodiff.ForwardAccumulator(x, dx) as accumulator:
        y = function(x)
    return accumulator.jvp(y)


MAPPED: dict[str, Callable[..., Any]] = {
    "outside": lambda f, *x: pushed(lambda x: tf.vectorized_map(f, x), *x),
    "outside, in a function": lambda f, *x: pushed(
        tf.function(lambda x: tf.vectorized_map(f, x)), *x
    ),
    "inside": lambda f, *x: tf.vectorized_map(lambda row: pushed(f, *row), x),
}


@pytest.mark.parametrize("way", MAPPED)
def test_vectorized_map_of_a_rule_that_asks_for_outputs_and_inputs(way: str) -> None:
    def rule(dy, *, inputs, outputs):
        return dy * inputs[0] * outputs

    x = tf.constant([X, Y])
    function = pb.with_gradient(lambda x: tf.exp(x), rule)
    found = MAPPED[way](function, x, tf.constant([DX, DX]))
    np.testing.assert_allclose(found, DX * x * np.exp(x), rtol=1e-5)


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
