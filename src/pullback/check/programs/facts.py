"""What the program of function and rule says of its comparisons: constants, and how far they are from turning."""

import math
from collections.abc import Sequence

import numpy as np

from pullback.check.probe import Array, Arrays, Facts, OutsideDomain, Traced
from pullback.check.programs.arrays import as_array
from pullback.check.programs.running import run_traced
from pullback.program.queries import (
    Turn,
    branches,
    compared_with,
    flat,
    formats,
    is_somebodys,
    turns,
    view_of,
)
from pullback.program.run import Run
from pullback.program.sweep import sweep

# More constants than this, or larger ones, are not thresholds that a check should go to.
_MOST, _LARGEST = 12, 1e12
_SHORT = frozenset({"float16", "bfloat16"})


def facts_of(traced: Traced) -> Facts:
    """Constants in the comparisons of function and rule."""
    view = flat(traced.engine, traced.program)
    found = [c for c in compared_with(view) if math.isfinite(c) and abs(c) < _LARGEST]
    kept = dict.fromkeys(round(c, 12) for c in found)
    return Facts(
        tuple(kept)[:_MOST],
        branches=branches(view),
        branches_on_sign=any(c <= 0 for c in kept),
        custom=is_somebodys(view),
        short=not _SHORT.isdisjoint(formats(view)),
        margins=any(turns(view, view.inputs[: len(traced.sources)])),
    )


class Margins:
    """How far the comparisons of function and rule are from turning.

    A margin is the difference of the two sides, entry by entry; `exact` says of each comparison whether it asks for
    equality, so that nothing but zero will do. `epsilon` is the rounding unit in which they are computed. Loops and
    branches are not looked into.
    """

    def __init__(self, traced: Traced, xs: Arrays, ws: Arrays) -> None:
        self.traced, self.ws, self.epsilon = traced, ws, traced.epsilon
        made = self._run(xs)
        self.turns = tuple(turns(view_of(made), made.inputs[: len(traced.sources)]))
        self.exact = tuple(turn.exact for turn in self.turns)

    def values(self, xs: Arrays) -> list[Array]:
        """The margins of all comparisons."""
        made = self._run(xs)
        return [_margin(made, turn) for turn in self.turns]

    def slope(self, xs: Arrays, which: int, entry: int) -> Sequence[Array | None]:
        """The derivative of one entry of one margin."""
        made, turn, engine = self._run(xs), self.turns[which], self.traced.engine
        upstream = np.zeros(_margin(made, turn).shape)
        upstream.ravel()[entry] = 1.0
        starts: dict[int, list[object]] = {}
        for number, sign in ((turn.left, 1), (turn.right, -1)):
            if number is not None:
                like = made.values[number]
                part = sign * _summed_to(upstream, np.asarray(engine.array(like)).shape)
                starts.setdefault(number, []).append(engine.tensor(part, like))
        found = sweep(made, starts, [made.inputs[k] for k in self.traced.sources])
        return [None if g is None else as_array(engine, g) for g in found]

    def _run(self, xs: Arrays) -> Run:
        try:
            return run_traced(self.traced, xs, self.ws)
        except self.traced.engine.refusals as error:
            raise OutsideDomain(str(error)) from error


def _margin(made: Run, turn: Turn) -> Array:
    left, right = (
        np.asarray(0.0 if n is None else made.engine.array(made.values[n]), np.float64)
        for n in (turn.left, turn.right)
    )
    return left - right


def _summed_to(array: Array, shape: tuple[int, ...]) -> Array:
    """An array summed along the axes along which one of this shape is spread."""
    array = array.sum(tuple(range(array.ndim - len(shape))))
    wide = tuple(k for k, size in enumerate(shape) if size == 1 and array.shape[k] > 1)
    return array.sum(wide, keepdims=True)
