"""Values and gradients where formulas fail: expected by mathematics, as written here."""

import math
from collections.abc import Callable
from typing import Any

import keras
import mpmath as mp
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import UnsupportedError
from tests.modes import MODES

f = pb.functions
INF = math.inf


def gradient(function: Callable[..., Any], *xs: Any) -> list[Any]:
    tensors = [tf.constant(x, tf.float32) for x in xs]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        y = function(*tensors)
    return [tf.convert_to_tensor(g).numpy().tolist() for g in tape.gradient(y, tensors)]


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("alpha", [None, 0.25, 1.0])
def test_focal_loss_of_infinite_logits(alpha: float | None, gamma: float) -> None:
    """Right with certainty: no loss. Wrong with certainty: that of the cross-entropy, with its slope, weighed."""
    labels, up = [1.0, 0.0, 1.0, 0.0], INF
    one, zero = (1.0, 1.0) if alpha is None else (alpha, 1.0 - alpha)

    def loss(z: Any) -> Any:
        return f.binary_focal_cross_entropy(labels, z, alpha, gamma, axis=None)

    at = [up, -up, -up, up]
    np.testing.assert_array_equal(loss(tf.constant(at)), [0.0, 0.0, INF, INF if zero else 0.0])
    np.testing.assert_allclose(gradient(loss, at), [[0.0, 0.0, -one, zero]])


@pytest.mark.parametrize(
    "function, at, wanted",
    [
        (f.norm, [0.0, 0.0], [0.0, 0.0]),
        (f.norm, [1e20], [1.0]),
        (f.norm, [3e-30, 4e-30], [0.6, 0.8]),
        (f.norm, [3e38, 3e38], [math.sqrt(0.5), math.sqrt(0.5)]),
        (f.norm, [INF], [1.0]),
        (f.norm, [1.0, -INF, 3e38], [0.0, -1.0, 0.0]),
        (f.norm, [INF, 1.0, -INF], [math.sqrt(0.5), 0.0, -math.sqrt(0.5)]),
        (lambda x: f.norm(x, axis=0, keepdims=True), [math.nan, INF], [math.nan, math.nan]),
        (tf.function(f.norm, jit_compile=True), [1.0, -INF], [0.0, -1.0]),
        (tf.function(f.logsumexp, jit_compile=True), [1.0, INF], [0.0, 1.0]),
        (f.std, [2.0, 2.0], [0.0, 0.0]),
        (f.std, [3e38, -3e38], [0.5, -0.5]),
        (f.sqrt, [0.0], [0.0]),
        (f.normalize, [0.0, 0.0], [0.0, 0.0]),
        (f.logsumexp, [-INF, -INF], [0.0, 0.0]),
        (f.logsumexp, [INF, 1.0, -INF], [1.0, 0.0, 0.0]),
        (f.logsumexp, [INF, 1.0, INF], [0.5, 0.0, 0.5]),
        (f.logsumexp, [math.nan, INF], [math.nan, math.nan]),
        (f.cumprod, [0.0, 2.0, 3.0], [9.0, 0.0, 0.0]),
        (f.cumprod, [1e-30, 1e-30], [1.0, 1e-30]),
        (lambda x: f.safe_where(x > 0, tf.math.log, tf.zeros_like, x), [0.0, 2.0], [0.0, 0.5]),
        (lambda x: f.hypot(x, x), [0.0], [0.0]),
        (lambda x: f.atan2(x, tf.zeros_like(x)), [0.0], [0.0]),
        (lambda x: f.atan2(x, tf.ones_like(x)), [INF, 1.0], [0.0, 0.5]),
        (lambda x: f.hypot(x, tf.ones_like(x)), [INF, -INF, 0.0], [1.0, -1.0, 0.0]),
        (f.log1mexp, [-1.0, 0.0, INF], [math.nan, INF, 0.0]),
        (
            lambda x: f.log_sub_exp(x, [2.0, 1.0, -INF, 0.0]),
            [1.0, 1.0, -INF, INF],
            [math.nan, INF, 0.0, 1.0],
        ),
        (
            lambda y: f.log_sub_exp([1.0, 1.0, -INF, INF], y),
            [2.0, 1.0, -INF, 0.0],
            [math.nan, -INF, 0.0, 0.0],
        ),
        # log(p / q) + 1, and 0 where both are 0
        (
            lambda p: f.kl_divergence(p, [0.0, 0.5, 0.5]),
            [0.0, 1.0, 0.5],
            [0.0, math.log(2.0) + 1.0, 1.0],
        ),
        (lambda x: f.gelu(x, approximate=True), [1e20, -1e20, INF, -INF], [1.0, 0.0, 1.0, 0.0]),
        (f.gelu, [1e20, -1e20, INF, -INF], [1.0, 0.0, 1.0, 0.0]),
        (lambda x: f.swiglu(x, tf.ones_like(x)), [1e20, -1e20, INF, -INF], [1.0, 0.0, 1.0, 0.0]),
        # √2 (1 / r − x² / r³) and −√2 x y / r³, of length r = 5e24
        (
            lambda x: f.rms_norm(x)[0],
            [3e24, 4e24],
            [0.128e-24 * math.sqrt(2), -0.096e-24 * math.sqrt(2)],
        ),
    ],
)
def test_gradient(function: Callable[..., Any], at: list[float], wanted: list[float]) -> None:
    np.testing.assert_allclose(gradient(function, at)[0], wanted, rtol=5e-7)


