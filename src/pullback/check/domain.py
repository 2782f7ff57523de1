"""Where a function may be tried: bounds per entry, and leaves that hold symmetric matrices."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pullback.check.directions import leaf_scales, symmetric
from pullback.check.flat import Layout
from pullback.check.probe import Array, Leaf
from pullback.errors import CheckError

_NAMED = {"positive": (0.0, np.inf), "negative": (-np.inf, 0.0), "unit": (0.0, 1.0)}
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
        """Whether any leaf has a bound."""
        return bool(np.isfinite(self.bounds).any())

    @property
    def lower(self) -> Array:
        """The lower bound of every entry."""
        return self.layout.fill([low for low, _ in self.bounds])

    @property
    def upper(self) -> Array:
        """The upper bound of every entry."""
        return self.layout.fill([high for _, high in self.bounds])

    @property
    def matrices(self) -> tuple[int, ...]:
        """Leaves whose matrices stay symmetric."""
        return tuple(sorted({*self.symmetric, *self.definite}))

    def with_symmetric(self, which: tuple[int, ...]) -> "Domain":
        """The same domain, with these leaves symmetric and positive definite where they were."""
        return replace(self, definite=which)

    def into(self, x: Array) -> Array:
        """The point, or the one inside that corresponds to it."""
        if not self.bounded and not self.matrices:
            return x
        out = x.copy()
        if self.bounded:
            out = _fold(x, self.lower, self.upper, leaf_scales(self.layout, self.start))
        if self.symmetric:
            out = symmetric(self.layout, out, self.symmetric)
        for k in self.definite:
            out[self.layout.span(k)] = self._congruent(k, x)
        return out

    def along(self, x: Array, u: Array) -> Array:
        """The direction, kept short enough to stay inside and symmetric where it must be."""
        if self.bounded:
            room = np.minimum(x - self.lower, self.upper - x)
            u = np.sign(u) * np.minimum(np.abs(u), np.maximum(room, 0))
        return symmetric(self.layout, u, self.matrices) if self.matrices else u

    def _congruent(self, which: int, x: Array) -> Array:
        """The user's matrix times a positive number that the point's size suggests."""
        span = self.layout.span(which)
        start = self.start[span]
        ratio = np.abs(x[span]).mean() / max(float(np.abs(start).mean()), 1e-300)
        return start * float(np.clip(ratio, 0.01, 100) or 1.0)


def parse(spec: Any, layout: Layout, start: Array) -> Domain:
    """The domain that `domain=` describes; nothing given means everywhere."""
    domain = Domain(layout, start, ((-np.inf, np.inf),) * len(layout.leaves))
    if spec is None:
        return domain
    for k, leaf in enumerate(layout.leaves):
        domain = _applied(domain, k, _for_leaf(spec, leaf, layout))
    outside = (start <= domain.lower) | (start >= domain.upper)
    if outside.any():
        at = layout.locate(int(np.flatnonzero(outside)[0]))
        raise CheckError(f"the given {at} lies outside domain={spec!r}. Pass arguments inside it.")
    return domain


def _for_leaf(spec: Any, leaf: Leaf, layout: Layout) -> Any:
    if not isinstance(spec, Mapping):
        return spec
    known = {text for other in layout.leaves for text in (other.name, other.path)}
    for name in spec:
        if name not in known:
            raise CheckError(f"domain= names {name!r}; the inputs are {', '.join(sorted(known))}.")
    return spec.get(leaf.name, spec.get(leaf.path))


def _applied(domain: Domain, which: int, spec: Any) -> Domain:
    if spec is None:
        return domain
    if spec == "symmetric":
        return replace(domain, symmetric=(*domain.symmetric, which))
    if spec == "definite":
        return replace(domain, definite=(*domain.definite, which))
    bounds = (*domain.bounds[:which], _interval(spec), *domain.bounds[which + 1 :])
    return replace(domain, bounds=bounds)


def _interval(spec: Any) -> tuple[float, float]:
    bounds = _NAMED.get(spec) if isinstance(spec, str) else spec
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise CheckError(
            f"domain= takes (low, high), 'positive', 'negative', 'unit', 'symmetric', 'definite' "
            f"or a dict of these by input; got {spec!r}."
        )
    low, high = bounds
    return -np.inf if low is None else float(low), np.inf if high is None else float(high)


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
    found = []
    for k, part in enumerate(layout.split(start)):
        square = part.ndim >= 2 and part.shape[-1] == part.shape[-2] > 1
        if square and np.array_equal(part, np.swapaxes(part, -1, -2).conj()):
            found.append(k)
    return tuple(found)
