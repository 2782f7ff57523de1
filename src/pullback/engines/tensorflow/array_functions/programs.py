"""Functions of arrays as ready-made code runs them: shapes, rows, loops, failures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import ml_dtypes
import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.array_functions.for_functions import is_array
from pullback.engines.tensorflow.attach.model_nodes import call_as_node
from pullback.engines.tensorflow.tf_private import overriding
from pullback.extend import Kind

reshape = tf.reshape
concat = tf.concat
split = tf.split
einsum = tf.einsum
logical_and = tf.logical_and
logical_not = tf.logical_not
runs_at_once = tf.executing_eagerly


def is_symbolic(leaves: Sequence[Any]) -> bool:
    """Whether one of these is an input of a model that is being built."""
    return any(isinstance(leaf, keras.KerasTensor) for leaf in leaves)


def as_node(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """The call of a function as a node of the model that is being built."""
    return call_as_node(function, args, options)


def runnable(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the user's as it runs here: in a graph converted by AutoGraph, and with tapes that record."""
    if tf.executing_eagerly():
        return function

    def run(*args: Any) -> Any:
        with private.recording_again():
            return overriding.converted(function, body=True)(*args)

    return run


def static_size(array: Any, axes: slice) -> int | None:
    """The number of entries along these axes, as far as it is known before the program runs."""
    shape = array.shape
    known = None if shape.rank is None else shape.as_list()[axes]
    return None if known is None or None in known else math.prod(known)


def shape_of(array: Any) -> Any:
    """The shape, of numbers where they are known and else of tensors."""
    if array.shape.is_fully_defined():
        return array.shape.as_list()
    known, now = array.shape.as_list(), tf.unstack(tf.shape(array), array.shape.rank)
    return [n if k is None else k for k, n in zip(known, now, strict=True)]


def fits(array: Any, other: Any) -> bool:
    """Whether a value is an array of the dtype of another one, and may have its shape."""
    array = tf.convert_to_tensor(array) if is_array(array) else None
    return (
        array is not None
        and array.dtype == other.dtype
        and array.shape.is_compatible_with(other.shape)
    )


def carries_gradient(value: Any) -> bool:
    """Whether a value is an array into which gradients flow."""
    return values.kind(value) is Kind.DIFFERENTIABLE


def is_number_of(value: Any, dtype: Any) -> bool:
    """Whether a value is a single number of a dtype, as far as is known."""
    return is_array(value) and value.dtype == dtype and value.shape.is_compatible_with([])


def nan_like(x: Any) -> Any:
    """What is no number, of the dtype of an array."""
    return tf.constant(math.nan, x.dtype)


def infinity_like(x: Any) -> Any:
    """Infinity, of the dtype of an array."""
    return tf.constant(math.inf, x.dtype)


def shares_of(gram: Any) -> Any:
    """The shares, of sum 1, of vectors whose mix is shortest, by their inner products; equal vectors share equally."""
    trace = tf.linalg.trace(gram)[:, None, None]
    count = gram.shape[-1]
    unit = tf.linalg.eye(count, dtype=gram.dtype)
    scaled = tf.math.divide_no_nan(gram, trace)
    # As much as keeps the equations solvable in this precision.
    lift = 8.0 * np.finfo(gram.dtype.as_numpy_dtype).eps * count
    found = tf.linalg.solve(scaled + lift * unit, tf.ones_like(gram[..., :1]))[..., 0]
    return found / tf.reduce_sum(found, -1, keepdims=True)


def same_shape(array: Any, other: Any) -> Any:
    """The array, known to have the shape of another one."""
    array = tf.convert_to_tensor(array)
    if array.shape.is_fully_defined() or other.shape.rank is None:
        return array  # which `fits`; and TensorFlow has no tangents of the op below for an accumulator in a graph
    return tf.ensure_shape(array, other.shape)


def eps_of(dtype: Any) -> float:
    """The distance from 1 to the next number of a dtype."""
    return float(ml_dtypes.finfo(tf.as_dtype(dtype).as_numpy_dtype).eps)


def unit_like(rows: Any, index: Any) -> Any:
    """A unit vector in each row."""
    return tf.zeros_like(rows) + tf.one_hot(index, rows.shape[-1], dtype=rows.dtype)


def columns(vectors: Any) -> Any:
    """Matrices of column vectors, one of each matrix stacked on one of the other."""
    return tf.transpose(vectors, [1, 2, 0])


def rows_of(function: Callable[[Any], Any], count: int, like: Any) -> Any:
    """What a function gives of 0, 1, …, stacked."""
    if tf.executing_eagerly():
        return tf.stack([function(tf.constant(i)) for i in range(count)])
    spec = tf.TensorSpec(like.shape, like.dtype)
    return tf.map_fn(function, tf.range(count), fn_output_signature=spec, parallel_iterations=1)


