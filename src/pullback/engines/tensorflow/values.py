"""TensorFlow values: what carries a gradient, what to remember of an input, how a gradient is fitted to it.

Every differentiable leaf has exactly one tensor in which its gradient lives, its core: a tensor itself, the flat values
of a RaggedTensor, the values of IndexedSlices.
"""

from __future__ import annotations

import collections
import numbers
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from pullback._engine import Kind
from pullback._project import Shape, describe, shape_text, unbroadcast_axes
from pullback.engines.tensorflow import tf_private as private
from pullback.errors import UnsupportedError

Blame = Callable[[str], Exception]
EagerTensor = private.EagerTensor


class Like(NamedTuple):
    """What is remembered of an input in order to project a gradient to it."""

    shape: Shape | None
    dtype: tf.DType
    dynamic: Any  # the shape as a tensor where it is not known before the graph runs


_FLOWING = frozenset(
    d.as_datatype_enum
    for d in (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128)
)


_NOT_NUMBERS = (tf.string, tf.bool, tf.resource, tf.variant)


def kind(leaf: Any) -> Kind:
    """How a leaf takes part in differentiation."""
    if type(leaf) is EagerTensor:
        return Kind.DIFFERENTIABLE if private.data_type(leaf) in _FLOWING else Kind.TENSOR
    if leaf is None:
        return Kind.STATIC
    if isinstance(leaf, (tf.Variable, keras.Variable)):
        return Kind.DIFFERENTIABLE if leaf.trainable and flows(leaf) else Kind.TENSOR
    if isinstance(leaf, tf.SparseTensor):
        return Kind.TENSOR
    if isinstance(leaf, (tf.Tensor, tf.RaggedTensor, tf.IndexedSlices, keras.KerasTensor)):
        return Kind.DIFFERENTIABLE if flows(leaf) else Kind.TENSOR
    if isinstance(leaf, (np.ndarray, np.generic, numbers.Number)) and not isinstance(leaf, bool):
        return Kind.NUMBER
    if isinstance(leaf, tf.experimental.ExtensionType):
        raise UnsupportedError(
            f"an ExtensionType ({type(leaf).__name__}) cannot be an argument or an output of a "
            "function with its own gradient. Pass its tensors, in a dict or a dataclass."
        )
    return Kind.STATIC


def flows(leaf: Any) -> bool:
    """Whether gradients flow into values of this dtype."""
    return tf.as_dtype(leaf.dtype).as_datatype_enum in _FLOWING


def read(leaf: Any) -> Any:
    """A trainable variable as the tensor that the ordinary read gives; anything else as it is."""
    if isinstance(leaf, (tf.Variable, keras.Variable)) and leaf.trainable:
        return tf.convert_to_tensor(leaf)
    return leaf


def outputs(leaves: Sequence[Any]) -> list[Any]:
    """What a body returned, with values as tensors; a Python number is one if nothing else was returned."""
    if len(leaves) == 1 and isinstance(leaves[0], (float, complex)):
        return [tf.convert_to_tensor(leaves[0])]
    return [_output(leaf) for leaf in leaves]


def _output(leaf: Any) -> Any:
    """An output as a tensor, where it is a NumPy array or a variable; anything else as it is."""
    if type(leaf) is EagerTensor:
        return leaf
    inexact = isinstance(leaf, (np.ndarray, np.generic)) and np.issubdtype(leaf.dtype, np.inexact)
    is_value = inexact or isinstance(leaf, (tf.Variable, keras.Variable))
    return tf.convert_to_tensor(leaf) if is_value else leaf


def core(leaf: Any) -> Any:
    """The one tensor in which the gradient of a differentiable leaf lives."""
    if type(leaf) is EagerTensor:
        return leaf
    if isinstance(leaf, tf.RaggedTensor):
        return leaf.flat_values
    return leaf.values if isinstance(leaf, tf.IndexedSlices) else leaf


def with_core(leaf: Any, tensor: Any) -> Any:
    """The same leaf around another core."""
    if type(leaf) is EagerTensor:
        return tensor
    if isinstance(leaf, tf.RaggedTensor):
        return leaf.with_flat_values(tensor)
    if isinstance(leaf, tf.IndexedSlices):
        return tf.IndexedSlices(tensor, leaf.indices, leaf.dense_shape)
    return tensor


