"""Where to look: points at which rules tend to be wrong, made from the point the user gave."""

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pullback.check import numbers as n
from pullback.check.probe import Array
from pullback.check.search.directions import Rng, kept_in_scale, leaf_scales, shared_scales
from pullback.check.subject import Layout

NOTHING, NO_VALUES = np.zeros(0, bool), np.zeros(0)


class Kind(enum.Enum):
    """What is particular about a point, as a report says it."""

    GIVEN = "the given arguments"
    ANOTHER = "random values"
    NEGATIVE = "negative values"
    ZEROS_AMONG_NEGATIVES = "zeros among negative values"
    ZEROS_AMONG_POSITIVES = "zeros among positive values"
    ALL_ZEROS = "all zeros"
    TIES = "equal values throughout"
    GRID = "many equal values"
    LARGE = "large values"
    VERY_LARGE = "very large values"
    TINY = "tiny values"
    FAR = "values far from the given ones"
    BETWEEN_THRESHOLDS = "values between the program's constants"
    ABOVE_THRESHOLDS = "values above the program's constants"
    BELOW_THRESHOLDS = "values below the program's constants"
    WITHIN_THRESHOLDS = "values within the program's constants"
    AT_THRESHOLDS = "values at the program's constants"
    AT_TURNS = "values at which comparisons of the program turn"
    NOT_REACHED = "values for entries whose gradient was zero so far"

    @property
    def is_far_out(self) -> bool:
        """Values of a size at which a short format can tell nothing."""
        return self in (Kind.LARGE, Kind.VERY_LARGE)

    @property
    def is_threshold(self) -> bool:
        """Made for the comparisons of the program."""
        return self.name.endswith(("_THRESHOLDS", "_TURNS"))

    @property
    def is_generic(self) -> bool:
        """Nothing is particular about it: every error is to be found there."""
        return self in (Kind.GIVEN, Kind.ANOTHER)


@dataclass(frozen=True)
class Point:
    """A point to test: `placed` marks entries put on purpose where a kink may be.

    `towards` says that it is only part of the way to a point of its kind.
    """

    kind: Kind
    x: Array
    placed: Array = field(default_factory=lambda: NOTHING)
    keep_ties: bool = False
    towards: bool = False

    def __str__(self) -> str:
        return f"values part of the way to {self.kind.value}" if self.towards else self.kind.value

    @property
    def is_given(self) -> bool:
        """Whether these are the user's arguments, and not a point that was made up."""
        return self.kind is Kind.GIVEN

    @property
    def is_placed(self) -> bool:
        """Whether values were put at kinks or ties on purpose."""
        return self.keep_ties or bool(self.placed.any())


def another(rng: Rng, layout: Layout, x: Array, attempt: int) -> Array:
    """A generic point away from `x`; each further attempt strays less."""
    out = x * np.exp(rng.normal(0, 0.3, x.size))
    if attempt == 0:
        out = np.where(_mixed_signs(layout, x) & (rng.random(x.size) < 0.3), -out, out)
    fill = rng.uniform(0.2, 1, x.size) * leaf_scales(layout, x)
    if attempt == 0:
        fill *= np.where(rng.random(x.size) < 0.5, -1.0, 1.0)
    return np.where((x == 0) & (attempt < 2), fill, out)


def opposite(rng: Rng, layout: Layout, x: Array) -> Array:
    """A point as unlike `x` as the signs in each leaf allow."""
    out = another(rng, layout, x, 2) * np.exp(rng.normal(0, 1.2, x.size))
    return np.where(_mixed_signs(layout, x), -out, out)


def special(rng: Rng, layout: Layout, x: Array, constants: Sequence[float]) -> Iterator[Point]:
    """The points of a full check, the most telling first."""
    for point in _special(rng, layout, x, constants):
        yield replace(point, x=kept_in_scale(layout, point.x, np.where(x == 0, point.x, x)))


def _special(rng: Rng, layout: Layout, x: Array, constants: Sequence[float]) -> Iterator[Point]:
    scale, shared = leaf_scales(layout, x), shared_scales(layout, x)
    base = np.where(x == 0, scale * rng.normal(size=x.size), x)
    zeros = n.ZEROS if base.size <= n.MANY else n.ZEROS[:1]
    yield from _threshold_points(rng, layout, base, [c for c in constants if c])
    yield Point(Kind.NEGATIVE, -np.abs(base) * rng.uniform(0.5, 3, base.size))
    for share in zeros:
        yield _zeros(rng, layout, -np.abs(base), share, Kind.ZEROS_AMONG_NEGATIVES)
    # each leaf one value, leaves alike: every comparison between entries is a tie
    yield Point(Kind.TIES, shared * rng.uniform(0.7, 1.3), keep_ties=True)
    yield _grid(rng, base, shared)
    yield _scaled(rng, base, Kind.LARGE, 1.5, 8)
    yield _scaled(rng, base, Kind.TINY, 1e-4, 1e-1)
    if base.size <= n.LARGE_INPUT:
        for share in zeros:
            yield _zeros(rng, layout, np.abs(base), share, Kind.ZEROS_AMONG_POSITIVES)
        yield _scaled(rng, base, Kind.VERY_LARGE, 12, 150)
        yield _zeros(rng, layout, base, 1.0, Kind.ALL_ZEROS)


