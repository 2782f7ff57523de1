"""What the given arguments suggest of where a function is meant to be run; points that are made up keep to it.

Signs, whole numbers, sorted rows, rows that sum to one or have length one, and pairs of inputs of which one is always
below the other. A sign is left only where the program itself branches on it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

import numpy as np

from pullback.check import numbers as n
from pullback.check.probe import Array, Leaf
from pullback.check.subject import Layout

_BOUNDS = re.compile(
    r"(^|_)(lo|low|lower|hi|high|upper|min|max|minimum|maximum|start|stop|end|left|right)(_|$|\d)"
)


class _Property(NamedTuple):
    """What it is called, whether an array has it, and how to give it to another."""

    words: str
    is_of: Callable[[Array], bool]
    given_to: Callable[[Array], Array]


@dataclass(frozen=True)
class Suggested:
    """Properties by leaf, and pairs of leaves in order."""

    layout: Layout
    keeps: tuple[tuple[_Property, ...], ...]
    ordered: tuple[tuple[int, int, float], ...]

    def into(self, x: Array) -> Array:
        """The point, or one near it that has the properties of the given one."""
        if not any(self.keeps) and not self.ordered:
            return x
        parts = self.layout.split(x)
        for k, keeps in enumerate(self.keeps):
            for keep in keeps:
                parts[k] = keep.given_to(parts[k])
        return self.in_order(self.layout.join(parts).copy())

    def in_order(self, x: Array) -> Array:
        """The point with what is always below the other below the other."""
        parts = self.layout.split(x)
        for low, high, apart in self.ordered:
            parts[low], parts[high] = _in_order(parts[low], parts[high], apart)
        return self.layout.join(parts).copy() if self.ordered else x

    def describe(self) -> list[str]:
        """What is kept, in words."""
        leaves = self.layout.leaves
        texts = [
            f"{leaf.name} {', '.join(keep.words for keep in keeps)}"
            for leaf, keeps in zip(leaves, self.keeps, strict=True)
            if keeps
        ]
        return texts + [f"{leaves[a].name} < {leaves[b].name}" for a, b, _ in self.ordered]


def suggested_by(layout: Layout, start: Array, *, signs: bool) -> Suggested:
    """The properties of the given arguments; `signs` tells whether those are kept."""
    parts = layout.split(start)
    keeps = tuple(
        _properties(part, signs) if _is_plain(leaf) else ()
        for leaf, part in zip(layout.leaves, parts, strict=True)
    )
    return Suggested(layout, keeps, tuple(_ordered(layout, parts)))


def _properties(part: Array, signs: bool) -> tuple[_Property, ...]:
    """Its sign, and the first other property that it has."""
    if part.size == 0 or not np.isfinite(part).all():
        return ()
    kinds = (_SIGNS, _FORMS) if signs else (_FORMS,)
    firsts = (next((one for one in kind if one.is_of(part)), None) for kind in kinds)
    return tuple(filter(None, firsts))


def _has_rows(part: Array, of: int) -> bool:
    return part.ndim > 0 and part.shape[-1] >= of


def _sums_to_one(part: Array) -> bool:
    return _has_rows(part, n.SEVERAL) and bool(np.all(np.abs(np.sum(part, -1) - 1) < n.UNIT_SUM))


def _is_shares(part: Array) -> bool:
    return _sums_to_one(part) and bool((part >= 0).all())


def _summing_to_one(part: Array) -> Array:
    total = np.sum(np.abs(part), -1, keepdims=True)
    return np.where(total > 0, np.abs(part) / np.where(total > 0, total, 1), 1 / part.shape[-1])


def _of_length_one(part: Array) -> Array:
    length = np.sqrt(np.sum(part**2, -1, keepdims=True))
    return np.where(length > 0, part / np.where(length > 0, length, 1), part.shape[-1] ** -0.5)


def _is_sorted(part: Array) -> bool:
    return _has_rows(part, n.SEVERAL + 1) and bool((np.diff(part) >= 0).all() and np.ptp(part) > 0)


def _is_whole(part: Array) -> bool:
    return part.size >= n.SEVERAL and bool((part == np.round(part)).all() and np.ptp(part) > 0)


_SIGNS = (
    _Property("positive", lambda part: bool((part >= 0).all()), np.abs),
    _Property("negative", lambda part: bool((part <= 0).all()), lambda part: -np.abs(part)),
)
_FORMS = (
    _Property("summing to one", _is_shares, _summing_to_one),
    _Property("of length one", lambda p: _sums_to_one(p**2), _of_length_one),
    _Property("sorted", _is_sorted, np.sort),
    _Property("whole numbers", _is_whole, np.round),
)


def _ordered(layout: Layout, parts: Sequence[Array]) -> list[tuple[int, int, float]]:
    """Pairs of inputs of one shape, one below the other throughout, and how far: in many places, or by their names."""
    found = []
    for (a, one), (b, other) in permutations(enumerate(parts), 2):
        pair = layout.leaves[a], layout.leaves[b]
        if one.shape == other.shape and all(map(_is_plain, pair)):
            many = one.size > n.SEVERAL or all(_BOUNDS.search(leaf.name) for leaf in pair)
            if many and (one < other).all() and np.isfinite(other - one).all():
                found.append((a, b, float(np.median(other - one))))
    return found


def _is_plain(leaf: Leaf) -> bool:
    return not leaf.is_complex and leaf.kind != "variable"


def _in_order(low: Array, high: Array, apart: float) -> tuple[Array, Array]:
    half = np.where(low == high, apart / 2, 0.0)
    return np.minimum(low, high) - half, np.maximum(low, high) + half
