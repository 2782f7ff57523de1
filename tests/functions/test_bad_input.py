"""What the functions do not take, and the words that say so."""

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import ArgumentError

f = pb.functions
X = tf.ones([2, 3])


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: f.norm(tf.constant([1, 2])), "got x as int32.*floating-point.*Cast it"),
        (lambda: f.norm(tf.constant([1j])), "complex128.*floating-point"),
        (lambda: f.norm(X, axis=2), "axis=2 for float32.*between -2 and 1"),
        (lambda: f.norm(X, axis=(0, -2)), "one axis twice"),
        (lambda: f.norm(X, axis="rows"), "axis='rows'"),
        (lambda: f.norm(X, ord=1), "ord=1; wanted 'euclidean' or 2"),
        (lambda: f.cumprod(X, axis=None), "axis=None.*wanted an axis"),
        (lambda: f.hypot(X, tf.cast(X, tf.float64)), "wanted one dtype"),
        (lambda: f.binary_cross_entropy(tf.ones([3]), X), "wanted one label for each prediction"),
        (lambda: f.binary_cross_entropy(X, X, label_smoothing=2.0), "between 0 and 1"),
        (lambda: f.sparse_categorical_cross_entropy(X, X), "wanted the number of a class"),
        (lambda: f.binary_focal_cross_entropy(X, X, gamma=-1.0), "gamma=-1.0"),
        (lambda: f.safe_where(X > 0, 1.0, tf.exp, X), "got f as 1.0; wanted a function"),
        (lambda: f.safe_where(X, tf.exp, tf.exp, X), "not of booleans"),
        (lambda: f.sqrtm(X), "wanted square matrices"),
        (lambda: f.funm(tf.eye(2), 3.0), "f=3.0; wanted a function"),
    ],
)
def test_an_error_says_what_is_wanted(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()


def test_lists_of_numbers_are_fine() -> None:
    assert float(f.norm([3.0, 4.0])) == 5.0


def test_a_tensor_of_unknown_rank() -> None:
    traced = tf.function(f.norm, input_signature=[tf.TensorSpec(None, tf.float32)])
    with pytest.raises(ArgumentError, match="unknown rank"):
        traced(X)
