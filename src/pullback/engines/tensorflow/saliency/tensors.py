"""Functions of tensors that saliency methods are written with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.errors import SaliencyError


def as_tensor(value: Any, like: Any = None) -> Any:
    """A value as a tensor, of the dtype of another one where that is given."""
    if isinstance(value, (tf.RaggedTensor, tf.SparseTensor)):
        made = "x.to_tensor()" if isinstance(value, tf.RaggedTensor) else "tf.sparse.to_dense(x)"
        raise SaliencyError(
            f"x holds a {type(value).__name__}, in which entries have no fixed places; wanted a dense tensor. "
            f"Write {made}, with a model that takes that."
        )
    if like is None:
        return tf.convert_to_tensor(value)
    return tf.cast(tf.convert_to_tensor(value), like.dtype)


def is_floating(tensor: Any) -> bool:
    """Whether gradients flow into a tensor."""
    return tensor.dtype.is_floating


def is_symbolic(tensor: Any) -> bool:
    """Whether its numbers are not known yet, because a program is being traced."""
    return isinstance(tensor, tf.Tensor) and not hasattr(tensor, "numpy")


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a program, in which gradients that nobody asks for are not computed."""
    return tf.function(function, autograph=False)


def take(tensor: Any, examples: Any) -> Any:
    """The examples with these numbers, or of a slice."""
    return tensor[examples] if isinstance(examples, slice) else tf.gather(tensor, examples)


def concat(tensors: Sequence[Any]) -> Any:
    """One tensor of the examples of all."""
    return tensors[0] if len(tensors) == 1 else tf.concat(tensors, axis=0)


def sum_by(tensor: Any, weights: np.ndarray, groups: np.ndarray, count: int) -> Any:
    """The weighted sum of the entries of each of `count` groups."""
    factors = reshape(as_tensor(weights, tensor), [-1] + [1] * (tensor.shape.rank - 1))
    return tf.math.unsorted_segment_sum(tensor * factors, groups, count)


def sum_over(tensor: Any, axes: Sequence[int]) -> Any:
    """The sum over axes."""
    return tf.reduce_sum(tensor, axes) if axes else tensor


def over_axis(matrix: np.ndarray, tensor: Any, axis: int) -> Any:
    """A matrix applied along one axis."""
    moved = tf.tensordot(as_tensor(matrix, tensor), tensor, [[1], [axis]])
    rank = tensor.shape.rank
    return tf.transpose(moved, [*range(1, axis + 1), 0, *range(axis + 1, rank)])


def reshape(tensor: Any, shape: Sequence[int]) -> Any:
    """The same numbers in another shape."""
    return tf.reshape(tensor, shape)


def positive(tensor: Any) -> Any:
    """The positive part."""
    return tf.nn.relu(tensor)


def ratio(numerator: Any, denominator: Any) -> Any:
    """The quotient, and zero where the denominator is."""
    return tf.math.divide_no_nan(numerator, denominator)


def argmax(scores: Any) -> Any:
    """Of each example the place of the largest entry of the last axis."""
    return tf.argmax(scores, axis=-1)


def pick(scores: Any, places: Any) -> Any:
    """Of each example the entry at its place in the last axis."""
    return tf.gather(scores, tf.convert_to_tensor(places), axis=-1, batch_dims=1)


def spread(tensor: Any) -> Any:
    """Of each example the largest number less the smallest, in a shape that goes with the tensor."""
    axes = list(range(1, tensor.shape.rank))
    largest = tf.reduce_max(tensor, axes, keepdims=True)
    return largest - tf.reduce_min(tensor, axes, keepdims=True)


def wide(tensor: Any) -> Any:
    """In float64, for sums of very many entries."""
    return tf.cast(tensor, tf.float64)


def total(tensor: Any) -> Any:
    """The sum of each example, in float64."""
    return tf.reduce_sum(wide(tensor), range(1, tensor.shape.rank))


def halves(tensor: Any) -> tuple[Any, Any]:
    """The first and the second half of the examples."""
    first, second = tf.split(tensor, 2)
    return first, second


def magnitude(tensor: Any) -> Any:
    """Without signs."""
    return tf.abs(tensor)


def largest(tensors: Sequence[Any]) -> Any:
    """The largest magnitude of each entry."""
    return tf.reduce_max(tf.abs(tf.stack(tensors)), 0)
