"""The array operations over which the core projects gradients."""

from __future__ import annotations

import functools
import numbers
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.composite import (
    COMPOSITE,
    Places,
    brought_into_place,
    in_same_places,
    places_of,
    with_numbers,
)
from pullback.engines.tensorflow.values import VARIABLES, gradient_tensor, kind
from pullback.errors import Mismatch
from pullback.extend import Kind, Shape, Spec, compatible, shape_text

_OTHER_SHAPE = "a gradient of another shape; it and the input have the shapes"
_NOT_NUMBERS = (tf.string, tf.bool, tf.resource, tf.variant)


def spec_of(leaf: Any) -> Spec | None:
    """What to remember of a leaf; nothing of one that takes no gradient."""
    if type(leaf) is private.EagerTensor:
        return Spec(private.concrete_shape(leaf), leaf.dtype)
    if kind(leaf) is not Kind.DIFFERENTIABLE:
        return None
    tensor = leaf if isinstance(leaf, VARIABLES) else gradient_tensor(leaf)
    static = tf.TensorShape(tensor.shape)
    dynamic = None if static.is_fully_defined() else _shape_when_run(tensor)
    return Spec(_dims(static), tf.as_dtype(tensor.dtype).base_dtype, dynamic, places_of(leaf))


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
    """A gradient as a tensor of numbers, or as a composite value; `None` where it is neither."""
    if spec.form is not None and isinstance(gradient, spec.form.kind):
        gradient = _in_place(gradient, spec.form)
    elif isinstance(gradient, tf.IndexedSlices):
        if spec.form is not None:
            raise Mismatch(f"IndexedSlices; wanted a {spec.form.kind.__name__} {spec.form.way_out}")
        gradient = gradient if spec.shape is None else _checked_slices(gradient, spec.shape, spec)
    elif isinstance(gradient, COMPOSITE):
        dense = (
            "gradient.to_tensor()"
            if isinstance(gradient, tf.RaggedTensor)
            else "tf.sparse.to_dense(gradient)"
        )
        wanted = "a tensor. Write " + dense if spec.form is None else f"a {spec.form.kind.__name__}"
        raise Mismatch(f"a {type(gradient).__name__}; wanted {wanted}")
    if isinstance(gradient, VARIABLES):
        gradient = tf.convert_to_tensor(gradient)
    if not isinstance(gradient, (tf.Tensor, *COMPOSITE)):
        numeric = _is_numpy_number(gradient)
        gradient = (
            tf.convert_to_tensor(np.asarray(gradient), dtype_hint=spec.dtype) if numeric else None
        )
    elif gradient.dtype in _NOT_NUMBERS:
        return None
    if spec.form is not None and isinstance(gradient, tf.Tensor):
        _require_numbers(gradient, spec)
    return gradient


def _in_place(gradient: Any, wanted: Places) -> Any:
    """The numbers of a composite gradient of the right class; itself where only a run will tell to what they belong."""
    right, numbers = in_same_places(gradient, wanted), gradient_tensor(gradient)
    if right is None:
        numbers, found = brought_into_place(gradient, wanted)
        known = tf.get_static_value(found) if tf.is_tensor(found) else found
        if known is None:
            return gradient
        right = bool(known)
    if not right:
        raise Mismatch(f"a {wanted.elsewhere}; wanted one {wanted.way_out}")
    return numbers


def _require_numbers(array: Any, spec: Spec) -> None:
    """Refuse a tensor for a composite value unless it has the shape of its numbers: it may have been meant densely."""
    came = _dims(array.shape)
    if came is not None and spec.shape is not None and not compatible(came, spec.shape):
        name = spec.form.kind.__name__
        raise Mismatch(f"a tensor {shape_text(came)}; wanted a {name} {spec.form.way_out}")


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
    """The shape as far as it is known; of IndexedSlices, that of what they stand for; else that of the numbers."""
    if not isinstance(array, COMPOSITE):
        return _dims(array.shape)
    rows = _dims(gradient_tensor(array).shape)
    return None if rows is None else (None, *rows[1:])


def _dims(static: Any) -> Shape | None:
    return None if static.rank is None else tuple(static.as_list())


def cast(array: Any, dtype: Any) -> Any:
    """The array in this dtype, of a complex one for a real dtype the real part."""
    if array.dtype == dtype:
        return array
    if isinstance(array, COMPOSITE):
        return with_numbers(array, cast(gradient_tensor(array), dtype))
    if array.dtype.is_complex and not dtype.is_complex:
        array = tf.math.real(array)
    return tf.cast(array, dtype)


def sum_to(array: Any, axes: tuple[int, ...], shape: Shape) -> Any:
    """The sum over these axes, in this shape."""
    return tf.reshape(tf.reduce_sum(array, axes), shape)


def sum_to_dynamic(array: Any, spec: Spec, error: str) -> Any:
    """Sum over broadcast axes when the program runs, or fail with the error's words."""
    if spec.form is not None:
        return _numbers_when_run(array, spec, error)
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


def _numbers_when_run(array: Any, spec: Spec, error: str) -> Any:
    """The numbers for a composite input, if they belong to its places when the program runs."""
    if isinstance(array, COMPOSITE):
        words = error.replace(
            _OTHER_SHAPE, f"a {spec.form.elsewhere}; wanted one {spec.form.way_out}"
        )
        array, right = brought_into_place(array, spec.form)
        with tf.control_dependencies([tf.debugging.Assert(right, [words])]):
            # XLA drops assertions, and can fail by shapes alone: what it cannot refuse is no number.
            array = tf.where(right, array, tf.cast(float("nan"), array.dtype))
    return require_shape(array, spec, error)


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
        # The identity stays where TensorFlow drops a needless reshape with the assertion. XLA drops assertions; there
        # no entries are asked for out of some, which fails, and tells the name.
        fitted = tf.reshape(tf.identity(array), tf.where(right, shape, 0))
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