@pytest.mark.parametrize(
    "function, at, wanted",
    [
        (lambda x: f.hypot(x, tf.ones_like(x)), [INF, -INF], [INF, INF]),
        (lambda x: f.log_sub_exp(x, [-INF, 1.0]), [-INF, 1.0], [-INF, -INF]),
        (f.rms_norm, [3e38, 4e37], [30.0 * math.sqrt(2 / 916), 4.0 * math.sqrt(2 / 916)]),
        (
            lambda x: f.rms_norm(x, epsilon=0.0),
            [3e-25, 4e-25],
            [0.6 * math.sqrt(2), 0.8 * math.sqrt(2)],
        ),
        (f.rms_norm, [1e-25, 1e-25], [1e-22, 1e-22]),
        (f.layer_norm, [[3e38, -3e38], [1e25, 1e25]], [[1.0, -1.0], [0.0, 0.0]]),
        (f.gelu, [-INF, INF], [0.0, INF]),
        (lambda x: f.gelu(x, approximate=True), [-INF, 1e20], [0.0, 1e20]),
        (lambda x: f.swiglu(x, tf.ones_like(x)), [-INF, 1e20], [0.0, 1e20]),
    ],
)
def test_value(function: Callable[..., Any], at: list[float], wanted: list[float]) -> None:
    np.testing.assert_allclose(function(tf.constant(at)), wanted, rtol=5e-7)


@pytest.mark.parametrize("mode", ["eager", "tf.function, tape outside", "XLA", "forward mode"])
def test_a_vector_of_zeros_has_no_gradient_in_any_mode(mode: str) -> None:
    (found,) = MODES[mode](f.norm, [tf.zeros([2])])
    assert found is not None
    assert found.tolist() == [0.0, 0.0]


def test_a_parameter_of_the_branch_that_is_not_chosen_stays_finite() -> None:
    def scaled_roots(x: Any, w: Any) -> Any:
        return f.safe_where(x > 0, lambda v: tf.sqrt(v * w), lambda v: v, x)

    assert gradient(scaled_roots, [0.0, 4.0], 1.0) == [[1.0, 0.25], 1.0]


@pytest.mark.parametrize("mode", ["tf.function, tape outside", "tf.function, tape inside", "XLA"])
def test_probabilities_of_a_traced_sigmoid_know_their_logits(mode: str) -> None:
    def loss(z: Any) -> Any:
        return f.binary_cross_entropy([0.0], tf.sigmoid(z))

    (found,) = MODES[mode](loss, [tf.constant([100.0])])
    assert found is not None
    assert found.tolist() == [1.0]


@pytest.mark.parametrize(
    "run", [tf.function, lambda g: tf.function(g, jit_compile=True)], ids=["graph", "XLA"]
)
@pytest.mark.parametrize(
    "move",
    [
        lambda p: tf.reshape(p, [2, 1]),
        lambda p: tf.expand_dims(p, 0),
        lambda p: tf.transpose(tf.reshape(p, [1, 2])),
        lambda p: p[::-1][::-1],
        lambda p: tf.squeeze(p[:, None], -1),
        lambda p: tf.gather(p, [0, 1]),
    ],
)
def test_probabilities_that_were_moved_know_their_logits(move: Any, run: Any) -> None:
    def loss(z: Any) -> Any:
        p = move(tf.sigmoid(z))
        return f.binary_cross_entropy(tf.reshape([0.0, 1.0], p.shape), p, axis=None)

    # σ(z) − label
    assert gradient(run(loss), [100.0, -100.0]) == [[1.0, -1.0]]


