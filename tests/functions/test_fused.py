"""Norms and cross-entropies as compiled units: any width, ends of the range, and what they write to memory."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

f = pb.functions
ROWS, WIDTH = 64, 4096


def rms_norm(x: Any, scale: Any, offset: Any) -> Any:
    return x * tf.math.rsqrt(tf.reduce_mean(x * x, -1, keepdims=True) + 1e-6) * scale + 0.0 * offset


def layer_norm(x: Any, scale: Any, offset: Any) -> Any:
    centred = x - tf.reduce_mean(x, -1, keepdims=True)
    return rms_norm(centred, scale, offset) + offset


def cross_entropy(z: Any, scale: Any, offset: Any) -> Any:
    shares = tf.nn.softmax(scale)
    return -tf.reduce_sum(shares * tf.nn.log_softmax(z), -1, keepdims=True) + 0.0 * offset


NORMS = {
    "rms_norm": (lambda x, s, o: f.rms_norm(x, s) + 0.0 * o, rms_norm),
    "layer_norm": (f.layer_norm, layer_norm),
    "softmax_cross_entropy": (
        lambda z, s, o: (
            f.softmax_cross_entropy(tf.zeros_like(z) + tf.nn.softmax(s), z)[..., None] + 0.0 * o
        ),
        cross_entropy,
    ),
}
SHAPES = [(37,), (5, 48), (32, 16), (2, 24, 128), (16, 37), (3, 1), (0, 8)]


def results(function: Callable[..., Any], arrays: list[Any], upstream: Any) -> list[Any]:
    with tf.GradientTape() as tape:
        tape.watch(arrays)
        y = function(*arrays)
    return [y, *tape.gradient(y, arrays, tf.cast(upstream, y.dtype))]


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "shapes unknown"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_rows_of_any_number_and_width(name: str, shape: tuple[int, ...], traced: bool) -> None:
    ours, formula = NORMS[name]
    random = np.random.default_rng(3)
    arrays = [random.normal(size=s) for s in (shape, shape[-1:], shape[-1:])]
    upstream = random.normal(size=shape)
    wanted = results(formula, [tf.constant(a, tf.float64) for a in arrays], upstream)

    def run(*given: Any) -> Any:
        return results(ours, list(given[:3]), given[3])

    given = [tf.constant(a, tf.float32) for a in (*arrays, upstream)]
    unknown = [tf.TensorSpec([None] * len(a.shape), tf.float32) for a in given]
    found = (tf.function(run, input_signature=unknown) if traced else run)(*given)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("size", [1e-300, 1e-170, 1.0, 1e170, 1e300])
@pytest.mark.parametrize("norm", [f.rms_norm, f.layer_norm])
def test_rows_of_float64_from_end_to_end_of_its_range(norm: Any, size: float) -> None:
    x = tf.constant([[3.0 * size, -3.0 * size]], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = norm(x, epsilon=0.0)
    np.testing.assert_allclose(y, [[1.0, -1.0]], rtol=1e-14)
    # A row stays as it is when all of it grows.
    np.testing.assert_allclose(tape.gradient(y, x, y) * size, [[0.0, 0.0]], atol=1e-14)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_rows_of_few_digits(dtype: str) -> None:
    """Sizes whose squares overflow in float16, and in bfloat16 also in float32."""
    size = 1e30 if dtype == "bfloat16" else 1e4
    x = tf.cast([[3.0 * size, 4.0 * size]], dtype)
    y = f.rms_norm(x)
    assert y.dtype == dtype
    np.testing.assert_allclose(tf.cast(y, tf.float32), [[0.849, 1.131]], rtol=1e-2)


def test_labels_that_are_no_classes_are_nan_alone() -> None:
    z = tf.zeros([3, 2])
    with tf.GradientTape() as tape:
        tape.watch(z)
        loss = f.softmax_cross_entropy([1, 2, -1], z)
    assert np.isnan(loss).tolist() == [False, True, True]
    np.testing.assert_array_equal(
        np.isnan(tape.gradient(loss, z)), [[False] * 2, [True] * 2, [True] * 2]
    )


def test_a_class_that_is_masked_takes_no_part() -> None:
    z = tf.constant([[0.0, 0.0, -np.inf]])
    with tf.GradientTape() as tape:
        tape.watch(z)
        loss = f.softmax_cross_entropy([1], z)
    np.testing.assert_allclose(loss, [np.log(2.0)], rtol=1e-6)
    np.testing.assert_allclose(tape.gradient(loss, z), [[0.5, -0.5, 0.0]], rtol=1e-6)


@pytest.mark.parametrize(
    "function, count",
    [
        (lambda x, _: f.rms_norm(x), 2),
        (lambda x, _: f.layer_norm(x), 2),
        (lambda x, other: f.layer_norm(x, other[0], other[1]), 2),
        (lambda x, other: f.softmax_cross_entropy(tf.cast(other[:, 0], tf.int32), x), 1),
    ],
    ids=["rms_norm", "layer_norm", "layer_norm with parameters", "softmax_cross_entropy"],
)
def test_nothing_is_written_but_results(function: Callable[..., Any], count: int) -> None:
    """Of arrays of the size of x, a compiled step writes its value, if that is one, and its gradient."""

    def step(x: Any, other: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x, other)
        return y, tape.gradient(y, x, other if len(y.shape) == 2 else other[:, 1])

    x = tf.random.stateless_normal([ROWS, WIDTH], [1, 2])
    compiled: Any = tf.function(step, jit_compile=True, autograph=False)
    program = compiled.experimental_get_compiler_ir(x, x)(stage="optimized_hlo")
    lines = program[program.index("ENTRY") :].splitlines()[1:]
    large = [line for line in lines if re.search(rf"= \w+\[{ROWS},{WIDTH}\]", line)]
    written = [line for line in large if " parameter(" not in line]
    assert len(written) == count, "\n".join(written)
