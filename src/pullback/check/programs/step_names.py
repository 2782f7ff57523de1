"""What the steps of a program and their operands are called in the source."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from pullback.program.data import Node
from pullback.program.places import assigned, statement


class Named(NamedTuple):
    """A step's type, its statement and where that is, what its operands and its result are called."""

    op: str
    line: str
    place: str
    inputs: tuple[str, ...]
    output: str


def named(
    nodes: Sequence[Node], origins: Sequence[Sequence[tuple[int, int]]], leaves: Sequence[str]
) -> list[Named]:
    """The names of steps, given which step or input each operand comes from."""
    places = [statement(node.place) for node in nodes]
    ops = [node.op for node in nodes]
    here: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for k, place in enumerate(places):
        here[place].append(k)
    variable = [
        _one(assigned(place[0])) if _ends_line(ops, here[place], k) else ""
        for k, place in enumerate(places)
    ]
    return [
        Named(
            _counted(ops, here[place], k) if place[0] else ops[k],
            *place,
            tuple(leaves[i] if s < 0 else variable[s] for s, i in origins[k]),
            variable[k],
        )
        for k, place in enumerate(places)
    ]


def _counted(ops: Sequence[str], here: Sequence[int], k: int) -> str:
    """The type of a step, numbered where its line has several and runs once."""
    counts, op = Counter(ops[i] for i in here), ops[k]
    before = sum(ops[i] == op for i in here if i < k)
    return f"{op} no. {before + 1}" if min(counts.values()) == 1 and counts[op] > 1 else op


def _ends_line(ops: Sequence[str], here: Sequence[int], k: int) -> bool:
    """Whether a step is the last of its line, or of one of its runs: of the type of the last, once in each run."""
    counts, last = Counter(ops[i] for i in here), ops[here[-1]]
    return k == here[-1] or (ops[k] == last and counts[last] == min(counts.values()))


def _one(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ""