def distinct(tensors: list[Any]) -> list[Any]:
    """The tensors, with one that was passed twice told apart, so that each argument has a gradient of its own."""
    counts = collections.Counter(id(t) for t in tensors)
    return [tf.identity(t) if counts[id(t)] > 1 else t for t in tensors]


def dense(gradient: Any) -> Any:
    """An upstream gradient as a rule gets it: sparse ones made dense, in every mode."""
    if type(gradient) is EagerTensor or not isinstance(gradient, tf.IndexedSlices):
        return gradient
    return tf.convert_to_tensor(gradient)


def like(leaf: Any) -> Like | None:
    """What to remember of an input; nothing for one that takes no gradient."""
    if type(leaf) is EagerTensor:
        return Like(private.concrete_shape(leaf), leaf.dtype, None)
    if kind(leaf) is not Kind.DIFFERENTIABLE:
        return None
    tensor = core(leaf)
    shape = tf.TensorShape(tensor.shape)
    known = shape.is_fully_defined()
    dims = None if shape.rank is None else tuple(shape.as_list())
    return Like(dims, tf.as_dtype(tensor.dtype), None if known else tf.shape(tensor))


def fits(gradient: Any, wanted: Like) -> bool:
    """Whether a concrete gradient has the dtype and shape of its input already."""
    return (
        type(gradient) is EagerTensor
        and private.concrete_shape(gradient) == wanted.shape
        and gradient.dtype is wanted.dtype
    )


def project(gradient: Any, wanted: Like, blame: Blame) -> Any:
    """The gradient in the dtype and shape of its input, or an error."""
    if isinstance(gradient, tf.IndexedSlices):
        return _project_slices(gradient, wanted, blame)
    tensor = _cast(_tensor(gradient, wanted, blame), wanted, blame)
    came = _static_shape(tensor)
    if came is None or wanted.shape is None or None in (*came, *wanted.shape):
        return _project_dynamic(tensor, came, wanted, blame)
    axes = unbroadcast_axes(came, wanted.shape)
    if axes is None:
        raise blame(_shape_reason(tensor, wanted))
    return tf.reshape(tf.reduce_sum(tensor, axes), wanted.shape) if axes else tensor


def multiply(upstream: Any, partial: Any, blame: Blame) -> Any:
    """Upstream times partial; axes that the function reduced stand behind the upstream's own."""
    partial = _partial(partial, upstream.dtype, blame)
    ours, theirs = _static_shape(upstream), _static_shape(partial)
    if ours is None or theirs is None:
        raise blame("works on tensors of unknown rank; give them a rank with tf.ensure_shape")
    behind = max(len(theirs) - len(ours), 0)
    if not (_compatible(theirs[: len(ours)], ours) if behind else _broadcast(theirs, ours)):
        raise blame(
            f"has shape {shape_text(theirs)} where the output has {shape_text(ours)}; wanted the "
            "shape of the output, or of the parameter when the function reduces its last axes"
        )
    for _ in range(behind):
        upstream = tf.expand_dims(upstream, -1)
    return upstream * partial


def _partial(partial: Any, dtype: tf.DType, blame: Blame) -> Any:
    try:
        tensor = tf.convert_to_tensor(partial)
    except (TypeError, ValueError):
        tensor = None
    if tensor is None or tensor.dtype in _NOT_NUMBERS:
        raise blame(f"returned {describe(partial)}; wanted a tensor, ∂out/∂parameter")
    return tf.cast(tensor, dtype)


def underlying(variable: Any) -> Any:
    """The TensorFlow variable behind a Keras variable, a reference or a variable."""
    if hasattr(variable, "deref"):
        variable = variable.deref()
    return (
        getattr(variable, "_value", variable) if isinstance(variable, keras.Variable) else variable
    )


def same_variable(key: Any, variable: Any) -> bool:
    """Whether a key of a rule's result means this variable."""
    return underlying(key) is underlying(variable)


def _tensor(gradient: Any, wanted: Like, blame: Blame) -> Any:
    if isinstance(gradient, tf.RaggedTensor):
        return gradient.flat_values
    if isinstance(gradient, tf.Tensor):
        return gradient
    if isinstance(gradient, tf.SparseTensor):
        raise blame("a SparseTensor; wanted a tensor. Write tf.sparse.to_dense(gradient)")
    try:
        if isinstance(gradient, (bool, str, bytes)):
            raise TypeError
        is_variable = isinstance(gradient, (tf.Variable, keras.Variable))
        return tf.convert_to_tensor(
            gradient if is_variable else np.asarray(gradient), dtype_hint=wanted.dtype
        )
    except (TypeError, ValueError):
        raise blame(f"{describe(gradient)}; wanted {_wanted_text(wanted)} or None") from None


