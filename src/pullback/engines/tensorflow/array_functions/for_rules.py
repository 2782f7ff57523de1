"""Arrays as ready-made rules compute with them: NumPy's names where it has them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.array_functions.for_functions import wide as wide
from pullback.engines.tensorflow.doubled_batches import axes_of_operands as axes_of_operands
from pullback.engines.tensorflow.doubled_batches import axis_of as axis_of
from pullback.engines.tensorflow.doubled_batches import doubled as doubled
from pullback.engines.tensorflow.doubled_batches import halves as halves
from pullback.engines.tensorflow.doubled_batches import joined as joined
from pullback.engines.tensorflow.doubled_batches import mean_of_halves as mean_of_halves
from pullback.engines.tensorflow.doubled_batches import pulled_back as pulled_back
from pullback.engines.tensorflow.doubled_batches import swapped as swapped
from pullback.engines.tensorflow.linear_layers import is_batch_norm as is_batch_norm
from pullback.engines.tensorflow.linear_layers import is_nonnegative as is_nonnegative
from pullback.engines.tensorflow.linear_layers import linear_layer as linear_layer
from pullback.engines.tensorflow.linear_layers import passed_by as passed_by
from pullback.engines.tensorflow.linear_layers import shift_of as shift_of
from pullback.errors import UnsupportedError

pi = math.pi
exp = tf.exp
log = tf.math.log
maximum = tf.maximum
magnitude = tf.abs
square = tf.square
sign = tf.sign
where = tf.where
safe_quotient = tf.math.divide_no_nan
zeros_like = tf.zeros_like
ones_like = tf.ones_like
mean = tf.reduce_mean
rounded = tf.round
sigmoid = tf.sigmoid


def times(k: Any) -> Callable[[Any], Any]:
    """Multiply by a number, a tensor or a variable, in the dtype of what is multiplied; sparse gradients stay so."""

    def multiplied(gradient: Any) -> Any:
        factor = like(gradient, k)
        if isinstance(gradient, tf.IndexedSlices) and factor.shape.rank == 0:
            return tf.IndexedSlices(
                gradient.values * factor, gradient.indices, gradient.dense_shape
            )
        return dense(gradient) * factor

    return multiplied


def like(array: Any, value: Any) -> Any:
    """A value as a tensor of the dtype of an array."""
    return tf.cast(value, array.dtype)


def dense(gradient: Any) -> Any:
    """A gradient as one tensor."""
    return tf.convert_to_tensor(gradient)


def clip(gradient: Any, limit: Any) -> Any:
    """Each entry between ±limit; what is not a number stays so."""
    gradient = dense(gradient)
    limit = like(gradient, limit)
    return tf.clip_by_value(gradient, -limit, limit)


def shorten(gradients: Sequence[Any], limit: Any) -> list[Any]:
    """Gradients scaled so that all of them together are no longer than a limit.

    The square of a length leaves the range of a format long before the length does: so it is taken of what is scaled
    by its largest entry, and in float32 at least.
    """
    found = [wide(dense(g)) for g in gradients]
    largest = tf.reduce_max(
        tf.stack([tf.cast(tf.reduce_max(tf.abs(g)), tf.float64) for g in found])
    )
    unit = tf.where(largest > 0, largest, 1.0)
    squares = [tf.reduce_sum(tf.square(tf.abs(g) / tf.cast(unit, _real(g)))) for g in found]
    length = unit * tf.sqrt(tf.add_n([tf.cast(s, tf.float64) for s in squares]))
    limit = tf.cast(limit, tf.float64)
    factor = tf.where(length > limit, limit / length, 1.0)
    return [
        tf.cast(g * tf.cast(factor, g.dtype), old.dtype)
        for g, old in zip(found, gradients, strict=True)
    ]


def _real(gradient: Any) -> Any:
    return gradient.dtype.real_dtype


def positive(gradient: Any) -> Any:
    """The positive part; what is not a number stays so."""
    return tf.nn.relu(dense(gradient))


def negative(x: Any) -> Any:
    """The negative part."""
    return tf.minimum(x, tf.zeros_like(x))


def nan_to_zero(gradient: Any) -> Any:
    """Zeros in place of what is not finite."""
    gradient = dense(gradient)
    return tf.where(_is_finite(gradient), gradient, tf.zeros_like(gradient))


def with_noise(gradient: Any, stddev: Any, seed: int | None) -> Any:
    """Gaussian noise added."""
    gradient = dense(gradient)
    drawn = tf.random.normal(tf.shape(gradient), dtype=gradient.dtype.real_dtype, seed=seed)
    return gradient + tf.cast(drawn, gradient.dtype) * like(gradient, stddev)


def require_finite(gradient: Any, message: str, came: Sequence[Any]) -> Any:
    """The gradient, if it is finite when the program runs; else fail with these words."""
    _refuse_xla(
        "pb.rules.raise_on_nan cannot raise in a program compiled by XLA, which leaves assertions out. Run it "
        "without jit_compile=True, or use pb.explain, which says where a NaN starts."
    )
    gradient = dense(gradient)
    finite = tf.reduce_all(_is_finite(gradient))
    arrived = tf.reduce_all([tf.reduce_all(_is_finite(dense(g))) for g in came])
    whence = tf.where(arrived, "it is made here: what arrives is finite", "it arrives so")
    if tf.executing_eagerly():
        if not finite:
            said: Any = whence.numpy()
            words = f"{message}; {said.decode()}"
            raise tf.errors.InvalidArgumentError(None, None, words)
        return gradient
    with tf.control_dependencies([tf.debugging.Assert(finite, [f"{message};", whence])]):
        return tf.identity(gradient)


def tapped(gradient: Any, see: Callable[[Any], None], of: Callable[[Any], Any]) -> Any:
    """The gradient as it is, once what `of` makes of it has been shown: at once, or when the program runs."""
    gradient = dense(gradient)
    if tf.executing_eagerly():
        see(of(gradient).numpy())
        return gradient
    _refuse_xla(
        "pb.rules.tap cannot call Python from a program compiled by XLA. Run it without jit_compile=True, or tap "
        'into a variable: pb.rules.tap(tf.Variable(0.0), of="norm"), or pb.keras.Tap().'
    )
    with tf.control_dependencies([tf.numpy_function(see, [of(gradient)], [], stateful=True)]):
        return tf.identity(gradient)


def stored(gradient: Any, variable: Any, of: Callable[[Any], Any]) -> Any:
    """The gradient as it is, once a variable has been assigned what `of` makes of it."""
    gradient = dense(gradient)
    assigned = variable.assign(tf.cast(of(gradient), variable.dtype))
    if tf.executing_eagerly():
        return gradient
    with tf.control_dependencies([] if assigned is None else [assigned]):
        return tf.identity(gradient)


def _refuse_xla(words: str) -> None:
    if private.is_compiled_by_xla(tf.compat.v1.get_default_graph()):
        raise UnsupportedError(words)


def length(gradient: Any) -> Any:
    """The root of the sum of squares."""
    return tf.norm(wide(gradient))


def vjp(function: Callable[..., Any], x: Any, upstream: Any) -> Any:
    """What the ordinary gradient of a function passes on."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(
        y, x, output_gradients=upstream, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )


def _is_finite(gradient: Any) -> Any:
    if gradient.dtype.is_complex:
        return tf.math.is_finite(tf.math.real(gradient)) & tf.math.is_finite(tf.math.imag(gradient))
    return tf.math.is_finite(gradient)


def log2(x: Any) -> Any:
    """The binary logarithm."""
    return tf.math.log(x) / tf.cast(math.log(2.0), x.dtype)


def exp2(x: Any) -> Any:
    """Two to the power of whole numbers, exact."""
    return tf.pow(tf.cast(2.0, x.dtype), x)


def between(x: Any, low: Any, high: Any) -> Any:
    """Each entry brought between two bounds."""
    return tf.clip_by_value(x, tf.cast(low, x.dtype), tf.cast(high, x.dtype))


def count(x: Any) -> Any:
    """The number of entries, as a number of the dtype."""
    return tf.cast(tf.size(x), x.dtype)


def sum_like(x: Any, other: Any) -> Any:
    """The sum over the axes along which another array was broadcast."""
    if other.shape.rank == 0:
        return tf.reduce_sum(x)
    shape, wanted = tf.shape(x), tf.shape(other)
    (axes, _) = tf.raw_ops.BroadcastGradientArgs(s0=wanted, s1=shape)
    return tf.reshape(tf.reduce_sum(x, axes), wanted)


def difference(x: Any, x0: Any) -> Any:
    """How far x is from x0, which is zero where both are the same infinity."""
    return tf.where(x == x0, tf.zeros_like(x), x - x0)


def is_rounding(difference: Any, *of: Any) -> Any:
    """Where a difference is no more than the rounding of what it is the difference of."""
    eps = float(ml_dtypes.finfo(difference.dtype.as_numpy_dtype).eps)
    largest = functools.reduce(tf.maximum, map(tf.abs, of))
    return tf.abs(difference) <= tf.cast(_ROUNDING * eps, difference.dtype) * largest


def quotient(above: Any, below: Any, unless: Any, otherwise: Any) -> Any:
    """A quotient, and something else where that is undefined or of no use."""
    unless = unless | (below == 0)
    return tf.where(unless, otherwise, above / tf.where(unless, tf.ones_like(below), below))


def reciprocal(x: Any) -> Any:
    """1 / x, and zero of zero."""
    return tf.math.reciprocal_no_nan(x)


def broadcast_like(x: Any, other: Any) -> Any:
    """An array in the shape of another one."""
    return tf.broadcast_to(x, tf.shape(other))


def largest_along_last(x: Any) -> Any:
    """The largest along the last axis, which stays."""
    return tf.reduce_max(x, -1, keepdims=True)


def sum_along_last(x: Any) -> Any:
    """The sum along the last axis, which stays."""
    return tf.reduce_sum(x, -1, keepdims=True)


_ROUNDING = 4.0  # units in the last place, of which arithmetic before it may have lost some