def test_a_softmax_that_was_reshaped_knows_its_logits() -> None:
    @tf.function
    def loss(z: Any) -> Any:
        p = tf.reshape(tf.nn.softmax(z), [2, 2])
        return f.categorical_cross_entropy([[0.0, 1.0], [1.0, 0.0]], p)

    found = gradient(loss, [[[200.0, 0.0]], [[0.0, 200.0]]])
    assert found == [[[[1.0, -1.0]], [[-1.0, 1.0]]]]


@pytest.mark.parametrize("run", [lambda g: g, tf.function], ids=["eager", "traced"])
@pytest.mark.parametrize(
    "probabilities, axis",
    [
        (lambda z: keras.activations.softmax(z, axis=-1), 0),
        (lambda z: keras.activations.softmax(z, axis=0), -1),
        (lambda z: keras.activations.softmax(z, axis=0), 0),
        (keras.activations.sigmoid, -1),
        (lambda z: tf.reshape(tf.nn.softmax(z), [3, 2]), -1),
        (lambda z: tf.transpose(tf.nn.softmax(z)), -1),
    ],
    ids=["other axis", "one axis", "first axis", "sigmoid", "cut", "turned"],
)
def test_a_loss_is_of_the_probabilities_that_were_given(
    probabilities: Any, axis: int, run: Any
) -> None:
    z = tf.constant([[0.5, -1.0, 2.0], [1.0, 0.0, -0.5]])

    def loss(z: Any) -> Any:
        p = probabilities(z)
        return f.categorical_cross_entropy(tf.ones_like(p) / 2.0, p, axis=axis)

    wanted = -0.5 * np.log(np.asarray(probabilities(z), np.float64)).sum(axis)
    np.testing.assert_allclose(run(loss)(z), wanted, rtol=1e-6)


@pytest.mark.parametrize("loss", [f.categorical_cross_entropy, f.sparse_categorical_cross_entropy])
def test_probabilities_of_keras_know_their_logits(loss: Callable[..., Any]) -> None:
    labels = [[0.0, 1.0]] if loss is f.categorical_cross_entropy else [1]
    found = gradient(lambda z: loss(labels, keras.activations.softmax(z)), [[200.0, 0.0]])
    assert found == [[[1.0, -1.0]]]


def test_a_certain_error_without_logits_is_infinite_and_never_zero() -> None:
    assert gradient(lambda p: f.binary_cross_entropy([0.0], p), [1.0]) == [[INF]]


def test_labels_that_do_not_sum_to_one() -> None:
    # Σy · softmax(z) − y at equal logits
    loss = gradient(
        lambda z: f.categorical_cross_entropy([[3.0, 1.0]], z, from_logits=True), [[0.0, 0.0]]
    )
    assert loss == [[[-1.0, 1.0]]]


@pytest.mark.parametrize("z", [-80.0, -1.0, 1e-20, 3.0, 17.0, 60.0])
def test_binary_cross_entropy_to_the_last_digits(z: float) -> None:
    z = float(np.float32(z))
    (found,) = gradient(lambda v: f.binary_cross_entropy([1.0], v, from_logits=True), [z])
    wanted = -1 / (1 + mp.exp(mp.mpf(z)))
    assert abs(found[0] - wanted) <= 4 * abs(wanted) * 2.0**-23


def test_polar_at_the_identity() -> None:
    found = gradient(lambda a: 3.0 * f.polar(a)[0][0, 1], np.eye(2))
    assert found == [[[0.0, 1.5], [-1.5, 0.0]]]


def test_polar_of_zeros_is_an_error_and_never_zero() -> None:
    with pytest.raises(UnsupportedError, match="two singular values of 0"):
        gradient(lambda a: f.polar(a)[0][0, 1], np.zeros([2, 2]))