def made_largest(rng: Rng, x: Array, which: Array) -> Array:
    """The point with some entries above all others."""
    out = x.copy()
    out[which] = np.max(np.abs(x), initial=0.0, where=np.isfinite(x)) * rng.uniform(
        1.1, 2.0, int(which.sum())
    )
    return out


def flipped_and_grown(rng: Rng, x: Array, which: Array) -> Array:
    """The point with some entries of the other sign, and larger."""
    out = x.copy()
    out[which] *= -rng.uniform(1, 3, int(which.sum()))
    return out


def _zeros(rng: Rng, layout: Layout, base: Array, share: float, kind: Kind) -> Point:
    """Zeros in every leaf: next to entries of one sign they are the greatest, or the least."""
    chosen = rng.random(base.size) < share
    for k in range(len(layout.leaves)):
        span = layout.span(k)
        if span.stop > span.start:
            chosen[rng.integers(span.start, span.stop)] = True
    return Point(kind, np.where(chosen, 0.0, base), chosen)


def _grid(rng: Rng, base: Array, scale: Array) -> Point:
    """Multiples of a power of two, in pairs: zeros, ties within and between leaves, all of them exact."""
    unit = 2.0 ** np.round(np.log2(scale / 2))
    steps = np.repeat(rng.integers(-4, 5, base.size // 2 + 1), 2)[: base.size]
    return Point(Kind.GRID, steps * unit, keep_ties=True)


def _scaled(rng: Rng, base: Array, kind: Kind, low: float, high: float) -> Point:
    factor = np.exp(rng.uniform(np.log(low), np.log(high), base.size))
    return Point(kind, base * factor)


def _threshold_points(
    rng: Rng, layout: Layout, base: Array, constants: Sequence[float]
) -> Iterator[Point]:
    if not constants:
        return
    at, gaps, others = _candidates(constants)
    leaves = [layout.span(k) for k in range(min(len(layout.leaves), n.SEVERAL))]
    # few entries have no room for all values: once more with what lies between two constants first
    again = [(span, gaps) for span in leaves if base.size <= n.MANY]
    every = np.union1d(gaps, others)
    for span, first in [(span, NO_VALUES) for span in (slice(None), *leaves)] + again:
        x, (part, _) = base.copy(), _sprinkle(rng, base[span], every, first)
        # hardly moved, so that no two entries are equal by chance
        x[span] = part + _room(part, at) * rng.uniform(-1, 1, part.size)
        yield Point(Kind.BETWEEN_THRESHOLDS, x)
    sizes = np.abs(constants)
    reach = max(float(np.max(sizes)), 1e-3) * rng.uniform(1.1, 2, base.size)
    yield Point(Kind.ABOVE_THRESHOLDS, reach)
    yield Point(Kind.BELOW_THRESHOLDS, -reach)
    yield Point(Kind.WITHIN_THRESHOLDS, np.min(sizes) * rng.uniform(-0.95, 0.95, base.size))
    yield Point(Kind.AT_THRESHOLDS, *_sprinkle(rng, base, at))


def _room(x: Array, constants: Array) -> Array:
    """How far entries may be moved without coming near a constant."""
    above = np.clip(np.searchsorted(constants, x), 1, constants.size - 1)
    apart = np.minimum(np.abs(x - constants[above - 1]), np.abs(x - constants[above]))
    return np.minimum(0.002 * np.abs(x), n.NEAR * apart)


def _candidates(constants: Sequence[float]) -> tuple[Array, Array, Array]:
    """Values at the constants of either sign; those between, and those beside and beyond them."""
    known = np.unique(np.array([s * c for c in constants for s in (1, -1)] + [0.0]))
    gaps = (known[1:] + known[:-1]) / 2
    reach = max(float(np.max(np.abs(known))), 1e-3)
    beyond = np.array([-2.5, -1.4, 1.4, 2.5]) * reach
    beside = np.concatenate([known * 1.01, known * 0.99])
    return known, gaps, np.unique(np.concatenate([beyond, beside[beside != 0]]))


def _sprinkle(
    rng: Rng, base: Array, values: Array, first: Array = NO_VALUES
) -> tuple[Array, Array]:
    """Most entries take these values, every value at least once where there is room; and which entries."""
    order = rng.permutation(base.size)[: max(1, int(0.7 * base.size))]
    picks = np.concatenate(
        [rng.permutation(first), rng.permutation(values), rng.choice(values, order.size)]
    )
    out, mask = base.copy(), np.zeros(base.size, bool)
    out[order], mask[order] = picks[: order.size], True
    return out, mask


def _mixed_signs(layout: Layout, x: Array) -> Array:
    """Positions in leaves that hold values of both signs: only those may change sign freely."""
    parts = [x[layout.span(k)] for k in range(len(layout.leaves))]
    return layout.fill([float((part > 0).any() and (part < 0).any()) for part in parts]) > 0