def _cast(tensor: Any, wanted: Like, blame: Blame) -> Any:
    if tensor.dtype == wanted.dtype:
        return tensor
    if tensor.dtype in _NOT_NUMBERS:
        raise blame(f"{describe(tensor)}; wanted {_wanted_text(wanted)} or None")
    if tensor.dtype.is_complex and not wanted.dtype.is_complex:
        tensor = tf.math.real(tensor)
    return tf.cast(tensor, wanted.dtype)


def _project_slices(gradient: Any, wanted: Like, blame: Blame) -> Any:
    values = _cast(gradient.values, wanted, blame)
    came, shape = _static_shape(values), wanted.shape
    if came is not None and shape is not None and not _compatible(came[1:], shape[1:]):
        raise blame(
            f"IndexedSlices of rows {shape_text(came[1:])}; wanted rows {shape_text(shape[1:])}"
        )
    return (
        gradient
        if values is gradient.values
        else tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    )


def _project_dynamic(tensor: Any, came: Shape | None, wanted: Like, blame: Blame) -> Any:
    if came is not None and wanted.shape is not None and not _may_fit(came, wanted.shape):
        raise blame(_shape_reason(tensor, wanted))
    shape = tf.constant(wanted.shape, tf.int32) if wanted.dynamic is None else wanted.dynamic
    with tf.control_dependencies([_assert_fits(tf.shape(tensor), shape, blame)]):
        _, axes = private.broadcast_gradient_args(tf.shape(tensor), shape)
    # XLA drops assertions; there this pair fails when the gradient is not one of its input.
    fitted = tf.reshape(tf.reduce_sum(tensor, axes), shape)
    fitted.set_shape(wanted.shape)
    return fitted


def _assert_fits(came: Any, wanted: Any, blame: Blame) -> Any:
    """An op that fails, in our words, when broadcasting cannot have made the one of the other."""
    lacking = tf.size(came) - tf.size(wanted)
    padded = tf.concat([tf.ones([tf.maximum(lacking, 0)], tf.int32), wanted], 0)[: tf.size(came)]
    same = tf.reduce_all(tf.logical_or(tf.equal(padded, came), tf.equal(padded, 1)))
    reason = blame("a gradient of another shape; it and the input have the shapes")
    return tf.debugging.Assert(tf.logical_and(lacking >= 0, same), [str(reason), came, wanted])


def project_tangent(given: Any, output: Any, blame: Blame) -> Any:
    """A tangent in the dtype and shape of its output, or an error."""
    wanted = like(output)
    tensor = tf.zeros_like(output) if given is None else _tensor(given, wanted, blame)
    came = _static_shape(tensor)
    if came is not None and wanted.shape is not None and not _compatible(came, wanted.shape):
        raise blame(f"{describe(tensor)}; wanted {_wanted_text(wanted)}")
    return _cast(tensor, wanted, blame)


def _may_fit(came: Shape, wanted: Shape) -> bool:
    tail = came[len(came) - len(wanted) :]
    return len(came) >= len(wanted) and all(
        w in (None, 1, c) or c is None for c, w in zip(tail, wanted, strict=True)
    )


def _compatible(came: Shape, wanted: Shape) -> bool:
    return len(came) == len(wanted) and all(
        c is None or w is None or c == w for c, w in zip(came, wanted, strict=True)
    )


def _broadcast(came: Shape, wanted: Shape) -> bool:
    tail = zip(reversed(came), reversed(wanted), strict=False)
    return all(c == w or None in (c, w) or 1 in (c, w) for c, w in tail)


def _static_shape(tensor: Any) -> Shape | None:
    return None if tensor.shape.rank is None else tuple(tensor.shape.as_list())


def _wanted_text(wanted: Like) -> str:
    shape = "[unknown rank]" if wanted.shape is None else shape_text(wanted.shape)
    return f"a gradient {wanted.dtype.name}{shape}"


def _shape_reason(tensor: Any, wanted: Like) -> str:
    return (
        f"{describe(tensor)}; wanted {_wanted_text(wanted)} (or one that broadcasting made larger, which is summed). "
        "A smaller gradient is not broadcast for you: multiply by the upstream, or by tf.ones_like(input)"
    )
