"""The numbers of a tensor in few."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.tf_private import explaining as private
from pullback.extend import flow

_PLAIN = frozenset("fcbiu")  # kinds of arrays that NumPy computes with
# Squares of float32 below this are no longer exact, and above its inverse they overflow.
_SQUARES = (1e-30, 1e30)


def size_of(value: Any) -> flow.Size | None:
    """The size of a tensor or of a sparse gradient; `None` for what holds no numbers."""
    if isinstance(value, tf.IndexedSlices):
        return _of_slices(value)
    if not value.dtype.is_floating and not value.dtype.is_complex:
        return None
    return of_array(private.numbers(value))


def of_array(array: Any) -> flow.Size:
    """The size of an array."""
    array = np.asarray(array)
    if array.dtype.kind not in _PLAIN or array.dtype == np.float16:
        array = array.astype(np.float32)
    count = array.size
    if not count:
        return flow.Size(0.0, 0.0, 0.0, 0, 0, 0)
    flat = array.ravel()
    with np.errstate(all="ignore"):
        square = float(np.vdot(flat, flat).real)
        zeros = 1 - int(np.count_nonzero(flat)) / count
        if _SQUARES[0] < square < _SQUARES[1]:
            return flow.Size(square**0.5, _largest(flat), zeros, 0, 0, count)
        return _carefully(flat, zeros, count)


def _largest(flat: Any) -> float:
    if flat.dtype.kind == "c":
        return float(np.abs(flat).max())
    return max(float(flat.max()), -float(flat.min()))


def _carefully(flat: Any, zeros: float, count: int) -> flow.Size:
    """For numbers that are not finite, or whose squares are not."""
    nan, inf = int(np.isnan(flat).sum()), int(np.isinf(flat).sum())
    wide = flat.astype(np.complex128 if flat.dtype.kind == "c" else np.float64)
    finite = np.abs(wide[np.isfinite(wide)])
    if not finite.size:
        return flow.Size(0.0, 0.0, zeros, nan, inf, count)
    top = float(finite.max())
    norm = top * float(np.linalg.norm(finite / top)) if top else 0.0
    zeros = float(np.mean(finite == 0)) if nan or inf else zeros
    return flow.Size(norm, top, zeros, nan, inf, count)


def _of_slices(slices: Any) -> flow.Size | None:
    """Of a sparse gradient as if it were dense: rows that are not there are zeros."""
    found = size_of(slices.values)
    shape = None if slices.dense_shape is None else tuple(slices.dense_shape.numpy())
    if found is None or shape is None:
        return found
    count = int(np.prod(shape))
    filled = found.count - found.nan - found.inf
    zeros = 1 - min(1.0, filled * (1 - found.zeros) / count) if count else 0.0
    return flow.Size(found.norm, found.max, zeros, found.nan, found.inf, count)
