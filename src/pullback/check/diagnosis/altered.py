"""The gradient of another program: with another mask, index or axis than the function has.

That is what a rule gives which computes the function anew, and takes something else there.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, combinations, permutations

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis import words
from pullback.check.diagnosis.draws import Draw
from pullback.check.diagnosis.explanations import Explanation
from pullback.check.diagnosis.inside import Inside
from pullback.check.diagnosis.moves import MIXING, moves
from pullback.check.probe import Array, OutsideDomain, Step
from pullback.check.programs.steps import Edge

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
        what = "the condition" if self.value.dtype.kind == "b" else "the indices"
        return f"{what} of {self.steps[0].op}"

    @property
    def are_axes(self) -> bool:
        """Whether they say along which axes something is summed."""
        return self.value.dtype.kind == "i" and self.steps[0].op.startswith(_REDUCTIONS)


def altered(inside: Inside) -> Iterator[Explanation]:
    """All operands of one value replaced, or those of one line; or two values by each other."""
    every = _held(inside)
    for held in every:
        for how, other in _others(held):
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
            key = step.op.startswith(_REDUCTIONS), value.dtype, value.shape, value.tobytes()
            for group in (key, (*key, step.place)) if value.dtype.kind in "biu" else ():
                held = found.setdefault(group, Held([], [], value))
                held.operands.append((s, i))
                held.steps.append(step)
    return list({tuple(held.operands): held for held in found.values()}.values())[: n.MANY]


def _others(held: Held) -> Iterator[tuple[str, Other]]:
    """What may have been taken in the place of an operand, in words."""
    name = held.name
    if held.value.dtype.kind == "b":
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
