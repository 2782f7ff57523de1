"""What one run does not show of a source from which no path leads to the result.

Does the result change with it all the same? Is it named on a line that did not run? Was it assigned or read elsewhere?
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pullback.explain.data import Hint, Place
from pullback.explain.sources import Entry, behind, made_of
from pullback.program.data import Node, Program
from pullback.program.run import Event

# Sources that are moved one by one, each of which costs a run.
_MOST_MOVED = 8

NotTaken = tuple[Sequence[int], Program]  # what a branch would have read, and its program


@dataclass(frozen=True, slots=True)
class Mention:
    """Where code names a source that the run never met, and what that means."""

    place: Place
    hints: tuple[Hint, ...]
    decided_at: Place | None = None


class Trials(Protocol):
    """What an engine does to find out more."""

    def assigns(self, node: Node) -> bool:
        """Whether an operation writes its second input into the variable that is its first."""
        ...

    def was_read_before(self, entry: Entry, needed: set[int]) -> bool:
        """Whether a tensor with a variable's numbers is part of the result, and the variable is not."""
        ...

    def results(self, moved: Sequence[Entry]) -> list[Any]:
        """The results of another run, as arrays, with other numbers in some sources."""
        ...

    def left_at(self, entry: Entry) -> Place | None:
        """Where the code takes a source's numbers out of the tensors."""
        ...

    def named_on(self, entry: Entry) -> Mention | None:
        """Where the code names a source that the run never met, and what that means."""
        ...


def look_into(
    entries: Iterable[Entry],
    events: Sequence[Event],
    starts: Iterable[int],
    not_taken: Callable[[], Iterable[NotTaken]],
    trials: Trials,
) -> None:
    """Fill in what is asked of the sources from which no path leads to the result."""
    entries = list(entries)
    needed = behind(events, starts)
    lost = [e for e in entries if e.flows and e.gradient is None and needed.isdisjoint(e.values)]
    if not lost:
        return
    for entry in lost:
        if _is_assigned(entry, entries, events, needed, trials):
            entry.hints.append(Hint.ASSIGNED)
        if entry.is_variable and trials.was_read_before(entry, needed):
            entry.hints.append(Hint.READ_BEFORE)
    _move(lost, trials)
    for entry in lost:
        if entry.moves:
            entry.place = trials.left_at(entry)
        elif not _is_read(entry, events) and Hint.READ_BEFORE not in entry.hints:
            found, traced = trials.named_on(entry), _branch_not_taken(entry, events, not_taken())
            entry.place = found.place if found else traced
            entry.hints += found.hints if found else ()
            entry.hints += [Hint.ZEROS] if traced else []
            entry.decided_at = found.decided_at if found else None


def _is_read(entry: Entry, events: Iterable[Event]) -> bool:
    return any(not set(entry.values).isdisjoint(event.inputs) for event in events)


def _is_assigned(
    entry: Entry,
    entries: Iterable[Entry],
    events: Sequence[Event],
    needed: set[int],
    trials: Trials,
) -> bool:
    """Whether something made of a source is written into a variable that is read."""
    made = made_of(events, entry.values)
    for event in events:
        if len(event.inputs) < 2 or not trials.assigns(event.node):
            continue
        handle, value = event.inputs[:2]
        variables = [e for e in entries if handle in e.values]
        read = handle in needed or any(not needed.isdisjoint(e.values) for e in variables)
        if value in made and handle not in entry.values and read:
            return True
    return False


def _move(lost: Sequence[Entry], trials: Trials) -> None:
    """Run again, as before and with the sources moved."""
    movable = [e for e in lost if e.kind != "tensor" and np.prod(e.shape)]
    try:
        before = trials.results(())
        if not movable or _alike(before, trials.results(movable)):
            for entry in movable:
                entry.moves = False
            return
        for entry in movable[:_MOST_MOVED]:
            entry.moves = len(movable) == 1 or not _alike(before, trials.results([entry]))
    except Exception:  # it ran once, and does not run like this: nothing more is known
        return


def _branch_not_taken(
    entry: Entry, events: Sequence[Event], not_taken: Iterable[NotTaken]
) -> Place | None:
    """Where a branch of a traced function reads it that was not taken."""
    made = made_of(events, entry.values)
    for given, body in not_taken:
        read = {v for number, v in zip(given, body.inputs, strict=False) if number in made}
        for node in body.nodes:
            if node.place is not None and not read.isdisjoint(node.inputs):
                return node.place
    return None


def _alike(before: Sequence[Any], after: Sequence[Any]) -> bool:
    if len(before) != len(after):
        return False
    pairs = zip(before, after, strict=True)
    return all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)
