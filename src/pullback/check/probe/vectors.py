"""Arithmetic on long vectors, part by part: what stays in the processor's cache is cheap."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from pullback.check.probe import Array

BLOCK = 8_192


def blocks(size: int) -> Iterator[slice]:
    """Parts of a long vector that fit the cache."""
    return (slice(k, min(k + BLOCK, size)) for k in range(0, size, BLOCK))


def typical(values: Array) -> float:
    """The root of the mean square of the finite entries."""
    total, count = 0.0, 0
    for block in blocks(values.size):
        part = values[block]
        known = np.isfinite(part)
        if not known.all():
            part = part[known]
        total += float(np.dot(part, part))
        count += part.size
    return float(np.sqrt(total / count)) if count else 0.0


def all_finite(values: Array) -> bool:
    """Whether no entry is NaN or infinite."""
    return all(bool(np.isfinite(values[block]).all()) for block in blocks(values.size))


def digest(values: Array) -> int:
    """The same number for the same values."""
    return hash((values + 0.0).tobytes())  # no zeros with a sign


def all_but_one(value: Array) -> tuple[Any, Any, int] | None:
    """The number that all entries but one hold, that of the other and its place; nothing if more differ.

    >>> all_but_one(np.array([0, 0, 7, 0]))
    (0, 7, 2)
    """
    flat = value.ravel()
    usual = flat[0] if flat[0] in flat[1:] else flat[-1]
    others = np.flatnonzero(flat != usual)
    place = int(others[0]) if others.size else 0
    return (usual.item(), flat[place].item(), place) if others.size < 2 else None
