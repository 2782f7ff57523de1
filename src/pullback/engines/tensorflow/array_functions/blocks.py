"""Large arrays by blocks: loops that hold one block at a time, and parts of arrays that are written in place."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.array_functions.programs import compiled_here
from pullback.engines.tensorflow.array_functions.recording import gradient_order
from pullback.engines.tensorflow.tf_private.recording import custom_gradient
from pullback.errors import ArgumentError

arange = tf.range
clamp = tf.clip_by_value
tanh = tf.tanh
erfc = tf.math.erfc
rsqrt = tf.math.rsqrt
zeros = tf.zeros

_LARGE = 2**15  # entries: of fewer, a compiled unit takes as long to start as it saves


def program(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """A function of arrays as one program: code that runs at once calls a traced one, which is traced once.

    What lies between its operations is then freed as soon as it is not needed. The options are hashable.
    """
    if tf.executing_eagerly():
        return _unless_of_higher_order(_traced, function, options)
    return functools.partial(function, **options)


def _unless_of_higher_order(
    make: Callable[..., Any], function: Callable[..., Any], options: dict[str, Any]
) -> Callable[..., Any]:
    """A function made of another one; itself where it is differentiated more than once, as TensorFlow fails there."""

    def run(*args: Any) -> Any:
        tensors = [t for t in tf.nest.flatten(args) if t is not None]
        if gradient_order(tensors) > 1:
            return function(*args, **options)
        return make(function, tuple(options.items()))(*args)

    return run


@functools.lru_cache(maxsize=256)
def _traced(function: Callable[..., Any], options: tuple[tuple[str, Any], ...]) -> Any:
    whole = functools.partial(function, **dict(options))
    return tf.function(whole, autograph=False, reduce_retracing=True)


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """A function of arrays as one unit compiled by XLA, in a program that is not compiled as a whole."""
    eager = tf.executing_eagerly()
    if not eager and private.is_compiled_by_xla(tf.compat.v1.get_default_graph()):
        return functools.partial(function, **options)
    if eager:
        return _unless_of_higher_order(_compiled, function, options)
    unit = _compiled(function, tuple(options.items()))

    def run(*args: Any) -> Any:
        return unit(*tf.nest.map_structure(_read_here, args))

    return run


def _read_here(array: Any) -> Any:
    """An array of a graph around this one, read by an op of this one.

    To call a compiled function is taken for a program that is compiled: the gradient of a `tf.cond` would read what its
    branch has computed in a way of such programs, and fail.
    """
    if array is None or isinstance(array, private.EagerTensor):
        return array
    return array if array.graph is tf.compat.v1.get_default_graph() else tf.identity(array)


@functools.lru_cache(maxsize=256)
def _compiled(function: Callable[..., Any], options: tuple[tuple[str, Any], ...]) -> Any:
    whole = functools.partial(function, **dict(options))
    return tf.function(whole, autograph=False, jit_compile=True)


def pays_to_compile(arrays: Sequence[Any]) -> bool:
    """Whether a function of these arrays is to be a compiled unit: in a graph that is not compiled, of large ones.

    Their sizes are known: a unit is compiled for each shape, which takes a second, and the graph is built for one.
    """
    if tf.executing_eagerly() or compiled_here():
        return False
    sizes = [array.shape.num_elements() for array in arrays]
    return None not in sizes and any(size >= _LARGE for size in sizes)


def repeated(
    count: Any, body: Callable[..., Any], state: Sequence[Any], most: Any = None
) -> tuple[Any, ...]:
    """The state after `count` steps of `state = body(step, *state)`, of which there are `most` at most."""
    if isinstance(count, int) and count == 1:
        return tuple(body(0, *state))
    most = count if isinstance(count, int) else most if isinstance(most, int) else None
    _, *after = tf.while_loop(
        lambda i, *_: i < count,
        lambda i, *now: (i + 1, *body(i, *now)),
        (tf.constant(0), *state),
        parallel_iterations=1,
        maximum_iterations=most,
    )
    return tuple(after)


def extent(array: Any, axis: int) -> Any:
    """The size of an axis: a number where it is known, else a tensor."""
    known = array.shape[axis]
    return tf.shape(array)[axis] if known is None else known


def equal_blocks(whole: Any, most: Any) -> tuple[Any, Any]:
    """How many blocks of which size cover a length: of `most` at most, and all of one size. The last ones overlap."""
    if isinstance(whole, int) and isinstance(most, int):
        count = max(-(-whole // most), 1)
        return count, -(-whole // count)
    count = tf.maximum(-(-whole // most), 1)
    return count, -(-whole // count)


def block(array: Any, start: Any, size: Any, axis: int) -> Any:
    """A part of an array along an axis."""
    rank, axis = array.shape.rank, axis % array.shape.rank
    if isinstance(size, int) and array.shape[axis] == size:
        return array
    # All sizes, as far as they are known: XLA pads an array of which a slice has a size of -1.
    begin, sizes = [0] * rank, [extent(array, a) for a in range(rank)]
    begin[axis], sizes[axis] = start, size
    part = tf.slice(array, begin, sizes)
    known = size if isinstance(size, int) else None
    part.set_shape([known if a == axis else n for a, n in enumerate(array.shape)])
    return part


def with_block(array: Any, start: Any, part: Any, axis: int) -> Any:
    """The array with a part of it replaced; in place, where nothing else holds the array."""
    rank, axis = array.shape.rank, axis % array.shape.rank
    if array.shape[axis] is not None and array.shape[axis] == part.shape[axis]:
        return part
    begin = [start if a == axis else 0 for a in range(rank)]
    if private.is_compiled_by_xla(tf.compat.v1.get_default_graph()):
        return _with_block_by_xla(array, part, tf.stack(begin))
    end = list(tf.unstack(tf.shape(array)))
    end[axis] = start + extent(part, axis)
    replaced = tf.raw_ops.TensorStridedSliceUpdate(
        input=array, begin=begin, end=end, strides=[1] * rank, value=part
    )
    replaced.set_shape(array.shape)
    return replaced


@custom_gradient
def _with_block_by_xla(array: Any, part: Any, begin: Any) -> Any:
    """XLA wants to know the bounds of a strided slice when it compiles; an operation of its own has no gradient."""

    def with_block_pullback(dy: Any) -> Any:
        none = private.xla_dynamic_update_slice(dy, tf.zeros_like(part), begin)
        return none, tf.slice(dy, begin, tf.shape(part)), None

    return private.xla_dynamic_update_slice(array, part, begin), with_block_pullback


def picked(rows: Any, columns: Any) -> Any:
    """One entry of each row."""
    return tf.gather(rows, columns, batch_dims=1, axis=1)


def less_at(rows: Any, columns: Any, amounts: Any) -> Any:
    """The rows, with an amount taken from one entry of each."""
    if private.is_compiled_by_xla(tf.compat.v1.get_default_graph()):
        hit = tf.range(tf.shape(rows)[1])[None, :] == columns[:, None]
        return tf.where(hit, rows - amounts[:, None], rows)
    places = tf.stack([tf.range(tf.shape(rows)[0]), columns], axis=1)
    return tf.tensor_scatter_nd_sub(rows, places, amounts)


def chosen_first(condition: Any) -> tuple[Any, Any, Any]:
    """The order in which rows for which a condition holds come first, the way back, and how many they are."""
    order = tf.argsort(tf.cast(tf.logical_not(condition), tf.int32), stable=True)
    back = tf.scatter_nd(order[:, None], tf.range(tf.shape(order)[0]), tf.shape(order))
    return order, back, tf.reduce_sum(tf.cast(condition, tf.int32))


def lowest(dtype: Any) -> float:
    """A number so low that the exponential of what is left is 0, and differences of two do not overflow."""
    return float(np.finfo(dtype.as_numpy_dtype).min) / 4.0


def next_along_last_axis(labels: Any) -> tuple[Any, Any]:
    """Each label's successor, and which places have none."""
    moved = tf.roll(labels, -1, axis=-1)
    size = tf.shape(labels)[-1]
    last = tf.broadcast_to(tf.range(size) == size - 1, tf.shape(labels))
    return moved, tf.reshape(last, [-1])


