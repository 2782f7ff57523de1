"""TensorFlow values: what carries a gradient, what to remember of one, and the array operations of the core.

Every differentiable leaf has exactly one tensor in which its gradient lives: a tensor itself, the flat values of a
RaggedTensor, the values of IndexedSlices and of a SparseTensor.
"""

from __future__ import annotations

import collections
import functools
import numbers
import re
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.errors import Mismatch, UnsupportedError
from pullback.extend import Kind, Shape, Spec, compatible, shape_text

_VARIABLES = (tf.Variable, keras.Variable)
_TENSORS = (tf.Tensor, tf.RaggedTensor, tf.SparseTensor, tf.IndexedSlices, keras.KerasTensor)
FLOWING = frozenset(
    d.as_datatype_enum
    for d in (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128)
)
_COMPOSITE = (tf.RaggedTensor, tf.SparseTensor)
_OTHER_SHAPE = "a gradient of another shape; it and the input have the shapes"
_NOT_NUMBERS = (tf.string, tf.bool, tf.resource, tf.variant)


def kind(leaf: Any) -> Kind:
    """How a leaf takes part in differentiation."""
    if type(leaf) is private.EagerTensor:
        return Kind.DIFFERENTIABLE if private.data_type(leaf) in FLOWING else Kind.TENSOR
    if leaf is None or isinstance(leaf, bool):
        return Kind.STATIC
    if isinstance(leaf, (np.ndarray, np.generic, numbers.Number)):
        return Kind.NUMBER
    if isinstance(leaf, _VARIABLES):
        return Kind.DIFFERENTIABLE if _takes_gradient(leaf) else Kind.TENSOR
    if isinstance(leaf, _TENSORS):
        return Kind.DIFFERENTIABLE if flows(leaf) else Kind.TENSOR
    if isinstance(leaf, tf.experimental.ExtensionType):
        raise UnsupportedError(
            f"an ExtensionType ({type(leaf).__name__}) cannot be an argument or an output of a "
            "function with its own gradient. Pass its tensors, in a dict or a dataclass."
        )
    return Kind.STATIC


def flows(leaf: Any) -> bool:
    """Whether gradients flow into values of this dtype."""
    return tf.as_dtype(leaf.dtype).as_datatype_enum in FLOWING


def _takes_gradient(variable: Any) -> bool:
    """Whether a variable has a gradient: one that is trained has, another where a tape watches it, or may do so."""
    if tf.as_dtype(variable.dtype).base_dtype.as_datatype_enum not in FLOWING:
        return False
    if variable.trainable or not private.executing_eagerly():
        return True
    copies = getattr(underlying(variable), "values", (underlying(variable),))  # one per replica
    return private.possible_gradient_types([copy.handle for copy in copies]) > 0


def differentiable(leaves: Sequence[Any]) -> list[int]:
    """The positions of the leaves that are differentiable."""
    return [i for i, leaf in enumerate(leaves) if kind(leaf) is Kind.DIFFERENTIABLE]


def read(leaf: Any) -> Any:
    """A variable that takes gradients as the tensor that the ordinary read gives; anything else as it is.

    In a graph nobody knows whether one that is not trained will be watched: it stays, so that a body can assign to it.
    """
    if isinstance(leaf, tf.IndexedSlices) and isinstance(leaf.values, _VARIABLES):
        return tf.IndexedSlices(read(leaf.values), leaf.indices, leaf.dense_shape)
    if not isinstance(leaf, _VARIABLES) or not _takes_gradient(leaf):
        return leaf
    return tf.convert_to_tensor(leaf) if leaf.trainable or private.executing_eagerly() else leaf


def tensors_in(gradients: Sequence[Any]) -> list[Any]:
    """The gradients that there are, as tensors."""
    return [tf.convert_to_tensor(g) for g in gradients if g is not None]


