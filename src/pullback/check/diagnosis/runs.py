"""The same slip in every run of a line: of a loop that was unrolled.

What flows back through one run goes into the one before, so the whole program is swept through with the slip in it.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis import words
from pullback.check.diagnosis.explanations import Explanation
from pullback.check.diagnosis.inside import At, Inside
from pullback.check.probe import Array
from pullback.check.programs.steps import Slips
from pullback.check.report import FindingKind

# A kind, what is said, the steps that have the slip, and what is done to one of them.
Slip = tuple[FindingKind, str, Sequence[int], Callable[[At, Slips, int], None]]


def runs(inside: Inside) -> Iterator[Explanation]:
    """One slip in all runs of an operation, or in all but one; the plain before the complex."""
    groups = list(_groups(inside)) if inside.is_whole else []
    kinds = _scaled, _neighbours
    slips = (slip for kind in kinds for group in groups for slip in kind(inside, group))
    for kind, text, group, change in islice(slips, n.MOST_SWEEPS):
        yield inside.swept(kind, text, group, change)


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
        back = words.flows_back(step, j, "has the wrong sign")
        yield (
            "term",
            words.scaled([[(step, j)]], [0.0]),
            group,
            lambda _, w, s, j=j: w.scale(s, j, 0),
        )
        yield "sign", back, group, lambda _, w, s, j=j: w.scale(s, j, -1)
        for word, rest in (("first", group[1:]), ("last", group[:-1])):
            text = words.flows_back(step, j, f"is zero but in the {word} run of the line")
            yield "term", text, rest, lambda _, w, s, j=j: w.scale(s, j, 0)
        at, s = inside.at(inside.here), group[-1]
        if at.outputs[s][0].shape == at.inputs[s][j].shape:
            text = words.slip(step, j, "taken as 1")
            yield (
                "slip",
                text,
                group,
                lambda a, w, s, j=j: w.take(s, j, np.ones_like(a.outputs[s][0])),
            )


def _neighbours(inside: Inside, group: list[int]) -> Iterator[Slip]:
    """With the result of an operation somewhat earlier or later in the place of an operand: of another run."""
    at, usual = inside.at(inside.here), group[len(group) // 2]
    step, reach = inside.steps[usual], 2 * min(b - a for a, b in pairwise(group))

    def there(a: At, s: int, i: int, by: int) -> list[Array]:
        found = a.outputs[s + by][:1] if 0 <= s + by < len(a.outputs) else []
        return [value for value in found if value.shape == a.inputs[s][i].shape]

    for i in range(len(step.inputs)):
        for by in sorted(range(-reach, reach + 1), key=abs):

            def change(a: At, w: Slips, s: int, i: int = i, by: int = by) -> None:
                for value in there(a, s, i, by):
                    w.put(s, i, value, a.inputs[s][i].dtype)

            if there(at, usual, i, by):
                op, where = inside.steps[usual + by].op, "later" if by > 0 else "earlier"
                how = f"with the result of {op}, {abs(by)} operations {where}, in place of "
                text = words.slip(step, None, how + words.operand(step, i))
                yield "slip", text, group, change
