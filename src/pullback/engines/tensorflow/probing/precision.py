"""The precision in which a function runs: that of its arguments, or a higher one."""

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

Lift = Callable[[tf.DType], tf.DType]
# The distance from one to the next number.
_EPSILON = {
    tf.float64: 2.0**-52,
    tf.float32: 2.0**-23,
    tf.float16: 2.0**-10,
    tf.bfloat16: 2.0**-7,
}


def native(dtype: tf.DType) -> tf.DType:
    """The dtype as it is."""
    return dtype


def double(dtype: tf.DType) -> tf.DType:
    """float64 for real numbers, complex128 for complex ones."""
    if dtype.is_complex:
        return tf.complex128
    return tf.float64 if dtype.is_floating else dtype


def single(dtype: tf.DType) -> tf.DType:
    """At least float32."""
    return tf.float32 if dtype in (tf.float16, tf.bfloat16) else dtype


def lifted(tensor: Any, lift: Lift) -> Any:
    """A tensor, array or variable as a tensor of the lifted dtype."""
    return tf.cast(tensor, lift(tf.as_dtype(tensor.dtype)))


def coarsest(dtypes: Iterable[Any]) -> float:
    """The rounding unit of the shortest of these formats."""
    return max(_EPSILON[tf.as_dtype(dtype).real_dtype] for dtype in dtypes)


def format_name(epsilon: float) -> str:
    """The format that has this rounding unit."""
    return next(dtype.name for dtype, unit in _EPSILON.items() if unit == epsilon)