def outputs(leaves: Sequence[Any]) -> list[Any]:
    """What a body returned, with values as tensors; a Python number is one if nothing else was returned."""
    number = len(leaves) == 1 and isinstance(leaves[0], (float, complex))
    return [tf.convert_to_tensor(y) if number or _holds_numbers(y) else y for y in leaves]


def _holds_numbers(leaf: Any) -> bool:
    """Whether an output is a variable, or an array of NumPy of numbers that are not whole."""
    array = isinstance(leaf, (np.ndarray, np.generic))
    return isinstance(leaf, _VARIABLES) or (array and np.issubdtype(leaf.dtype, np.inexact))


def gradient_tensor(leaf: Any) -> Any:
    """The one tensor in which the gradient of a differentiable leaf lives."""
    if isinstance(leaf, tf.RaggedTensor):
        return leaf.flat_values
    return leaf.values if isinstance(leaf, (tf.IndexedSlices, tf.SparseTensor)) else leaf


def with_gradient_tensor(leaf: Any, tensor: Any) -> Any:
    """The same leaf around another tensor."""
    if isinstance(leaf, tf.RaggedTensor):
        return leaf.with_flat_values(tensor)
    if isinstance(leaf, tf.SparseTensor):
        return leaf.with_values(tensor)
    if isinstance(leaf, tf.IndexedSlices):
        return tf.IndexedSlices(tensor, leaf.indices, leaf.dense_shape)
    return leaf if isinstance(leaf, _VARIABLES) else tensor


def source(leaf: Any) -> Any:
    """The tensor towards which a call is recorded for a differentiable leaf; of a variable, a reading."""
    tensor = gradient_tensor(leaf)
    return tf.convert_to_tensor(tensor) if isinstance(tensor, _VARIABLES) else tensor


def handle_or_tensor(leaf: Any, tensor: Any) -> Any:
    """Towards what the gradient of a leaf is taken where a body reads it: of a variable, its handle."""
    return underlying(leaf).handle if isinstance(leaf, _VARIABLES) else tensor


def with_gradient_tensors(
    leaves: Sequence[Any], indices: Sequence[int], tensors: Sequence[Any]
) -> list[Any]:
    """The leaves, those at these positions around other tensors."""
    changed = list(leaves)
    for index, tensor in zip(indices, tensors, strict=True):
        changed[index] = with_gradient_tensor(changed[index], tensor)
    return changed


def distinct(tensors: Sequence[Any]) -> list[Any]:
    """The tensors, one that was passed twice as two of them, so that each argument has a gradient of its own."""
    counts = collections.Counter(id(t) for t in tensors)
    return [tf.identity(t) if counts[id(t)] > 1 else t for t in tensors]


def dense(gradient: Any) -> Any:
    """An upstream gradient as a rule gets it: sparse ones made dense, in every mode."""
    return tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient


def underlying(variable: Any) -> Any:
    """The TensorFlow variable behind a Keras variable, a reference or a variable."""
    if hasattr(variable, "deref"):
        variable = variable.deref()
    return private.value_of(variable) if isinstance(variable, keras.Variable) else variable


def same_variable(key: Any, variable: Any) -> bool:
    """Whether a key of a rule's result means this variable: a variable, a reference to one, or the end of a name."""
    if isinstance(key, str):
        return f"/{variable.name}".removesuffix(":0").endswith(f"/{key.removesuffix(':0')}")
    return underlying(key) is underlying(variable)


# The array operations over which the core projects gradients.


def spec_of(leaf: Any) -> Spec | None:
    """What to remember of a leaf; nothing of one that takes no gradient."""
    if type(leaf) is private.EagerTensor:
        return Spec(private.concrete_shape(leaf), leaf.dtype)
    if kind(leaf) is not Kind.DIFFERENTIABLE:
        return None
    tensor = leaf if isinstance(leaf, _VARIABLES) else gradient_tensor(leaf)
    static = tf.TensorShape(tensor.shape)
    dynamic = None if static.is_fully_defined() else _shape_when_run(tensor)
    form = next((form for form in _COMPOSITE if isinstance(leaf, form)), None)
    return Spec(_dims(static), tf.as_dtype(tensor.dtype).base_dtype, dynamic, form)


