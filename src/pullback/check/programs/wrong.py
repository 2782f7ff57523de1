"""Whose gradient is wrong: every operation of a program by itself, against differences of its own.

It is asked for when a gradient is wrong and no custom gradient is at work, so that the blame lies with the engine; and
of what a rule is made of, where it is right and its own derivative is not.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.check.probe import Array, Arrays, Leaf, Traced
from pullback.check.programs.running import run_traced
from pullback.program.places import statement
from pullback.program.queries import view_of
from pullback.program.run import Event, Run
from pullback.program.words import Word

# Steps of differences relative to an operation's inputs, in powers of the rounding unit; and a mismatch that is no
# rounding.
_STEPS = (1 / 4, 1 / 3)
_MISMATCH = 1e-2


@dataclass(frozen=True)
class WrongOperations:
    """Types of the engine's operations that are to blame; `stopped` is where the user's code stops a gradient."""

    names: tuple[str, ...] = ()
    stopped: str = ""


def wrong_operations(traced: Traced, xs: Arrays, ws: Arrays, order: int) -> WrongOperations:
    """The types of operations whose gradient, or the gradient of that for order 2, is not that of their values.

    Where nothing but what was stopped on purpose is (right to first order, as in a variance), the line that does so.
    """
    made = run_traced(traced, xs, ws)
    found = _wrong(made, order)
    stopped = [event for event in made.events if _word(made, event) is Word.STOP]
    return WrongOperations(tuple(found)) if found or not stopped else _stopping(stopped[0])


def wrong_in_rule(traced: Traced, xs: Arrays, ws: Arrays) -> tuple[str, ...]:
    """The types of operations in function and rule whose gradient is wrong: with them the derivative of a rule is."""
    return tuple(_wrong(run_traced(traced, xs, ws), 1))


def _word(made: Run, event: Event) -> Word:
    return made.engine.words.get(event.node.op, Word.OTHER)


def _stopping(event: Event) -> WrongOperations:
    """The line in which a user stops a gradient; the type of the operation where the engine does."""
    text, place = statement(event.node.place)
    call = re.search(r"[\w.]*stop_gradient", text)
    if call:
        return WrongOperations(stopped=f"{place} ({call.group()})")
    return WrongOperations((event.node.op,))


def _wrong(made: Run, order: int) -> list[str]:
    moving = view_of(made).depending(made.inputs)
    for symmetric in (True, False):
        found: list[str] = []
        for event in made.events:
            op = event.node.op
            if (
                op not in found
                and _is_tested(made, event)
                and _is_wrong(made, event, moving, order, symmetric=symmetric)
            ):
                found.append(op)
        if found:
            return found
    return []


def _is_tested(made: Run, event: Event) -> bool:
    """Loops and branches are not, nor what is there to stop gradients or for the sake of a rule."""
    return not (event.node.bodies or event.node.carries or _word(made, event) is Word.STOP)


def _is_wrong(made: Run, event: Event, moving: set[int], order: int, *, symmetric: bool) -> bool:
    """Whether an operation's derivative differs from that of its values."""
    values = [made.values[n] for n in (*event.inputs, *event.outputs)]
    arrays = [a for a in map(made.engine.array, values) if a is not None and _is_real(a)]
    if not all(np.isfinite(a).all() for a in arrays):
        return False  # what is not finite came from elsewhere
    inputs = values[: len(event.inputs)]
    which = [k for k, n in enumerate(event.inputs) if n in moving and _is_number(made, inputs[k])]
    if not which or not any(_is_number(made, y) for y in values[len(inputs) :]):
        return False
    try:
        return _Alone(made, event, inputs, which, symmetric=symmetric).is_wrong(order)
    except LookupError:
        return True  # there is no gradient to be had
    except Exception:  # what cannot be run by itself is not blamed
        return False


def _is_real(array: Array) -> bool:
    return (
        array.dtype.kind in "fV"
    )  # short formats that are none of NumPy's own have a kind of theirs


def _is_number(made: Run, tensor: Any) -> bool:
    array = made.engine.array(tensor)
    return array is not None and _is_real(array)