def with_row(rows: Any, index: Any, row: Any) -> Any:
    """The rows, one of them replaced."""
    hot = tf.one_hot(index, rows.shape[0], dtype=rows.dtype)
    hot = tf.reshape(hot, [-1] + [1] * (rows.shape.rank - 1))
    return rows * (1 - hot) + hot * row[None]


def rows_like(array: Any, count: int) -> Any:
    """So many times an array, stacked."""
    return tf.repeat(array[None], count, axis=0)


def entry(array: Any, index: Any) -> Any:
    """One entry of the first axis."""
    return tf.gather(array, index)


def rows_at(array: Any, indices: Any) -> Any:
    """Some entries of the first axis."""
    # Its gradients of any order are tensors. Those of a gather are `IndexedSlices`, on which nested accumulators fail.
    if static_size(array, slice(None)):
        return tf.gather_nd(array[None], tf.stack([tf.zeros_like(indices), indices], -1))
    # Of an array without entries it takes no rows.
    count = tf.size(indices)
    kept = indices[: tf.where(tf.size(array) > 0, count, 0)]
    found = tf.gather_nd(array[None], tf.stack([tf.zeros_like(kept), kept], -1))
    return tf.reshape(found, [indices.shape[0] or count, *shape_of(array)[1:]])


def with_entry(vector: Any, index: Any, value: Any) -> Any:
    """A vector of numbers, one of them replaced."""
    return tf.where(tf.range(vector.shape[0]) == index, tf.cast(value, vector.dtype), vector)


def unit_at(vector: Any, index: int, value: Any) -> Any:
    """Zeros, and a number in one place."""
    return tf.one_hot(index, vector.shape[0], dtype=vector.dtype) * value


stacked = tf.stack
equal = tf.equal
minimum = tf.minimum


def visited(step: Callable[[Any, Any], Any], first: Any, count: Any, most: int) -> Any:
    """The arrays that a step leads to, one after the other, stacked; it is given its number and the last array."""
    if tf.executing_eagerly():
        found = [first]
        for j in range(int(count)):
            found.append(step(tf.constant(j), found[-1]))
        return tf.stack(found[1:])
    rows = tf.TensorArray(first.dtype, most, element_shape=first.shape, clear_after_read=False)

    def body(j: Any, y: Any, rows: Any) -> Any:
        y = tf.ensure_shape(step(j, y), first.shape)
        return j + 1, y, rows.write(j, y)

    state = (tf.constant(0), first, rows)
    limits = {"parallel_iterations": 1, "maximum_iterations": most}
    return tf.while_loop(lambda j, *_: j < count, body, state, **limits)[2].stack()


def loop(
    goes_on: Callable[..., Any],
    body: Callable[..., Any],
    state: Sequence[Any],
    most: int | None = None,
) -> Any:
    """Run a body on a state of arrays, the first of which counts the rounds, as long as a condition holds."""
    state = [tf.convert_to_tensor(s) for s in state]
    shapes = [s.shape for s in state]

    def kept(*old: Any) -> list[Any]:
        found = [tf.convert_to_tensor(new) for new in body(*old)]
        return [tf.ensure_shape(new, shape) for new, shape in zip(found, shapes, strict=True)]

    return tf.while_loop(goes_on, kept, state, parallel_iterations=1, maximum_iterations=most)


def compiled_here() -> bool:
    """Whether the program that is being built is compiled by XLA."""
    return not tf.executing_eagerly() and private.is_compiled_by_xla(
        tf.compat.v1.get_default_graph()
    )


def with_failure(
    arrays: Sequence[Any],
    fine: Any,
    fail: Callable[..., Exception],
    numbers: Sequence[Any],
    mode: str,
) -> list[Any]:
    """The arrays if all is fine when the program runs; else an error, NaN or the arrays, as the mode says.

    XLA has no errors at run time: there it is NaN for an error.
    """
    if mode == "accept":
        return list(arrays)
    if mode == "raise" and tf.executing_eagerly():
        if not bool(fine):
            raise fail(*(float(n) for n in numbers))
        return list(arrays)
    marked = [tf.where(fine, a, tf.cast(math.nan, a.dtype)) for a in arrays]
    if mode == "nan":
        return marked
    words = str(fail(*("{}" for _ in numbers))).split("{}")
    said = [part for pair in zip(words, [*numbers, ""], strict=True) for part in pair]
    with tf.control_dependencies([tf.debugging.Assert(fine, said)]):
        return [tf.identity(a) for a in marked]


def shown(arrays: Sequence[Any], see: Callable[..., None], numbers: Sequence[Any]) -> list[Any]:
    """The arrays, once a Python function has been shown some numbers: at once, or when the program runs."""
    if tf.executing_eagerly():
        see(*(n.numpy() for n in map(tf.convert_to_tensor, numbers)))
        return list(arrays)
    with tf.control_dependencies([tf.numpy_function(see, list(numbers), [], stateful=True)]):
        return [tf.identity(a) for a in arrays]
