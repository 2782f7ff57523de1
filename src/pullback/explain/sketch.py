"""A few numbers of a gradient by which directions are compared: a gradient itself is too large to keep.

Entries are shared out among `WIDTH` sums, each with a sign drawn once for all (a count sketch). The sketch is linear:
that of a gradient scaled or reversed is scaled or reversed. Up to `WIDTH` entries nothing is lost.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

WIDTH = (
    64  # directions that have nothing to do with each other have a cosine of about 1 / √WIDTH here
)
_ROWS = 4096  # in a block, whose signs are drawn once


def sketch_of(array: Any) -> tuple[float, ...]:
    """The sketch of an array; entries that are not finite count as 0, as in its norm."""
    flat: Any = np.asarray(array).ravel()
    flat = np.stack([flat.real, flat.imag], -1).ravel() if np.iscomplexobj(flat) else flat
    wide = np.float64 if flat.dtype == np.float64 else np.float32
    total = np.zeros(WIDTH)
    for k, start in enumerate(range(0, flat.size, _ROWS * WIDTH)):
        block = flat[start : start + _ROWS * WIDTH].astype(wide, copy=False)
        if not np.isfinite(block).all():
            block = np.where(np.isfinite(block), block, 0)
        block = np.pad(block, (0, -block.size % WIDTH)).reshape(-1, WIDTH)
        total += _signs(k, _ROWS)[: len(block)].astype(wide) @ (block * _grid()[: len(block)])
    return tuple(total[: flat.size].tolist())


@functools.cache
def _grid() -> Any:
    return _signs(0, (_ROWS, WIDTH))


def _signs(seed: int, shape: Any) -> Any:
    """Signs that are the same in all versions of NumPy, as those of legacy generators are."""
    return np.random.RandomState(seed).randint(0, 2, shape).astype(np.float32) * 2 - 1


def cosine(one: Sequence[float], other: Sequence[float]) -> float | None:
    """The cosine of the angle between two gradients; `None` where one has no direction."""
    norms = math.hypot(*one) * math.hypot(*other)
    if len(one) != len(other) or not norms or not math.isfinite(norms):
        return None
    return float(np.clip(np.dot(one, other) / norms, -1.0, 1.0))
