"""Directions to move in: signed, of the size of the values, all inputs at once."""

import numpy as np

from pullback.check.flat import Layout
from pullback.check.probe import Array

Rng = np.random.Generator


def leaf_scales(layout: Layout, x: Array) -> Array:
    """A typical magnitude per position: that of its leaf, one where the leaf is zero."""
    out = np.ones(layout.size)
    for k in range(len(layout.leaves)):
        part = np.abs(x[layout.span(k)])
        used = part[(part > 0) & np.isfinite(part)]
        out[layout.span(k)] = np.median(used) if used.size else 1.0
    return out


def generic(rng: Rng, layout: Layout, x: Array) -> Array:
    """Moves every entry by a share of its own magnitude, or of its leaf's where it is tiny."""
    size = np.maximum(np.abs(x), 0.05 * leaf_scales(layout, x))
    return _signed(rng, layout.size) * np.where(x == 0, leaf_scales(layout, x), size)


def relative(rng: Rng, layout: Layout, x: Array) -> Array:
    """Moves every entry in proportion to itself: it never changes sign, so domains are kept."""
    return _signed(rng, layout.size) * np.abs(x)


def tie_keeping(rng: Rng, layout: Layout, x: Array) -> Array:
    """Moves equal entries equally, so that ties stay ties along the whole line."""
    phase, pitch = rng.uniform(0, 6), rng.uniform(0.5, 2)
    scales = leaf_scales(layout, x)
    return float(np.median(scales)) * (1 + 0.5 * np.sin(pitch * x / np.median(scales) + phase))


def sparse_at(rng: Rng, layout: Layout, x: Array, special: Array) -> Array:
    """Moves all that is not special, and one entry of each special value in each leaf.

    Where many entries sit at a kink at once, a direction that moves them all can hide a wrong
    derivative in the span of right ones; moving one of each kind cannot.
    """
    u = generic(rng, layout, x)
    keep = ~special
    for k in range(len(layout.leaves)):
        span = layout.span(k)
        places = np.flatnonzero(special[span]) + span.start
        keep[_one_of_each(rng, x, places)] = True
    return np.where(keep, u, 0.0)


def _one_of_each(rng: Rng, x: Array, places: Array) -> list[int]:
    order = rng.permutation(places)
    values, first = np.unique(x[order], return_index=True)
    return [int(order[i]) for i in first[: min(len(values), 8)]]


def _signed(rng: Rng, size: int) -> Array:
    u = rng.uniform(0.5, 1.5, size)
    u[rng.random(size) < 0.5] *= -1
    return u


def symmetric(layout: Layout, u: Array, which: tuple[int, ...]) -> Array:
    """The same direction, made symmetric in the matrices of the leaves `which`."""
    out = u.copy()
    for k in which:
        part = layout.split(u)[k]
        out[layout.span(k)] = layout.join(
            [(part + np.swapaxes(part, -1, -2).conj()) / 2 if i == k else None
             for i in range(len(layout.leaves))]
        )[layout.span(k)]
    return out
