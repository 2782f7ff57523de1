"""The numbers of an array in few."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.explain.data import Size

_PLAIN = frozenset("fcbiu")  # kinds of arrays that NumPy computes with
BLOCK = (
    1 << 16
)  # numbers that are looked at together: they stay in the cache, and nothing large is made of them
_SMALL_SQUARE = 1e-30  # below this, squares of float32 begin to vanish
THERE = Size(0.0, 0.0, 0.0, 0, 0, 0)  # of what holds no numbers itself, such as a list of tensors


def size_of(array: Any) -> Size:
    """The size of an array."""
    array = np.asarray(array)
    if array.dtype.kind not in _PLAIN or array.dtype == np.float16:
        array = array.astype(np.float32)
    count = array.size
    if not count:
        return THERE
    flat = array.ravel()
    blocks = [flat[k : k + BLOCK] for k in range(0, count, BLOCK)]
    square = sum(float(np.vdot(b, b).real) for b in blocks)  # which warns of nothing
    if not math.isfinite(square):
        return _carefully(flat, count)
    top = max(map(_largest, blocks))
    zeros = sum(int(np.count_nonzero(b == 0)) for b in blocks) / count
    if square < _SMALL_SQUARE and top:
        scaled = flat.astype(np.complex128 if flat.dtype.kind == "c" else np.float64) / top
        return Size(top * float(np.linalg.norm(scaled)), top, zeros, 0, 0, count)
    return Size(square**0.5, top, zeros, 0, 0, count)


def size_of_rows(values: Any, rows: Any, count: int) -> Size:
    """Of an array of `count` numbers that is zero but in some rows; rows that are named twice are summed."""
    named, place = np.unique(rows, return_inverse=True)
    summed = np.zeros((len(named), *values.shape[1:]), values.dtype)
    np.add.at(summed, place, values)
    found = size_of(summed)
    filled = found.count - found.nan - found.inf
    zeros = 1 - filled * (1 - found.zeros) / count if count else 0.0
    return Size(found.norm, found.max, zeros, found.nan, found.inf, count)


def _largest(flat: Any) -> float:
    if flat.dtype.kind == "c":
        return float(np.abs(flat).max())
    return max(float(flat.max()), -float(flat.min()))


def _carefully(flat: Any, count: int) -> Size:
    """For numbers that are not finite, or whose squares are not."""
    nan, inf = int(np.isnan(flat).sum()), int(np.isinf(flat).sum())
    wide = flat.astype(np.complex128 if flat.dtype.kind == "c" else np.float64)
    finite = np.abs(wide[np.isfinite(wide)])
    if not finite.size:
        return Size(0.0, 0.0, 0.0, nan, inf, count)
    top = float(finite.max())
    norm = top * float(np.linalg.norm(finite / top)) if top else 0.0
    return Size(norm, top, float(np.mean(finite == 0)), nan, inf, count)
