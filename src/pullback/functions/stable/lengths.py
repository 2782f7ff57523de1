"""Lengths, spreads and directions: finite wherever the result is, and 0 where a length of 0 leaves no direction.

Length and standard deviation are homogeneous: where squares leave the range of the format, the entries are divided by
the largest before, and the result multiplied after. That second way is taken only when the first one fails, and not
where there is float64 for float32.
"""

from __future__ import annotations

from typing import Any

from pullback.errors import ArgumentError
from pullback.functions._arguments import (
    arrays_for,
    axes_of,
    broadcasting_arrays,
    dtype_of,
    real_arrays,
    with_axes,
    with_own_gradient,
)
from pullback.functions._units import in_one_unit, in_units

_MOST = 0.75  # of the square of a unit vector: one entry at most has as much, and 1 less it cancels
_INFINITE = 1e150  # beside numbers of float32 as good as infinity, and its square is a number


def norm(x: Any, ord: Any = "euclidean", axis: Any = None, keepdims: bool = False) -> Any:  # noqa: A002
    """The Euclidean norm along axes, as `tf.norm`; at 0 its gradient is 0, and infinite entries share theirs.

    Use it where vectors may be 0 (TensorFlow's gradient is NaN there), or so long or short that their squares leave
    the range of the dtype (where TensorFlow gives infinity or 0). Along several axes it is the root of all squares,
    which TensorFlow calls `"euclidean"`; `2` is another norm there, and an error.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.constant([[3e20, 4e20], [0.0, 0.0]])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = pb.functions.norm(x, axis=1)
    >>> [f"{v:.0e}" for v in y], [f"{g:.1f}" for g in tf.reshape(tape.gradient(y, x), [-1])]
    (['5e+20', '0e+00'], ['0.6', '0.8', '0.0', '0.0'])
    """
    if ord not in ("euclidean", 2):
        raise ArgumentError(
            f"pb.functions.norm got ord={ord!r}; wanted 'euclidean', which is 'fro' too, or 2. For others there is "
            "tf.norm, whose gradient is finite at 0 where ord is 1 or infinity."
        )
    if ord == 2 and isinstance(axis, (list, tuple)) and len(axis) > 1:
        raise ArgumentError(
            f"pb.functions.norm got ord=2 for axis={axis!r}, the largest singular value of matrices. Write "
            "ord='euclidean' for the root of all squares, or tf.reduce_max(pb.functions.svd(x)[0], -1)."
        )
    return _measure(x, axis=axis, keepdims=keepdims, spread=False)