class _Alone:
    """One operation as a function of its floating-point inputs, weighted to one number.

    Matrices that are symmetric are moved within those if they shall stay so.
    """

    def __init__(
        self, made: Run, event: Event, inputs: Sequence[Any], which: list[int], *, symmetric: bool
    ) -> None:
        self.engine, self.node, self.dtype = made.engine, event.node, made.dtype
        self.inputs, self.which, self.symmetric = list(inputs), which, symmetric
        self.rng = np.random.default_rng(0)
        self.start = [np.asarray(self.engine.array(inputs[k])) for k in which]
        self.u, self.v = ([self._like(x) for x in self.start] for _ in range(2))
        self.w = [
            self.engine.tensor(self.rng.uniform(0.5, 1.5, a.shape), y) if _is_real(a) else None
            for y in self._outputs(self.inputs)
            for a in [np.asarray(self.engine.array(y))]
        ]

    def is_wrong(self, order: int) -> bool:
        """Whether the claimed derivative along a line is not what differences say, at both of two steps."""
        of, along = (self._value, self.u) if order == 1 else (self._slope, self.v)
        terms = list(self._first(self.start) if order == 1 else self._second())
        claimed, usual = sum(map(np.sum, terms)), sum(np.sum(np.abs(t)) for t in terms)
        epsilon = max(Leaf("", "", (), x.dtype.name).epsilon for x in self.start)
        gaps = []
        for power in _STEPS:
            h = float(epsilon**power)
            above, below = (of(self._moved(along, s * h)) for s in (1, -1))
            measured = (above - below) / (2 * h)
            size = abs(measured) + usual + abs(above) * epsilon ** (1 - power)
            gaps.append(abs(measured - claimed) / size if size else 0.0)
        return not min(gaps) <= _MISMATCH

    def _value(self, moved: Arrays) -> float:
        pairs = zip(self.w, self._outputs(self._with(moved)), strict=True)
        return float(
            sum(np.sum(self._array(w) * self._array(y)) for w, y in pairs if w is not None)
        )

    def _slope(self, moved: Arrays) -> float:
        return float(sum(map(np.sum, self._first(moved))))

    def _first(self, moved: Arrays) -> Iterator[Array]:
        """The derivative along a direction, entry by entry, before it is summed."""
        inputs = self._with(moved)
        found = self.engine.vjp(self.node, inputs, self._outputs(inputs), self.w, self.dtype)
        for k, u in zip(self.which, self.u, strict=True):
            if found[k] is not None:
                yield self._array(found[k]) * u

    def _second(self) -> Iterator[Array]:
        """The derivative of that along another one."""
        inputs, directions = self._with(self.start), [None] * len(self.inputs)
        for k, u in zip(self.which, self.u, strict=True):
            directions[k] = self.engine.tensor(u, inputs[k])
        found = self.engine.second(self.node, inputs, self.w, directions, self.dtype)
        for k, v in zip(self.which, self.v, strict=True):
            if found[k] is not None:
                yield self._array(found[k]) * v

    def _outputs(self, inputs: list[Any]) -> list[Any]:
        return self.engine.run(self.node, inputs, self.dtype)

    def _with(self, moved: Arrays) -> list[Any]:
        inputs = list(self.inputs)
        for k, x in zip(self.which, moved, strict=True):
            inputs[k] = self.engine.tensor(x, inputs[k])
        return inputs

    def _array(self, tensor: Any) -> Array:
        return np.asarray(self.engine.array(tensor)).astype(np.float64)

    def _moved(self, along: Arrays, t: float) -> list[Array]:
        return [np.asarray(x + t * u, x.dtype) for x, u in zip(self.start, along, strict=True)]

    def _like(self, x: Array) -> Array:
        x = x.astype(np.float64)
        size = np.abs(x) + (np.mean(np.abs(x)) or 1.0)
        made = size * self.rng.uniform(0.5, 1.5, x.shape) * self.rng.choice([-1, 1], x.shape)
        is_square = x.ndim > 1 and x.shape[-1] == x.shape[-2]
        if self.symmetric and is_square and np.allclose(x, np.swapaxes(x, -1, -2)):
            return (made + np.swapaxes(made, -1, -2)) / 2
        return made