def chosen_labels(labels: Any, ignored: int | None, skipped: Any) -> Any:
    """Which labels count."""
    valid = tf.ones_like(labels, tf.bool) if ignored is None else labels != ignored
    return valid if skipped is None else valid & tf.logical_not(skipped)


def require_classes(
    labels: Any, valid: Any, classes: Any, function: str, *, others: str = ", or ignore_index"
) -> Any:
    """Labels, 0 where they do not count; if one is no class, an error, now or when the program runs.

    A compiled program has no errors: there it is −1, which fits into any dtype.
    """
    labels, classes = tf.where(valid, labels, 0), tf.cast(classes, labels.dtype)
    wrong = (labels < 0) | (labels >= classes)
    words = f"pb.functions.{function} got a label that is no class: "
    wanted = f"wanted numbers from 0 to the number of classes less one{others}"
    if tf.executing_eagerly():
        if bool(tf.reduce_any(wrong)):
            found = int(tf.boolean_mask(labels, wrong)[0])
            raise ArgumentError(f"{words}{found}, of {int(classes)} classes; {wanted}.")
        return labels
    graph = tf.compat.v1.get_default_graph()
    if private.is_compiled_by_xla(graph):
        return tf.where(wrong, tf.constant(-1, labels.dtype), labels)
    worst = tf.reduce_max(tf.where(wrong, labels, labels.dtype.min))
    check = tf.debugging.Assert(~tf.reduce_any(wrong), [words, worst, "of", classes, wanted])
    with tf.control_dependencies([check]):
        return tf.identity(labels)