def _shape_when_run(tensor: Any) -> Any:
    """The shape as a tensor; in control flow a function that gives it, to be called in the backward pass.

    From there TensorFlow takes along whatever a loop has computed: XLA knows the shape of a tensor that was taken
    along, but not what a shape was that was taken along.
    """
    if private.executing_eagerly() or not private.is_in_control_flow(tensor.graph):
        return tf.shape(tensor)
    return functools.partial(tf.shape, tensor)


def fits(gradient: Any, spec: Spec) -> bool:
    """Whether a gradient is known to have the dtype and shape of its input."""
    if type(gradient) is private.EagerTensor:
        return private.concrete_shape(gradient) == spec.shape and gradient.dtype is spec.dtype
    if not isinstance(gradient, tf.Tensor) or spec.shape is None or None in spec.shape:
        return False
    return gradient.dtype == spec.dtype and _dims(gradient.shape) == spec.shape


def as_array(gradient: Any, spec: Spec) -> Any | None:
    """A gradient as a tensor of numbers or as IndexedSlices; `None` where it is neither."""
    if isinstance(gradient, tf.RaggedTensor):
        if spec.form is not tf.RaggedTensor:
            raise Mismatch("a RaggedTensor; wanted a tensor. Write gradient.to_tensor()")
        gradient = gradient.flat_values
    if isinstance(gradient, tf.SparseTensor):
        if spec.form is not tf.SparseTensor:
            raise Mismatch("a SparseTensor; wanted a tensor. Write tf.sparse.to_dense(gradient)")
        gradient = gradient.values
    if isinstance(gradient, tf.IndexedSlices) and spec.shape is not None:
        gradient = _checked_slices(gradient, spec.shape, spec)
    if isinstance(gradient, _VARIABLES):
        return tf.convert_to_tensor(gradient)
    if isinstance(gradient, (tf.Tensor, tf.IndexedSlices)):
        return None if gradient.dtype in _NOT_NUMBERS else gradient
    numeric = _is_numpy_number(gradient)
    return tf.convert_to_tensor(np.asarray(gradient), dtype_hint=spec.dtype) if numeric else None


def _checked_slices(slices: tf.IndexedSlices, wanted: Shape, spec: Spec) -> tf.IndexedSlices:
    """Slices of the input, as far as can be seen now; what they are slices of is the input, whatever they say."""
    values, indices, whole = slices.values, slices.indices, slices.dense_shape
    came = _dims(values.shape)
    if came is not None and (not wanted or not compatible((None, *came[1:]), (None, *wanted[1:]))):
        rows = f"rows {shape_text(wanted[1:])}" if wanted else "a gradient []"
        raise Mismatch(f"IndexedSlices of rows {shape_text(came[1:])}; wanted {rows}")
    counts = _dims(indices.shape)
    if not indices.dtype.is_integer or (
        counts is not None and not compatible(counts, (came or counts)[:1])
    ):
        raise Mismatch(
            f"IndexedSlices with indices {indices.dtype.name}{shape_text(indices.shape)}; wanted whole numbers, "
            f"one for each of the slices {shape_text(values.shape)}"
        )
    known = None if whole is None else tf.get_static_value(whole)
    if known is not None and not compatible(tuple(known.tolist()), wanted):
        raise Mismatch(
            f"IndexedSlices of {shape_text(known)}; wanted those of {shape_text(wanted)}"
        )
    read = tf.get_static_value(indices) if wanted[0] is not None else None
    if read is not None and read.size and not 0 <= read.min() <= read.max() < wanted[0]:
        raise Mismatch(
            f"IndexedSlices with the indices {read.min()} to {read.max()}; wanted those of {wanted[0]} rows"
        )
    if known is not None and None not in wanted:
        return slices
    return tf.IndexedSlices(values, indices, tf.cast(_run_time_shape(spec), indices.dtype))


