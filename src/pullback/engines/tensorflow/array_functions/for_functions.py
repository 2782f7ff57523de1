"""Arrays as ready-made functions compute with them: NumPy's names where it has them."""

from __future__ import annotations

import math
from numbers import Number
from typing import Any

import keras
import numpy as np
import tensorflow as tf

exp = tf.exp
maximum = tf.maximum
magnitude = tf.abs
square = tf.square
where = tf.where
zeros_like = tf.zeros_like
ones_like = tf.ones_like
mean = tf.reduce_mean
expm1 = tf.math.expm1
log = tf.math.log
log1p = tf.math.log1p
sqrt = tf.sqrt
power = tf.pow
arctan2 = tf.atan2
isfinite = tf.math.is_finite
isinf = tf.math.is_inf
sum = tf.reduce_sum  # noqa: A001  # NumPy's name
max = tf.reduce_max  # noqa: A001
all = tf.reduce_all  # noqa: A001
any = tf.reduce_any  # noqa: A001
expand_dims = tf.expand_dims
stop_gradient = tf.stop_gradient
identity = tf.identity
cond = tf.cond
cumprod = tf.math.cumprod
divide_or_zero = tf.math.divide_no_nan  # zero where the divisor is
times_or_zero = tf.math.multiply_no_nan  # zero where the second factor is, whatever the first is


def is_array(value: Any) -> bool:
    """Whether a value is the framework's own, so that its dtype is meant."""
    return isinstance(value, (tf.Tensor, tf.Variable, keras.Variable))


def asarray(value: Any, dtype: Any = None) -> Any:
    """A value as a tensor; what is not the framework's own is of the dtype, and Python's numbers are float32."""
    if is_array(value) or (dtype is None and hasattr(value, "dtype")):
        return tf.convert_to_tensor(value)
    if dtype is not None and not [v for v in tf.nest.flatten(value) if not isinstance(v, Number)]:
        value = np.asarray(
            value
        )  # with all digits, of which a tensor of Python's numbers has those of float32
    return tf.cast(value, tf.float32 if dtype is None else dtype)


def packed(values: Any) -> Any:
    """A list of numbers or arrays as one array; numbers alone are float32, or int32 where all are whole."""
    return tf.convert_to_tensor(values)


def astype(array: Any, dtype: Any) -> Any:
    """A value as a tensor of a dtype."""
    return tf.cast(array, dtype)


def rank_of(array: Any) -> int | None:
    """The number of axes, if it is known."""
    return array.shape.rank


def is_numeric(value: Any) -> bool:
    """Whether a value is made of numbers, or of booleans."""
    dtype = tf.convert_to_tensor(value).dtype
    return dtype.is_floating or dtype.is_integer or dtype.is_bool


def broadcasts_to(array: Any, other: Any) -> bool:
    """Whether an array can be repeated to have the shape of another one, as far as is known."""
    try:
        return tf.broadcast_static_shape(array.shape, other.shape).is_compatible_with(other.shape)
    except ValueError:
        return False


def kind_of(array: Any) -> str:
    """What the entries are: `floating`, `complex` or something else."""
    dtype = array.dtype
    return "floating" if dtype.is_floating else "complex" if dtype.is_complex else "other"


def wide(array: Any) -> Any:
    """The same in float32 at least: what has few digits is computed with more of them."""
    return tf.cast(array, tf.float32) if array.dtype in (tf.float16, tf.bfloat16) else array


def widest(array: Any) -> Any:
    """The same in float64, where sums of what is known to all digits of float32 may cancel."""
    return tf.cast(array, tf.float64)


def limits(array: Any) -> Any:
    """NumPy's `finfo` of a dtype of four bytes or more."""
    return np.finfo(array.dtype.as_numpy_dtype)


def all_between(array: Any, low: float, high: float) -> Any:
    """Whether all entries are above one number and no larger than another one; NaN is not."""
    if tf.executing_eagerly():
        entries = array.numpy()  # a fraction of the time of four operations
        return bool(((entries > low) & (entries <= high)).all())
    return tf.reduce_all((array > low) & (array <= high))


def power_of_two_below(x: Any) -> Any:
    """The largest power of two that a positive number is at least as large as, to divide by without rounding."""
    exponent = tf.floor(tf.math.log(x) / tf.cast(math.log(2.0), x.dtype))
    limits_of_x = limits(x)
    low, high = limits_of_x.minexp, limits_of_x.maxexp - 1
    return tf.pow(tf.cast(2.0, x.dtype), tf.clip_by_value(exponent, float(low), float(high)))


def size(array: Any, axes: tuple[int, ...]) -> Any:
    """The number of entries along these axes, in the dtype of the array."""
    known = [array.shape[axis] for axis in axes]
    if None not in known:
        return tf.constant(math.prod(known), array.dtype)
    return tf.cast(tf.reduce_prod(tf.gather(tf.shape(array), list(axes))), array.dtype)


def squeeze(array: Any, axes: tuple[int, ...]) -> Any:
    """The array without these axes of size one."""
    return tf.squeeze(array, axes) if axes else array