def std(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The standard deviation along axes, as `tf.math.reduce_std`; where all entries are equal its gradient is 0.

    Use it for normalisation and for regularisers: TensorFlow's gradient of equal entries is NaN.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.constant([[1.0, 3.0], [2.0, 2.0]])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = pb.functions.std(x, axis=1)
    >>> tape.gradient(y, x).numpy().tolist()
    [[-0.5, 0.5], [0.0, 0.0]]
    """
    return _measure(x, axis=axis, keepdims=keepdims, spread=True)


@with_own_gradient
def _measure(x: Any, *, axis: Any, keepdims: bool, spread: bool) -> Any:
    xp, a = real_arrays("std" if spread else "norm", x=x)
    axes = axes_of("std" if spread else "norm", a, axis)
    measured, pullback = in_units(
        xp, _measured, a, axes=axes, keepdims=bool(keepdims), spread=spread
    )
    return xp.astype(measured, dtype_of(xp, x)), pullback


def _measured(own: Any, *, axes: tuple[int, ...], keepdims: bool, spread: bool) -> Any:
    xp = arrays_for(own)
    entries, length, scale = _beside_scale(xp, _room_for(xp, own), own.dtype, axes, spread)
    by = xp.size(entries, axes) ** 0.5 if spread else None

    def measure_pullback(dy: Any) -> Any:
        dy = with_axes(xp, xp.astype(dy, length.dtype), axes, keepdims)
        dy = dy / by if spread else dy
        found = _along(dy, own, entries, length, axes=axes, spread=spread)
        return xp.astype(found, own.dtype)

    measured = xp.astype(scale * length / by if spread else scale * length, own.dtype)
    return measured if keepdims else xp.squeeze(measured, axes), measure_pullback


@with_own_gradient
def normalize(x: Any, axis: Any = None) -> Any:
    """Vectors along axes, divided by their lengths; 0 stays 0, with the gradient 0.

    Use it in place of `tf.math.l2_normalize`, whose `epsilon` shortens short vectors and whose squares overflow.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.constant([[3e-20, 4e-20], [0.0, 0.0]])
    >>> pb.functions.normalize(x, axis=1).numpy().round(2).astype(str).tolist()
    [['0.6', '0.8'], ['0.0', '0.0']]
    """
    xp, a = real_arrays("normalize", x=x)
    axes = axes_of("normalize", a, axis)
    unit, pullback = in_units(xp, _direction, a, axes=axes)
    return xp.astype(unit, dtype_of(xp, x)), pullback


def _direction(own: Any, *, axes: tuple[int, ...]) -> Any:
    xp = arrays_for(own)
    found = _beside_scale(xp, _room_for(xp, own), own.dtype, axes, spread=False)

    def normalize_pullback(dy: Any) -> Any:
        dy = xp.astype(dy, found[1].dtype)
        return xp.astype(_turned(dy, own, *found, axes=axes), own.dtype)

    return xp.astype(xp.divide_or_zero(found[0], found[1]), own.dtype), normalize_pullback


@with_own_gradient
def _along(
    dy: Any, own: Any, entries: Any, length: Any, *, axes: tuple[int, ...], spread: bool
) -> Any:
    """Numbers times the direction of an array, which entries and length beside a scale are constants of."""
    xp = arrays_for(own)

    def along_pullback(v: Any) -> Any:
        a = xp.astype(own, length.dtype)
        *found, scale = _beside_scale(xp, a, own.dtype, axes, spread)
        unit = xp.divide_or_zero(*found)
        # Vectors are centred with the entries; the direction is.
        v = _centred(xp, v, axes) if spread else v
        turned = _over(xp, dy * _across(xp, v, unit, axes), found[1], scale)
        return {"dy": xp.sum(v * unit, axes, keepdims=True), "own": turned}

    return entries * xp.divide_or_zero(dy, length), along_pullback


@with_own_gradient
def _turned(
    v: Any, own: Any, entries: Any, length: Any, scale: Any, *, axes: tuple[int, ...]
) -> Any:
    """How the direction of an array turns: what of a vector is across it, divided by the length."""
    xp = arrays_for(own)
    unit = xp.divide_or_zero(entries, length)

    def turned_pullback(u: Any) -> Any:
        a = xp.astype(own, length.dtype)
        *found, scale = _beside_scale(xp, a, own.dtype, axes, spread=False)
        unit = xp.divide_or_zero(*found)
        mine, other = (_over(xp, _across(xp, x, unit, axes), found[1], scale) for x in (v, u))
        parts = ((u, mine, unit), (u, unit, mine), (v, unit, other))
        bent = sum(xp.sum(a * b, axes, keepdims=True) * c for a, b, c in parts)
        return {"v": other, "own": -_over(xp, bent, found[1], scale)}

    return _over(xp, _across(xp, v, unit, axes), length, scale), turned_pullback


def _across(xp: Any, v: Any, unit: Any, axes: tuple[int, ...]) -> Any:
    """What of a vector is across a unit vector; where an entry of that is nearly 1, by the others alone."""
    squares, products = xp.square(unit), unit * v
    large = squares > _MOST
    nothing = xp.zeros_like(unit)
    rest = xp.sum(xp.where(large, nothing, squares), axes, keepdims=True)
    beside = xp.sum(xp.where(large, nothing, products), axes, keepdims=True)
    plain = v - unit * xp.sum(products, axes, keepdims=True)
    return xp.where(large, v * rest - unit * beside, plain)


def _over(xp: Any, v: Any, length: Any, scale: Any) -> Any:
    return xp.divide_or_zero(xp.divide_or_zero(v, length), scale)


def _room_for(xp: Any, own: Any) -> Any:
    """In compiled programs float64, where it costs next to nothing, and has room for the squares of narrower dtypes."""
    own = xp.stop_gradient(own)
    return xp.widest(own) if xp.compiled_here() else own


def _beside_scale(
    xp: Any, a: Any, dtype: Any, axes: tuple[int, ...], spread: bool
) -> tuple[Any, Any, Any]:
    """Entries, or what they are off their mean, and their length, both beside a scale so that neither overflows.

    Beside infinite entries the others are 0, and they of one size. What is of a narrower dtype needs no scale.
    """
    roomy = a.dtype != dtype
    if roomy and not spread:
        a = xp.maximum(xp.minimum(a, _INFINITE), -_INFINITE)
    entries = _centred(xp, a, axes) if spread else a
    length = xp.sqrt(xp.sum(xp.square(entries), axes, keepdims=True))
    one = xp.ones_like(length)
    if roomy:
        return entries, length, one
    limits = xp.limits(a)
    # Above it, squares that are flushed to 0 are not seen in the sum.
    fine = xp.all_between(length, float(limits.tiny / limits.eps) ** 0.5, float(limits.max))

    def scaled() -> tuple[Any, Any, Any]:
        largest = xp.maximum(xp.max(xp.magnitude(a), axes, keepdims=True), 0.0)  # of nothing, too
        usable = xp.isfinite(largest) & (largest > 0)
        scale = xp.power_of_two_below(xp.where(usable, largest, one))
        entries = _centred(xp, a / scale, axes) if spread else a / scale
        if not spread:
            signs = xp.where(xp.isinf(a), xp.sign(a), xp.zeros_like(a))
            entries = xp.where(xp.isinf(largest), signs, entries)
            scale = xp.where(xp.isinf(largest), largest, scale)
        return entries, xp.sqrt(xp.sum(xp.square(entries), axes, keepdims=True)), scale

    return xp.cond(fine, lambda: (entries, length, one), scaled)


def _centred(xp: Any, a: Any, axes: tuple[int, ...]) -> Any:
    """Entries less their mean, twice: the first mean is rounded to the size of the entries, not of their spread."""
    a = a - xp.mean(a, axes, keepdims=True)
    return a - xp.mean(a, axes, keepdims=True)


@with_own_gradient
def sqrt(x: Any) -> Any:
    """The square root; at 0 its gradient is 0.

    Use it where 0 may come in and its gradient is multiplied by 0 afterwards, as in lengths and distances: infinity
    times 0 is NaN. For negative numbers it is NaN, as everywhere.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.constant([0.0, 4.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = pb.functions.sqrt(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [0.0, 0.25]
    """
    xp, a = real_arrays("sqrt", x=x)

    def sqrt_pullback(dy: Any, *, outputs: Any) -> Any:
        return xp.divide_or_zero(0.5 * xp.wide(dy), xp.wide(outputs))

    return xp.astype(xp.sqrt(a), dtype_of(xp, x)), sqrt_pullback


@with_own_gradient
def hypot(x: Any, y: Any) -> Any:
    """√(x² + y²), without overflow inside; at (0, 0) its gradient is 0.

    Use it for distances and moduli, where `tf.sqrt(x**2 + y**2)` overflows from 1e19 on and is NaN backwards at 0.

    >>> import pullback as pb, tensorflow as tf
    >>> x, y = tf.constant([3e30, 0.0]), tf.constant([4e30, 0.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     z = pb.functions.hypot(x, y)
    >>> [f"{g:.4f}" for g in tape.gradient(z, x)]
    ['0.6000', '0.0000']
    """
    xp, a, b = broadcasting_arrays("hypot", x=x, y=y)
    length, pullback = in_units(xp, _length_of_pair, a, b)
    return xp.astype(length, dtype_of(xp, x, y)), pullback


def _length_of_pair(a: Any, b: Any) -> Any:
    xp = arrays_for(a)
    scale, a, b, squares = _scaled_pair(xp, a, b)

    def hypot_pullback(dz: Any) -> Any:
        share = xp.divide_or_zero(xp.wide(dz), xp.sqrt(squares))
        return {"x": share * a, "y": share * b}

    return scale * xp.sqrt(squares), hypot_pullback


@with_own_gradient
def atan2(y: Any, x: Any) -> Any:
    """The angle of the point (x, y), as `tf.atan2`; at (0, 0) its gradient is 0.

    Use it for angles of vectors that may be 0, very long or very short: TensorFlow's gradient is NaN or 0 there.

    >>> import pullback as pb, tensorflow as tf
    >>> y, x = tf.constant([0.0, 1e-30]), tf.constant([0.0, 1e-30])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(y)
    ...     angle = pb.functions.atan2(y, x)
    >>> [f"{g:.0e}" for g in tape.gradient(angle, y)]
    ['0e+00', '5e+29']
    """
    xp, up, along = broadcasting_arrays("atan2", y=y, x=x)

    def atan2_pullback(dz: Any) -> Any:
        return in_one_unit(xp, _slopes_of_angle, up, along, xp.wide(dz))

    # No unit: XLA computes it number by number.
    return xp.astype(xp.arctan2(up, along), dtype_of(xp, y, x)), atan2_pullback


def _slopes_of_angle(up: Any, along: Any, dz: Any) -> Any:
    xp = arrays_for(up)
    scale, b, a, squares = _scaled_pair(xp, up, along)
    share = xp.divide_or_zero(dz, scale)
    return {"y": share * (a / squares), "x": -share * (b / squares)}


def _scaled_pair(xp: Any, a: Any, b: Any) -> tuple[Any, Any, Any, Any]:
    """A scale, both divided by it, and the sum of their squares, which is at least 1; of two zeros 0, 0, 0, 1.

    Beside an infinite number a finite one is 0, and two of them are of one size, as C has it.
    """
    scale = xp.stop_gradient(xp.maximum(xp.magnitude(a), xp.magnitude(b)))
    a, b = (
        xp.where(xp.isinf(each), xp.sign(each), xp.divide_or_zero(each, scale)) for each in (a, b)
    )
    return scale, a, b, xp.maximum(xp.square(a) + xp.square(b), 1.0)
