"""Where a function may be tried: bounds per entry, and leaves that hold symmetric matrices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pullback.check.probe import Array, Leaf
from pullback.check.search.directions import leaf_scales
from pullback.check.subject import Layout
from pullback.errors import CheckError

NAMED = {"positive": (0.0, np.inf), "negative": (-np.inf, 0.0), "unit": (0.0, 1.0)}
_MATRICES = {"symmetric": "symmetric", "definite": "symmetric and positive definite"}
_MARGIN = 1e-3


@dataclass(frozen=True)
class Domain:
    """An open interval per leaf; `symmetric` and `definite` name leaves by position."""

    layout: Layout
    start: Array
    bounds: tuple[tuple[float, float], ...]
    symmetric: tuple[int, ...] = ()
    definite: tuple[int, ...] = ()

    @property
    def bounded(self) -> bool:
        return bool(np.isfinite(self.bounds).any())

    @property
    def lower(self) -> Array:
        return self.layout.fill([low for low, _ in self.bounds])

    @property
    def upper(self) -> Array:
        return self.layout.fill([high for _, high in self.bounds])

    @property
    def matrices(self) -> tuple[int, ...]:
        """Leaves whose matrices stay symmetric."""
        return tuple(sorted({*self.symmetric, *self.definite}))

    def with_symmetric(self, which: tuple[int, ...]) -> "Domain":
        """The same domain, with these leaves symmetric and positive definite where they were."""
        return replace(self, definite=which)

    def slack(self, bound: Array) -> Array:
        """What a bound may be off by in the format of each input."""
        rounding = self.layout.fill([leaf.epsilon for leaf in self.layout.leaves])
        return np.where(np.isfinite(bound), rounding * np.abs(bound), 0.0)

    def into(self, x: Array) -> Array:
        """The point, or the one inside that corresponds to it."""
        if not self.bounded and not self.matrices:
            return x
        out = x.copy()
        if self.bounded:
            out = _fold(x, self.lower, self.upper, leaf_scales(self.layout, self.start))
        if self.symmetric:
            out = self.layout.symmetric(out, self.symmetric)
        for k in self.definite:
            out[self.layout.span(k)] = self._congruent(k, x)
        return out

    def along(self, x: Array, u: Array) -> Array:
        """The direction, kept short enough to stay inside and symmetric where it must be."""
        if self.bounded:
            room = np.minimum(x - self.lower, self.upper - x)
            # what was given as the bound itself moves a little to either side
            at_bound = room <= self.slack(x)
            room = np.where(at_bound, _MARGIN * leaf_scales(self.layout, self.start), room)
            u = np.sign(u) * np.minimum(np.abs(u), np.maximum(room, 0))
        return self.layout.symmetric(u, self.matrices) if self.matrices else u

    def _congruent(self, which: int, x: Array) -> Array:
        """The user's matrix times a positive number that the point's size suggests."""
        span = self.layout.span(which)
        start = self.start[span]
        ratio = np.abs(x[span]).mean() / max(float(np.abs(start).mean()), 1e-300)
        return start * float(np.clip(ratio, 0.01, 100) or 1.0)


def parse(spec: Any, layout: Layout, start: Array) -> Domain:
    """The domain that `domain=` describes; nothing given means everywhere."""
    bounds = [(-np.inf, np.inf)] * len(layout.leaves)
    matrices: dict[str, tuple[int, ...]] = dict.fromkeys(_MATRICES, ())
    for k, one in enumerate(_by_leaf(spec, layout.leaves)):
        if _is_matrix_kind(one):
            _require_matrices(layout.leaves[k], layout.split(start)[k], one)
            matrices[one] += (k,)
        elif one is not None:
            bounds[k] = _interval(one)
    domain = Domain(layout, start, tuple(bounds), **matrices)
    outside = (start <= domain.lower - domain.slack(domain.lower)) & (start > -np.inf)
    outside |= (start >= domain.upper + domain.slack(domain.upper)) & (start < np.inf)
    outside |= np.isinf(start) & ((start < domain.lower) | (start > domain.upper))
    if outside.any():
        at = layout.locate(int(np.flatnonzero(outside)[0]))
        raise CheckError(f"the given {at} lies outside domain={spec!r}. Pass arguments inside it.")
    return domain


def _by_leaf(spec: Any, leaves: Sequence[Leaf]) -> list[Any]:
    """The domain of every leaf, nothing where there is none."""
    if not isinstance(spec, Mapping):  # matrices are meant where there are any
        some = _is_matrix_kind(spec) and any(map(_is_square, leaves))
        return [None if some and not _is_square(leaf) else spec for leaf in leaves]
    for name in spec:
        if not isinstance(name, str) or not any(leaf.is_meant(name) for leaf in leaves):
            known = ", ".join(leaf.name for leaf in leaves)
            raise CheckError(f"domain= names {name!r}; the inputs are {known}.")
    return [spec.get(max(filter(leaf.is_meant, spec), key=len, default=None)) for leaf in leaves]


def _is_matrix_kind(spec: Any) -> bool:
    return isinstance(spec, str) and spec in _MATRICES


def _is_square(leaf: Leaf) -> bool:
    return len(leaf.shape) >= 2 and leaf.shape[-1] == leaf.shape[-2]


def _require_matrices(leaf: Leaf, given: Array, kind: str) -> None:
    """The given leaf holds matrices of the kind that it is said to hold."""
    if not _is_square(leaf):
        raise CheckError(
            f"domain={kind!r} is for square matrices; {leaf.name} is {leaf.describe()}."
        )
    right = np.allclose(given, np.swapaxes(given, -1, -2).conj(), 1e-4, 1e-6)
    if right and kind == "definite":
        right = bool((np.linalg.eigvalsh(given) > 0).all())
    if not right:
        wanted = _MATRICES[kind]
        raise CheckError(f"the given {leaf.name} is not {wanted}, as domain={kind!r} says it is.")


def _interval(spec: Any) -> tuple[float, float]:
    bounds = NAMED.get(spec) if isinstance(spec, str) else spec
    try:
        low, high = (None, None) if bounds is None else bounds
        low, high = -np.inf if low is None else float(low), np.inf if high is None else float(high)
    except (TypeError, ValueError):
        bounds, low, high = None, 0.0, 0.0
    if bounds is None or not low < high:
        raise CheckError(
            "domain= takes (low, high) with low < high, 'positive', 'negative', 'unit', "
            f"'symmetric', 'definite' or a dict of these by input; got {spec!r}."
        )
    return low, high


def _fold(x: Array, lower: Array, upper: Array, scale: Array) -> Array:
    """Reflect at the bounds, and keep a margin from them."""
    width = np.where(np.isfinite(upper - lower), upper - lower, np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        both = np.isfinite(width)
        phase = np.mod((x - lower) / np.where(both, width, 1.0), 2.0)
        inside = lower + width * np.where(phase > 1, 2 - phase, phase)
        out = np.where(both, inside, x)
        out = np.where(~both & np.isfinite(lower), lower + np.abs(x - lower), out)
        out = np.where(~both & np.isfinite(upper), upper - np.abs(upper - x), out)
        margin = _MARGIN * np.minimum(scale, width)
        return np.clip(out, lower + margin, upper - margin)


def symmetric_leaves(layout: Layout, start: Array) -> tuple[int, ...]:
    """Leaves that hold symmetric (Hermitian) matrices larger than 1×1, to the last bit."""
    parts = zip(layout.leaves, layout.split(start), strict=True)
    return tuple(
        k
        for k, (leaf, part) in enumerate(parts)
        if _is_square(leaf)
        and leaf.shape[-1] > 1
        and np.array_equal(part, np.swapaxes(part, -1, -2).conj())
    )
