"""The gradient of another program: with another constant, mask, index or axis than the function has.

That is what a rule gives which computes the function anew, and takes something else there. A number that is not known
is found by Newton's method at one draw, and must predict all the others.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, combinations, permutations

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis import words
from pullback.check.diagnosis.draws import Draw
from pullback.check.diagnosis.explanations import Explanation
from pullback.check.diagnosis.inside import Edge, Inside
from pullback.check.diagnosis.moves import MIXING, moves
from pullback.check.probe import Array, OutsideDomain, Step

Other = Callable[[Array], Array]
_REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod")


@dataclass(frozen=True, eq=False)
class Held:
    """Operands that do not depend on the arguments and have one value."""

    operands: list[Edge]
    steps: list[Step]
    value: Array

    @property
    def name(self) -> str:
        """What they are called."""
        return words.held(self.steps, self.value)

    @property
    def are_axes(self) -> bool:
        """Whether they say along which axes something is summed."""
        return self.value.dtype.kind == "i" and self.steps[0].op.startswith(_REDUCTIONS)


def altered(inside: Inside) -> Iterator[Explanation]:
    """All operands of one value replaced, or those of one line; or two values by each other."""
    every = _held(inside)
    for held in every:
        for how, other in _others(inside, held):
            yield _explanation(inside, words.altered(how, held.steps), (held, other))
    for a, b in permutations(every[: n.FEW], 2):
        same = a.value.shape == b.value.shape and a.value.dtype == b.value.dtype
        if same and not set(a.operands) & set(b.operands):
            one, other = (a, lambda _, v=b.value: v), (b, lambda _, v=a.value: v)
            text = words.altered(f"{b.name} in place of {a.name}", a.steps)
            yield _explanation(inside, text, one)
            text = words.altered(f"{a.name} and {b.name} in each other's place", ())
            yield _explanation(inside, text, one, other)


def _held(inside: Inside) -> list[Held]:
    found: dict[tuple[object, ...], Held] = {}
    for s, (step, values) in enumerate(
        zip(inside.program.holders, inside.at(inside.here).held, strict=True)
    ):
        for i, value in enumerate(values):
            size = np.abs(value) if value.dtype.kind == "f" else value
            key = step.op.startswith(_REDUCTIONS), value.dtype, value.shape, size.tobytes()
            for group in (key, (*key, step.place)):
                held = found.setdefault(group, Held([], [], value))
                held.operands.append((s, i))
                held.steps.append(step)
    return list({tuple(held.operands): held for held in found.values()}.values())[: n.MANY]


def _others(inside: Inside, held: Held) -> Iterator[tuple[str, Other]]:
    """What may have been taken in the place of an operand, in words."""
    kind, name = held.value.dtype.kind, held.name
    if kind == "f":
        number = _fitted(inside, held, float(np.abs(held.value).mean()))
        if number is not None:
            yield f"{words.short(number)} in place of {name}", _all_of(number)
    elif kind == "b":
        yield f"{name} taken as true everywhere", np.ones_like
        yield f"{name} taken as false everywhere", np.zeros_like
        yield f"{name} the other way round", np.logical_not
    elif held.are_axes:
        for axes in chain.from_iterable(combinations(range(4), k) for k in (1, 2, 3)):
            how = f"{held.steps[0].op} along axes {list(axes)}"
            yield how, lambda v, a=axes: np.array(a, v.dtype)
    else:
        yield f"{name} sorted", lambda v: np.sort(v, axis=None).reshape(v.shape)
        yield f"{name} one too large", lambda v: v + 1
        yield f"{name} one too small", lambda v: v - 1
        for move in moves(held.value.shape):
            if move.kind not in MIXING:
                yield f"{name} {move.how}", move.apply


def _all_of(number: float) -> Other:
    """One number all over; where it was a number before, with its sign."""
    return lambda v: np.full_like(v, number) * (1 if v.ndim else np.sign(v))


def _explanation(inside: Inside, text: str, *others: tuple[Held, Other]) -> Explanation:
    def predict(draw: Draw) -> Array:
        every = [list(values) for values in inside.at(draw).held]
        for held, other in others:
            for s, i in held.operands:
                every[s][i] = np.asarray(other(every[s][i]), every[s][i].dtype)
        try:
            return inside.altered(draw, every)
        except OutsideDomain:  # not every program can be run
            return np.full(inside.case.shape, np.nan)

    return Explanation("constant", text, predict)


def _fitted(inside: Inside, held: Held, start: float) -> float | None:
    """The number in the place of an operand with which the program gives what the rule gives."""
    here, number, first = inside.here, start, 0.0

    def off(number: float) -> Array:
        predicted = _explanation(inside, "", (held, _all_of(number))).predict(here)
        return predicted - inside.case.r(here)

    now = off(number)
    for k in range(n.FEW):
        first = first or float(np.sum(now**2))
        step = n.EXPLAINED * (abs(number) or 1.0)
        slope = (off(number + step) - now) / step
        size = float(np.sum(slope**2))
        if not np.isfinite(size) or not size or (k > 2 and np.sum(now**2) > first / 4):
            return None
        move = -float(np.sum(slope * now)) / size
        number, now = number + move, off(number + move)
        if abs(move) <= n.AGREE**2 * abs(number):
            break
    plain = float(f"{number:.4g}")
    return plain if abs(plain - number) <= n.AGREE * abs(number) else words.plain_number(number)