def _is_numpy_number(value: Any) -> bool:
    """A Python number, or an array of numbers: no flags, dates, records or masks."""
    if isinstance(value, (np.ndarray, np.generic)):
        plain = value.dtype.names is None and not isinstance(value, np.ma.MaskedArray)
        return plain and (value.dtype.kind in "iufc" or value.dtype.name == "bfloat16")
    return not isinstance(value, bool) and isinstance(value, numbers.Number)


def shape(array: Any) -> Shape | None:
    """The shape as far as it is known; of IndexedSlices, that of the tensor they stand for."""
    if not isinstance(array, tf.IndexedSlices):
        return _dims(array.shape)
    rows = _dims(array.values.shape)
    return None if rows is None else (None, *rows[1:])


def _dims(static: Any) -> Shape | None:
    return None if static.rank is None else tuple(static.as_list())


def cast(array: Any, dtype: Any) -> Any:
    """The array in this dtype, of a complex one for a real dtype the real part."""
    if array.dtype == dtype:
        return array
    if isinstance(array, tf.IndexedSlices):
        return tf.IndexedSlices(cast(array.values, dtype), array.indices, array.dense_shape)
    if array.dtype.is_complex and not dtype.is_complex:
        array = tf.math.real(array)
    return tf.cast(array, dtype)


def sum_to(array: Any, axes: tuple[int, ...], shape: Shape) -> Any:
    """The sum over these axes, in this shape."""
    return tf.reshape(tf.reduce_sum(array, axes), shape)


def sum_to_dynamic(array: Any, spec: Spec, error: str) -> Any:
    """Sum over broadcast axes when the program runs, or fail with the error's words."""
    if isinstance(array, tf.IndexedSlices):
        return _slices_inside(array, error)  # their rows fit, and broadcasting makes no slices
    wanted = tf.convert_to_tensor(_run_time_shape(spec), tf.int32)
    # XLA drops assertions; there the last ones fail when the gradient is not one of its input, and tell their names.
    with tf.name_scope(_as_name(error)):
        with tf.control_dependencies([_assert_fits(tf.shape(array), wanted, error)]):
            _, axes = private.broadcast_gradient_args(tf.shape(array), wanted)
        fitted = tf.reshape(tf.reduce_sum(array, axes), wanted)
    fitted.set_shape(spec.shape)
    return fitted


def _slices_inside(slices: tf.IndexedSlices, error: str) -> tf.IndexedSlices:
    """The slices, if their indices are inside the input when the program runs; what is known was checked before."""
    whole: Any = slices.dense_shape
    if all(tf.get_static_value(tensor) is not None for tensor in (slices.indices, whole)):
        return slices
    rows = tf.cast(whole[0], slices.indices.dtype)
    inside = tf.reduce_all((slices.indices >= 0) & (slices.indices < rows))
    words = error.replace(_OTHER_SHAPE, "IndexedSlices with indices outside of its rows")
    with tf.control_dependencies([tf.debugging.Assert(inside, [words, slices.indices, rows])]):
        return tf.IndexedSlices(tf.identity(slices.values), slices.indices, slices.dense_shape)


def _as_name(error: str) -> str:
    """An error's words as the name of an operation: `rule_halves_file.py_line_3_of_f`."""
    words = re.sub(r":(\d+)", r" line \1", re.split(r" returned|, has", error)[0])
    return re.sub(r"[^A-Za-z0-9_.\-/]+", "_", words).strip("_/")


