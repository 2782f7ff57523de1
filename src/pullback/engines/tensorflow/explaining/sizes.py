"""The numbers of a tensor in few."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.tf_private import explaining as private
from pullback.extend import flow, sketch_of

_PLAIN = frozenset("fcbiu")  # kinds of arrays that NumPy computes with
_SMALL_SQUARE = 1e-30  # below this, squares of float32 begin to vanish


def size_of(value: Any) -> flow.Size | None:
    """The size of a tensor or of a sparse gradient; `None` for what holds no numbers."""
    if isinstance(value, tf.IndexedSlices):
        return _of_slices(value)
    if not value.dtype.is_floating and not value.dtype.is_complex:
        return None
    return of_array(private.numbers(value))


def sketch_of_gradient(value: Any) -> tuple[float, ...]:
    """By which its direction is compared with that of another one."""
    return sketch_of(private.numbers(values.dense(value)))


def of_array(array: Any) -> flow.Size:
    """The size of an array."""
    array = np.asarray(array)
    if array.dtype.kind not in _PLAIN or array.dtype == np.float16:
        array = array.astype(np.float32)
    count = array.size
    if not count:
        return flow.Size(0.0, 0.0, 0.0, 0, 0, 0)
    flat = array.ravel()
    square = float(np.vdot(flat, flat).real)  # which warns of nothing
    if not math.isfinite(square):
        return _carefully(flat, count)
    top, zeros = _largest(flat), 1 - int(np.count_nonzero(flat)) / count
    if square < _SMALL_SQUARE and top:
        scaled = flat.astype(np.complex128 if flat.dtype.kind == "c" else np.float64) / top
        return flow.Size(top * float(np.linalg.norm(scaled)), top, zeros, 0, 0, count)
    return flow.Size(square**0.5, top, zeros, 0, 0, count)


def _largest(flat: Any) -> float:
    if flat.dtype.kind == "c":
        return float(np.abs(flat).max())
    return max(float(flat.max()), -float(flat.min()))


def _carefully(flat: Any, count: int) -> flow.Size:
    """For numbers that are not finite, or whose squares are not."""
    nan, inf = int(np.isnan(flat).sum()), int(np.isinf(flat).sum())
    wide = flat.astype(np.complex128 if flat.dtype.kind == "c" else np.float64)
    finite = np.abs(wide[np.isfinite(wide)])
    if not finite.size:
        return flow.Size(0.0, 0.0, 0.0, nan, inf, count)
    top = float(finite.max())
    norm = top * float(np.linalg.norm(finite / top)) if top else 0.0
    return flow.Size(norm, top, float(np.mean(finite == 0)), nan, inf, count)


def _of_slices(slices: Any) -> flow.Size | None:
    """Of a sparse gradient as if it were dense: rows that are named twice are summed, others are zeros."""
    if slices.dense_shape is None:
        return size_of(tf.convert_to_tensor(slices))
    rows, place = np.unique(private.numbers(slices.indices), return_inverse=True)
    values = private.numbers(slices.values)
    summed = np.zeros((len(rows), *values.shape[1:]), values.dtype)
    np.add.at(summed, place, values)
    found = of_array(summed)
    count = int(np.prod(private.numbers(slices.dense_shape)))
    filled = found.count - found.nan - found.inf
    zeros = 1 - filled * (1 - found.zeros) / count if count else 0.0
    return flow.Size(found.norm, found.max, zeros, found.nan, found.inf, count)
