"""Matrices as ready-made functions compute with them."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow.array_functions.programs import compiled_here
from pullback.errors import UnsupportedError


def transpose(matrices: Any) -> Any:
    """Matrices transposed."""
    return tf.linalg.matrix_transpose(matrices)


matmul = tf.matmul
diagonal = tf.linalg.diag_part
diag = tf.linalg.diag
cholesky = tf.linalg.cholesky


def eigh(matrices: Any) -> Any:
    """Eigenvalues and eigenvectors; NaN of what is not finite, which to TensorFlow is an error that names nobody."""
    fine = tf.reduce_all(tf.math.is_finite(matrices), [-2, -1])
    nan = tf.cast(math.nan, matrices.dtype)
    values, vectors = tf.linalg.eigh(
        tf.where(fine[..., None, None], matrices, tf.zeros_like(matrices))
    )
    return tf.where(fine[..., None], values, nan), tf.where(fine[..., None, None], vectors, nan)


def svd(matrices: Any) -> Any:
    """Left vectors, singular values and right vectors of the thin decomposition: a = u · diag(s) · vᵀ."""
    values, left, right = tf.linalg.svd(matrices)
    return left, values, right


def identity_like(matrices: Any) -> Any:
    """Unit matrices of this shape."""
    return tf.linalg.eye(tf.shape(matrices)[-1], dtype=matrices.dtype) + tf.zeros_like(matrices)


def cholesky_solve(lower: Any, right: Any) -> Any:
    """What solves A X = right, by the Cholesky factor of A."""
    return tf.linalg.cholesky_solve(lower, right)


def solve(matrices: Any, right: Any) -> Any:
    """What solves A X = right; NaN where A has no inverse, which to TensorFlow is an error that names nobody."""
    if compiled_here():
        return tf.linalg.solve(matrices, right)  # XLA has no errors, and no determinants in loops
    sign, _ = tf.linalg.slogdet(matrices)
    fine = (tf.abs(sign) > 0)[..., None, None]
    unit = tf.linalg.eye(tf.shape(matrices)[-1], dtype=matrices.dtype)
    found = tf.linalg.solve(tf.where(fine, matrices, unit), right)
    return tf.where(fine, found, tf.cast(math.nan, right.dtype))


def slope_at(function: Any, x: Any) -> Any:
    """The derivative of a function of single entries."""
    if not tf.executing_eagerly():
        # No tape records in a rule that forward mode differentiates inside of a call of a tf.function.
        x = tf.identity(x)
        return tf.gradients(function(x), x, unconnected_gradients=tf.UnconnectedGradients.ZERO)[0]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x, unconnected_gradients=tf.UnconnectedGradients.ZERO)


def require(holds: Any, array: Any, message: str) -> Any:
    """The array, if a condition holds when the program runs; else an error, and under XLA, which has none, NaN."""
    if holds is True:
        return array
    if tf.executing_eagerly():
        if not bool(holds):
            raise UnsupportedError(message)
        return array
    array = tf.where(holds, array, tf.cast(math.nan, array.dtype))
    with tf.control_dependencies([tf.debugging.Assert(holds, [message])]):
        return tf.identity(array)