def require_shape(array: Any, spec: Spec, error: str) -> Any:
    """The array, if it has the shape of the spec when the program runs; else it fails with the error's words."""
    came, wanted = tf.shape(array), tf.convert_to_tensor(_run_time_shape(spec), tf.int32)
    least = tf.minimum(tf.size(came), tf.size(wanted))
    same = tf.reduce_all(came[:least] == wanted[:least]) & (tf.size(came) == tf.size(wanted))
    return _reshape_if(same, array, came, array.shape, error, wanted)


def _reshape_if(right: Any, array: Any, shape: Any, static: Any, error: str, wanted: Any) -> Any:
    """The array in this shape, if that is right when the program runs; else it fails with the error's words."""
    with (
        tf.name_scope(_as_name(error)),
        tf.control_dependencies([tf.debugging.Assert(right, [error, tf.shape(array), wanted])]),
    ):
        # XLA drops assertions; there no entries are asked for out of some, which fails, and tells the name.
        fitted = tf.reshape(array, tf.where(right, shape, 0))
    fitted.set_shape(static)
    return fitted


def _assert_fits(came: Any, wanted: Any, error: str) -> Any:
    """An op that fails, in our words, when broadcasting cannot have made the one of the other."""
    lacking = tf.size(came) - tf.size(wanted)
    padded = tf.concat([tf.ones([tf.maximum(lacking, 0)], tf.int32), wanted], 0)[: tf.size(came)]
    same = tf.reduce_all(tf.logical_or(tf.equal(padded, came), tf.equal(padded, 1)))
    return tf.debugging.Assert(tf.logical_and(lacking >= 0, same), [error, came, wanted])


def zeros(spec: Spec) -> Any:
    """Zeros of this spec."""
    return tf.zeros(_run_time_shape(spec), spec.dtype)


def _run_time_shape(spec: Spec) -> Any:
    shape = spec.shape if spec.dynamic is None else spec.dynamic
    return shape() if callable(shape) else shape


def multiply(upstream: Any, partial: Any, new_axes: tuple[int, ...]) -> Any:
    """Upstream, with new axes that are these in the result, times an array."""
    for axis in new_axes:
        upstream = tf.expand_dims(upstream, axis)
    if partial.dtype.is_complex and not upstream.dtype.is_complex:
        wide = tf.complex128 if upstream.dtype == tf.float64 else tf.complex64
        upstream = tf.cast(upstream, wide)
    # TensorFlow's gradients of complex numbers are conjugates: dx = dy · conj(∂y/∂x).
    return upstream * tf.math.conj(tf.cast(partial, upstream.dtype))


def multiply_dynamic(
    upstream: Any, partial: Any, choices: Sequence[tuple[int, ...]], error: str
) -> Any:
    """The same with the only choice of new axes that fits when the program runs.

    A partial derivative of lower rank must broadcast to the upstream.
    """
    ours, theirs = tf.shape(upstream), tf.shape(partial)
    lacking = upstream.shape.rank - partial.shape.rank
    if lacking > 0:
        right = tf.reduce_all((theirs == ours[lacking:]) | (theirs == 1))
        return multiply(
            _reshape_if(right, upstream, ours, upstream.shape, error, theirs), partial, ()
        )
    spreads = tf.stack([_with_ones(ours, axes, partial.shape.rank) for axes in choices])
    fits = tf.reduce_all((spreads == theirs) | (spreads == 1), 1)
    chosen = spreads[tf.argmax(tf.cast(fits, tf.int32))]
    # Where others fit as well, they must come to the same.
    same = tf.reduce_all(tf.reduce_all(spreads == chosen, 1) | ~fits) & tf.reduce_any(fits)
    rank = tf.TensorShape([None] * partial.shape.rank)
    return multiply(_reshape_if(same, upstream, chosen, rank, error, theirs), partial, ())


def _with_ones(shape: Any, axes: tuple[int, ...], rank: int) -> Any:
    """A shape with ones put in so that they are at these axes."""
    sizes = iter(tf.unstack(shape, rank - len(axes)))
    return tf.stack([1 if axis in axes else next(sizes) for axis in range(rank)])
