"""The same slip in every run of a line: of a loop that was unrolled.

What flows back through one run goes into the one before, so the whole program is swept through with the slip in it.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis import words
from pullback.check.diagnosis.explanations import Explanation
from pullback.check.diagnosis.inside import At, Inside, Sweep
from pullback.check.diagnosis.moves import forms
from pullback.check.diagnosis.slips import moved, others
from pullback.check.probe import Array

# A kind, what is said, and what is done to a sweep.
Slip = tuple[str, str, Callable[[At, Sweep], None]]


def runs(inside: Inside) -> Iterator[Explanation]:
    """One slip in all runs of an operation, or in all but one; the plain before the complex."""
    groups, tried = list(_groups(inside)) if inside.is_whole else [], 0
    for slips_of in (_scaled, _replaced, _neighbours, _formed):
        for kind, text, change in (slip for group in groups for slip in slips_of(inside, group)):
            tried += 1
            if tried <= n.MOST_SWEEPS:
                yield inside.swept(kind, text, change)


def _groups(inside: Inside) -> Iterator[list[int]]:
    """The steps that are one operation of a line; a line runs as often as its rarest operation."""
    lines: dict[str, dict[str, list[int]]] = {}
    for s, step in enumerate(inside.steps):
        lines.setdefault(step.place, {}).setdefault(step.op, []).append(s)
    for line in lines.values():
        times = min(map(len, line.values()))
        for steps in line.values() if times > 1 else ():
            each = len(steps) // times if len(steps) % times == 0 else 1
            for group in (steps[k::each] for k in range(each)):
                # a first run may begin with a constant
                inputs = len(inside.steps[group[-1]].inputs)
                yield [s for s in group if len(inside.steps[s].inputs) == inputs]


def _scaled(inside: Inside, group: list[int]) -> Iterator[Slip]:
    """Left out, or with the wrong sign; left out in all runs but one; or passed through."""
    step = inside.steps[group[-1]]
    for j in range(len(step.inputs)):
        yield "term", words.scaled([[(step, j)]], [0.0]), _times(group, j, 0.0)
        yield "sign", words.flows_back(step, j, "has the wrong sign"), _times(group, j, -1.0)
        for word, rest in (("first", group[1:]), ("last", group[:-1])):
            text = words.flows_back(step, j, f"is zero but in the {word} run of the line")
            yield "term", text, _times(rest, j, 0.0)
        if _fits(inside, group, j):
            yield "slip", words.slip(step, j, "taken as 1"), _taken_as(group, j, np.ones_like)


def _replaced(inside: Inside, group: list[int]) -> Iterator[Slip]:
    """Differentiated at other values: an operand moved, or another in its place."""
    at, last = inside.at(inside.here), group[-1]
    for i in range(len(inside.steps[last].inputs)):
        for choices in (moved, others):
            for m, (how, _) in enumerate(choices(inside, at, last, i)[:2]):

                def value(a: At, s: int, i: int = i, m: int = m, c: Choices = choices) -> Array:
                    known = c(inside, a, s, i)
                    return known[m][1] if m < len(known) else a.inputs[s][i]

                yield "slip", words.slip(inside.steps[last], None, how), _at_values(group, i, value)


def _neighbours(inside: Inside, group: list[int]) -> Iterator[Slip]:
    """With the result of an operation somewhat earlier or later in the place of an operand: of another run."""
    at, first = inside.at(inside.here), group[0]
    reach = 2 * min(b - a for a, b in pairwise(group))
    for i in range(len(inside.steps[first].inputs)):
        for by in sorted(range(-reach, reach + 1), key=abs):

            def value(a: At, s: int, i: int = i, by: int = by) -> Array:
                here = a.inputs[s][i]
                there = a.outputs[s + by][0] if 0 <= s + by < len(a.outputs) else here
                return there if there.shape == here.shape else here

            usual = group[len(group) // 2]
            if value(at, usual) is not at.inputs[usual][i]:
                op, where = inside.steps[usual + by].op, "later" if by > 0 else "earlier"
                name = words.operand(inside.steps[usual], i)
                how = f"with the result of {op}, {abs(by)} operations {where}, in place of {name}"
                text = words.slip(inside.steps[usual], None, how)
                yield "slip", text, _at_values(group, i, value)


def _formed(inside: Inside, group: list[int]) -> Iterator[Slip]:
    """The derivative taken as some form of the result."""
    step = inside.steps[group[-1]]
    for j in range(len(step.inputs)):
        if _fits(inside, group, j):
            for text, form in forms(words.result(step)):
                yield "slip", words.slip(step, j, f"taken as {text}"), _taken_as(group, j, form)


Choices = Callable[[Inside, At, int, int], list[tuple[str, Array]]]


def _fits(inside: Inside, group: list[int], j: int) -> bool:
    at, s = inside.at(inside.here), group[-1]
    return at.outputs[s][0].shape == at.inputs[s][j].shape


def _times(group: Sequence[int], j: int, number: float) -> Callable[[At, Sweep], None]:
    def change(_: At, sweep: Sweep) -> None:
        for s in group:
            sweep.factors[s][j] = number * sweep.factors[s][j]

    return change


def _taken_as(
    group: Sequence[int], j: int, form: Callable[[Array], Array]
) -> Callable[[At, Sweep], None]:
    def change(at: At, sweep: Sweep) -> None:
        for s in group:
            sweep.factors[s][j] = 0 * sweep.factors[s][j]
            sweep.own[s][j] = form(at.outputs[s][0])

    return change


def _at_values(
    group: Sequence[int], i: int, value: Callable[[At, int], Array]
) -> Callable[[At, Sweep], None]:
    def change(at: At, sweep: Sweep) -> None:
        for s in group:
            sweep.inputs[s][i] = np.asarray(value(at, s), at.inputs[s][i].dtype)

    return change