def move_last(array: Any, axis: int, *, back: bool = False) -> Any:
    """The array with an axis moved to the end, or back from there."""
    rank = array.shape.rank
    if axis % rank == rank - 1:
        return array
    order = [a for a in range(rank) if a != axis % rank] + [axis % rank]
    return tf.transpose(array, list(np.argsort(order)) if back else order)


def sparse_cross_entropy(labels: Any, shifted: Any, parts: Any) -> tuple[Any, Any]:
    """The loss of each row and softmax less the label's one-hot vector, of logits below the largest and e to these.

    Where the label has nearly all of the probability, the loss and the entry of the label are differences of nearly
    equal numbers: so both come from the sum of the other entries.
    """
    flat = tf.reshape(labels, [-1])
    shifted, rows = (tf.reshape(a, [tf.size(flat), tf.shape(parts)[-1]]) for a in (shifted, parts))
    places = tf.stack([tf.range(tf.size(flat)), tf.cast(flat, tf.int32)], axis=-1)
    chosen = tf.gather_nd(rows, places)
    rows = tf.tensor_scatter_nd_update(rows, places, tf.zeros_like(chosen))
    others = tf.reduce_sum(rows, -1)
    whole = others + chosen
    slopes = tf.tensor_scatter_nd_update(rows, places, -others) / whole[:, None]
    far = chosen < others * limits(others).eps
    near = tf.math.log1p(others / tf.where(far, tf.ones_like(chosen), chosen))
    loss = tf.where(far, tf.math.log(whole) - tf.gather_nd(shifted, places), near)
    return tf.reshape(loss, tf.shape(labels)), tf.reshape(slopes, tf.shape(parts))


def sparse_log_loss(labels: Any, probabilities: Any) -> Any:
    """Minus the logarithm of the label's probability."""
    return -tf.math.log(tf.gather(probabilities, labels, batch_dims=len(labels.shape), axis=-1))


def one_hot(labels: Any, like: Any) -> Any:
    """1 in the place of each label, else 0, in an array like another one."""
    return tf.one_hot(labels, tf.shape(like)[-1], dtype=like.dtype)


def class_numbers(labels: Any) -> Any:
    """Labels as whole numbers; `None` if they are no numbers. Keras hands them on as floating-point numbers."""
    labels = tf.convert_to_tensor(labels)
    if not (labels.dtype.is_integer or labels.dtype.is_floating):
        return None
    return labels if labels.dtype in (tf.int32, tf.int64) else tf.cast(labels, tf.int64)


def as_condition(condition: Any) -> Any:
    """Booleans as a tensor; `None` if they are none."""
    condition = tf.convert_to_tensor(condition)
    return condition if condition.dtype == tf.bool else None


def an_entry(array: Any, condition: Any) -> Any:
    """One of the entries for which a condition holds; any, if there is none."""
    flat = tf.reshape(array, [-1])
    chosen = tf.reshape(tf.broadcast_to(condition, tf.shape(array)), [-1])
    return tf.gather(flat, tf.argmax(tf.cast(chosen, tf.int32)))


def shifted(array: Any, axis: int, by: Any, reverse: bool, fill: float = 0.0) -> Any:
    """Entries moved towards the start of an axis, or towards its end, with zeros or another number behind them."""
    length = tf.shape(array)[axis]
    by = tf.minimum(by, length)
    before = [0] * array.shape.rank
    start, size = list(before), [-1] * array.shape.rank
    start[axis] = tf.constant(0) if reverse else by
    size[axis] = length - by
    kept = tf.slice(array, start, size)
    pads = [[0, 0] for _ in before]
    pads[axis] = [by, 0] if reverse else [0, by]
    moved = tf.pad(kept, pads)
    if fill:
        # Padding with another number than 0 loses the number in `tf.vectorized_map`.
        moved += fill * (1.0 - tf.pad(tf.ones_like(kept), pads))
    return tf.ensure_shape(moved, array.shape)


def linear_recurrence(factors: Any, terms: Any, axis: int, reverse: bool) -> Any:
    """S[k] = terms[k] + factors[k] · S[k+1] along an axis, or with k−1 for k+1, in log₂ n steps of multiplications."""

    def doubled(factors: Any, terms: Any, by: Any) -> tuple[Any, Any]:
        added = terms + factors * shifted(terms, axis, by, reverse)
        return factors * shifted(factors, axis, by, reverse), added

    return _by_doubling(doubled, (factors, terms), axis)[1]


def products_before(array: Any, axis: int, reverse: bool) -> Any:
    """The products of the entries before each one along an axis, in log₂ n steps of multiplications."""

    def doubled(products: Any, by: Any) -> tuple[Any]:
        return (products * shifted(products, axis, by, not reverse, 1.0),)

    return _by_doubling(doubled, (shifted(array, axis, 1, not reverse, 1.0),), axis)[0]


def _by_doubling(step: Any, state: tuple[Any, ...], axis: int) -> tuple[Any, ...]:
    """What a step makes of arrays for the distances 1, 2, 4, … along an axis."""
    known = state[0].shape[axis]
    if known is not None:
        for power in range((known - 1).bit_length() if known > 1 else 0):
            state = step(*state, 2**power)
        return state
    length = tf.shape(state[0])[axis]
    _, *found = tf.while_loop(
        lambda by, *_: by < length, lambda by, *now: (2 * by, *step(*now, by)), (1, *state)
    )
    return tuple(found)