@pytest.mark.parametrize(
    "at, wanted",
    [
        ([[2.0, 0.0], [0.0, 2.0]], [[1.0, 0.0], [0.0, 1.0]]),
        ([[1.0, 1.0], [1.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]),
        ([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]),
    ],
)
def test_the_nuclear_norm_with_equal_or_no_singular_values(at: Any, wanted: Any) -> None:
    found = gradient(lambda a: tf.reduce_sum(f.svd(a)[0]), at)
    np.testing.assert_allclose(found, [wanted], atol=1e-6)


def test_equal_singular_values_are_an_error_and_never_zero() -> None:
    def rotation(a: Any) -> Any:
        _, u, v = f.svd(a)
        return tf.matmul(u, v, transpose_b=True)[0, 1]

    with pytest.raises(
        UnsupportedError, match=r"singular values are equal or 0.*use pb\.functions\.polar"
    ):
        gradient(rotation, np.eye(2))


def vectors_at_the_identity(a: Any) -> Any:
    values, vectors = f.eigh(a)
    return tf.matmul(vectors * tf.sqrt(values), vectors, transpose_b=True)[0, 1]


def largest(a: Any) -> Any:
    return f.eigh(a)[0][-1]


def entry(a: Any) -> Any:
    return f.eigh(a)[1][0, 0]


def entry_beside(a: Any) -> Any:
    # Of an eigenvector of the equal ones, along the third, whose eigenvalue is apart.
    return f.eigh(tf.linalg.diag([1.0, 1.0, 5.0]) + tf.pad(a - tf.eye(2), [[0, 1], [0, 1]]))[1][
        2, 0
    ]


@pytest.mark.parametrize("at", [np.eye(2), np.zeros([2, 2])], ids=["equal", "zero"])
@pytest.mark.parametrize("side", [1, 2])
def test_an_entry_of_a_singular_vector_is_an_error_and_never_zero(side: int, at: Any) -> None:
    with pytest.raises(UnsupportedError, match="singular values are equal or 0"):
        gradient(lambda a: f.svd(a)[side][0, 0], at)


def test_a_vector_whose_value_is_apart_has_its_gradient_beside_equal_ones() -> None:
    # First order: v₂ moves by a₀₂ / (5 − 1) along e₀, half of which comes from each of the two entries.
    def along_first(a: Any) -> Any:
        vector = f.eigh(a)[1][:, 2]
        return vector[0] * tf.sign(vector[2])

    (found,) = gradient(along_first, np.diag([1.0, 1.0, 5.0]))
    wanted = np.zeros([3, 3])
    wanted[0, 2] = wanted[2, 0] = 0.125
    np.testing.assert_allclose(found, wanted, atol=1e-7)


@pytest.mark.parametrize("function", [f.sqrtm, lambda a: f.eigh(a)[0], lambda a: f.funm(a, tf.exp)])
def test_what_is_no_number_stays_so(function: Any) -> None:
    bad = np.diag([np.nan, 1.0])
    assert np.isnan(gradient(function, bad)[0]).all()


def test_a_negative_matrix_has_no_root_and_no_gradient() -> None:
    a = np.stack([-np.eye(2), 4.0 * np.eye(2)])
    (found,) = gradient(f.sqrtm, a)
    assert np.isnan(found[0]).all()
    np.testing.assert_allclose(found[1], np.full([2, 2], 0.25), rtol=1e-6)


def test_the_root_of_zeros_has_no_slope() -> None:
    assert gradient(f.sqrtm, np.zeros([2, 2])) == [[[0.0, 0.0], [0.0, 0.0]]]


@pytest.mark.parametrize("function", [vectors_at_the_identity, largest, entry, entry_beside])
@pytest.mark.parametrize("run", [lambda g: g, tf.function], ids=["eager", "traced"])
def test_equal_eigenvalues_are_an_error_and_never_zero(function: Any, run: Any) -> None:
    refused = UnsupportedError, tf.errors.InvalidArgumentError
    with pytest.raises(refused, match="eigenvalues are equal"):
        gradient(run(function), np.eye(2))


def test_equal_eigenvalues_are_not_a_number_under_xla() -> None:
    (found,) = MODES["XLA"](vectors_at_the_identity, [tf.eye(2)])
    assert found is not None
    assert np.isnan(found).all()


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64])
def test_every_floating_dtype_comes_back(dtype: Any) -> None:
    x = tf.constant([300.0, 400.0], dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f.norm(x)
    found = tape.gradient(y, x)
    assert y.dtype == found.dtype == dtype
    np.testing.assert_allclose(tf.cast(found, tf.float64), [0.6, 0.8], rtol=4e-3)


@pytest.mark.parametrize("shape, axis, wanted", [([0, 3], None, 0.0), ([2, 0], 1, [0.0, 0.0])])
@pytest.mark.parametrize("wrap", [lambda f: f, tf.function])
def test_the_length_of_no_entries_is_zero(shape, axis, wanted, wrap):
    x = tf.zeros(shape)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = wrap(lambda x: pb.functions.norm(x, axis=axis))(x)
    assert y.numpy().tolist() == wanted
    assert tape.gradient(y, x).shape == shape
