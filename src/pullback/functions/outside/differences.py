"""A gradient by central differences of a function of NumPy arrays.

Each result is subtracted from itself before anything is summed: beside a large result a small one keeps its digits, and
one that is infinite spoils no other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def differences(
    fn: Callable[..., Any],
    upstream: Sequence[Any],
    inputs: Sequence[Any],
    taking: Sequence[int],
    step: float | None,
) -> list[Any]:
    """One gradient for each input that takes one, in float64 as far as the function computes in it."""
    return _Differences(fn, upstream, inputs, taking, step).gradients()


class _Differences:
    def __init__(
        self,
        fn: Callable[..., Any],
        upstream: Sequence[Any],
        inputs: Sequence[Any],
        taking: Sequence[int],
        step: float | None,
    ) -> None:
        self.fn, self.inputs, self.taking = fn, inputs, taking
        self.upstream = [_wide(u) for u in upstream]
        self.wide = [_wide(x) if i in taking else x for i, x in enumerate(inputs)]
        self.step, self.eps = step, float(np.finfo(np.float64).eps)

    def gradients(self) -> list[Any]:
        found = [np.zeros_like(self.wide[i]) for i in self.taking]
        for gradient, i in zip(found, self.taking, strict=True):
            for place in np.ndindex(*gradient.shape):
                gradient[place] = self._slope(i, place, 1.0)
                if np.iscomplexobj(gradient):
                    gradient[place] += 1j * self._slope(i, place, 1j)
        return [g.astype(self.inputs[i].dtype) for g, i in zip(found, self.taking, strict=True)]

    def _slope(self, i: int, place: tuple[int, ...], direction: complex) -> float:
        # Of truncation and rounding the sum is least at the cube root of a rounding.
        h = (self.step or self.eps ** (1 / 3)) * max(1.0, abs(self.wide[i][place]))
        above, below = (self._moved(i, place, sign * h * direction) for sign in (1.0, -1.0))
        # What was rounded away from the step is not in the way gone either.
        gone = float(abs(above[place] - below[place]))
        ends = [listed(self.fn(*self.wide[:i], x, *self.wide[i + 1 :])) for x in (above, below)]
        coarsest = max(map(_eps_of, ends[0]), default=0.0)
        if self.step is None and coarsest > self.eps:
            self.eps = coarsest
            return self._slope(i, place, direction)
        pairs = zip(self.upstream, *ends, strict=True)
        return sum(_change(u, y, z) for u, y, z in pairs) / gone

    def _moved(self, i: int, place: tuple[int, ...], by: complex) -> Any:
        moved = self.wide[i].copy()
        moved[place] += by
        return moved


def listed(found: Any) -> list[Any]:
    """What a function returned, as a list of one or several."""
    return list(found) if isinstance(found, (tuple, list)) else [found]


def _wide(x: Any) -> Any:
    x = np.asarray(x)
    return x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)


def _eps_of(found: Any) -> float:
    """How coarse the numbers are that a function gave."""
    dtype = np.asarray(found).dtype
    return float(np.finfo(dtype).eps) if dtype.kind in "fc" else 0.0


def _change(upstream: Any, above: Any, below: Any) -> float:
    """What the change of one result counts; equal infinities do not change, and what nobody asks for is 0."""
    above, below = _wide(above), _wide(below)
    counts = (above != below) & (upstream != 0)
    change = np.subtract(above, below, out=np.zeros_like(above), where=counts)
    return float(np.sum((np.conj(upstream) * change).real))
