"""Directions to move in: signed, of the size of the values, all inputs at once."""

from collections.abc import Iterator

import numpy as np

from pullback.check import numbers as n
from pullback.check.probe import Array
from pullback.check.probe.vectors import blocks
from pullback.check.subject import Layout

Rng = np.random.Generator
SAMPLE = 10_000
# entries so many places apart are apart by no more than this many times their size
STEPS_APART = 64


def leaf_scales(layout: Layout, x: Array) -> Array:
    """A typical magnitude per position: that of its leaf, one where the leaf is zero."""
    return layout.fill([_scale(x[layout.span(k)]) for k in range(len(layout.leaves))])


def shared_scales(layout: Layout, x: Array) -> Array:
    """One magnitude for all positions, so that inputs can be equal; its own for an input of quite another size."""
    scales = leaf_scales(layout, x)
    shared = float(np.median(scales[:: max(1, x.size // SAMPLE)])) if x.size else 1.0
    return np.where(_is_near(scales, shared), shared, scales)


def kept_in_scale(layout: Layout, x: Array, base: Array) -> Array:
    """The point, with entries of `base` where they are of quite another size than an input far from one suggests."""
    scales = leaf_scales(layout, base)
    far = ~_is_near(scales, 1.0)
    if not far.any():
        return x
    odd = far & ~_is_near(np.abs(x), scales) & (x != 0)
    return np.where(odd, base, x)


def _is_near(sizes: Array, scale: Array | float) -> Array:
    with np.errstate(all="ignore"):
        ratio = sizes / scale
    return (ratio <= n.IN_SCALE) & (ratio >= 1 / n.IN_SCALE)


def _scale(part: Array) -> float:
    part = np.abs(part[:: max(1, part.size // SAMPLE)])
    used = part[(part > 0) & np.isfinite(part)]
    return float(np.median(used)) if used.size else 1.0


def generic(rng: Rng, layout: Layout, x: Array) -> Array:
    """Moves every entry by a share of its own magnitude, or of its leaf's where it is tiny."""
    out, scales = signed(rng, layout.size), leaf_scales(layout, x)
    for block in blocks(layout.size):
        part, scale = x[block], scales[block]
        out[block] *= np.where(part == 0, scale, np.maximum(np.abs(part), 0.05 * scale))
    return out


def of_smaller_scales(layout: Layout, u: Array, r: Array) -> Iterator[Array]:
    """The direction without the entries beside which others do not count, again and again: each scale has its own.

    Of many entries some are always next to nothing: there whole inputs are told from others.
    """
    size = np.abs(np.nan_to_num(r * u))
    if size.size > n.SAMPLE:
        size = np.where(size > 0, leaf_scales(layout, size), 0.0)
    left = size > 0
    while left.any():
        left &= n.IN_SCALE * size < np.max(size[left])
        if left.any():
            yield np.where(left, u, 0.0)


def relative(rng: Rng, layout: Layout, x: Array) -> Array:
    """Moves every entry in proportion to itself: it never changes sign, so domains are kept."""
    return signed(rng, layout.size) * np.abs(x)


def tie_keeping(rng: Rng, layout: Layout, x: Array) -> Array:
    """Moves equal entries equally, so that ties stay ties along the whole line."""
    phase, pitch = rng.uniform(0, 6), rng.uniform(0.5, 2)
    scale = shared_scales(layout, x)
    return scale * (1 + 0.5 * np.sin(pitch * x / scale + phase))


def by_position(layout: Layout, x: Array) -> Array:
    """Moves every entry further than the one before it, which breaks ties as a stable sort does."""
    return leaf_scales(layout, x) * np.linspace(1, min(x.size, STEPS_APART), x.size)


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
        order = rng.permutation(places)
        keep[order[np.unique(x[order], return_index=True)[1][:8]]] = True
    return np.where(keep, u, 0.0)


def signed(rng: Rng, size: int) -> Array:
    """Numbers of either sign between a half and one and a half in size."""
    u = rng.uniform(-1.0, 1.0, size)
    for block in blocks(size):
        u[block] += np.copysign(0.5, u[block])
    return u
