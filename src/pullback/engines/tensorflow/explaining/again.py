"""What one run does not tell of a source from which no path leads to the result.

Does the result change with it all the same? Is it named on a line that did not run? Was it assigned or read elsewhere?
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.explaining import rules, steps
from pullback.engines.tensorflow.explaining.interpret import Interpreter
from pullback.engines.tensorflow.explaining.lines import Lines, place_at
from pullback.engines.tensorflow.explaining.sources import ASSIGNED, READ_BEFORE, Entry, Sources
from pullback.engines.tensorflow.explaining.stream import Stream
from pullback.engines.tensorflow.explaining.subject import Subject
from pullback.engines.tensorflow.probing.arguments import outputs_of
from pullback.engines.tensorflow.probing.state import State, seeded
from pullback.engines.tensorflow.tf_private import explaining
from pullback.extend import flow

# Sources that are moved one by one, each of which costs a run.
_MOST_MOVED = 8
_SEED = 0

Positions = dict[str, set[tuple[int, int]]]  # by file: line and column of what ran


class Again:
    """Questions that are asked after a run."""

    def __init__(
        self,
        subject: Subject,
        stream: Stream,
        interpreter: Interpreter,
        sources: Sources,
        lines: Lines,
    ) -> None:
        self.subject, self.stream, self.interpreter = subject, stream, interpreter
        self.sources, self.lines = sources, lines

    def ask(self, starts: Iterable[int], state: State) -> None:
        """Fill in what is asked of the sources that need it."""
        needed = self._needed(starts)
        lost = [
            e
            for e in self.sources.differentiable()
            if e.gradient is None and needed.isdisjoint(e.values)
        ]
        if not lost:
            return
        for entry in lost:
            self._hint(entry, needed)
        ran = self._move(lost, state)
        for entry in lost:
            if not entry.moves:
                entry.place = self._branch_not_taken(entry) or self._not_run(entry, ran)

    def _needed(self, starts: Iterable[int]) -> set[int]:
        """The values that the result was made of."""
        needed = set(starts)
        for record in reversed(self.stream.records):
            if not needed.isdisjoint(record.outputs):
                needed.update(record.inputs)
        return needed

    def _made_of(self, entry: Entry) -> set[int]:
        reached = set(entry.values)
        for record in self.stream.records:
            if not reached.isdisjoint(record.inputs):
                reached.update(record.outputs)
        return reached

    # hints

    def _hint(self, entry: Entry, needed: set[int]) -> None:
        made = self._made_of(entry)
        for record in self.stream.records:
            if record.type not in rules.ASSIGNING or len(record.inputs) < 2:
                continue
            handle, value = record.inputs[:2]
            variables = [e for e in self.sources.entries if handle in e.values]
            read = handle in needed or any(not needed.isdisjoint(e.values) for e in variables)
            if (
                value in made
                and handle not in entry.values
                and read
                and ASSIGNED not in entry.hints
            ):
                entry.hints.append(ASSIGNED)
        if isinstance(entry.thing, tf.Variable) and self._was_read_before(entry.thing, needed):
            entry.hints.append(READ_BEFORE)

    def _was_read_before(self, variable: Any, needed: set[int]) -> bool:
        """Whether a tensor with the variable's numbers is part of the result, and the variable is not."""
        given = [e.thing for e in self.sources.entries if not isinstance(e.thing, tf.Variable)]
        alike = [t for t in given if t.dtype == variable.dtype and t.shape == variable.shape]
        used = [t for t in alike if self.stream.known(t) in needed]
        if not used:
            return False
        now = explaining.value_behind(variable.handle, variable.dtype)
        at, array = explaining.address(now), now.numpy()
        return any(explaining.address(t) == at or np.array_equal(t.numpy(), array) for t in used)

    # moving

    def _move(self, lost: Sequence[Entry], state: State) -> Positions:
        """Run again, as before and with the sources moved; what ran of the user's code."""
        movable = [e for e in lost if e.kind != "tensor" and e.thing.shape.num_elements()]
        watch = _Watch(self.lines)
        try:
            with watch:
                before = self._result({}, state)
            if movable and self._differs(movable, before, state):
                alone = movable[:_MOST_MOVED]
                for entry in alone:
                    entry.moves = len(movable) == 1 or self._differs([entry], before, state)
            else:
                for entry in movable:
                    entry.moves = False
        except Exception:  # it ran once, and does not run like this: nothing more is known
            return {}
        finally:
            state.restore(state.changed())
        return watch.ran

    def _differs(self, entries: Sequence[Entry], before: list[Any], state: State) -> bool:
        moved: dict[int, Any] = {}
        for entry in entries:
            if isinstance(entry.thing, tf.Variable):
                entry.thing.assign(_moved(tf.convert_to_tensor(entry.thing)))
            elif entry.leaf is not None:
                moved[entry.leaf.position] = _moved(entry.thing)
        after = self._result(moved, state, restore=False)
        state.restore(state.changed())
        return not _alike(before, after)

    def _result(self, moved: Mapping[int, Any], state: State, *, restore: bool = True) -> list[Any]:
        if restore:
            state.restore(state.changed())
        gradients = steps.Gradients(self.stream.position, self.lines.here)
        with gradients.seen():
            result = seeded(functools.partial(self.subject.run, moved), _SEED)
        step = steps.chosen(self.subject.fn, gradients, result)
        outputs = outputs_of(result).values() if step is None else step.outputs
        return [np.array(y) for y in outputs]

    # lines that did not run

    def _branch_not_taken(self, entry: Entry) -> flow.Place | None:
        """Where a branch of a traced function reads it that was not taken."""
        made = self.stream.numbers_of(self._made_of(entry))
        made.add(private.number_of(getattr(entry.thing, "handle", entry.thing)))
        for given, graph in self.interpreter.not_taken:
            read = [t for v, t in zip(given, graph.inputs, strict=False) if v in made]
            for tensor in read:
                for operation in tensor.consumers():
                    place = self.lines.of_operation(operation)
                    if place is not None:
                        return place
        return None

    def _not_run(self, entry: Entry, ran: Positions) -> flow.Place | None:
        """Where the user's code names it, if that is only where nothing ran."""
        names = self._names_of(entry)
        found: list[flow.Place] = []
        for file, positions in ran.items():
            for node in _namings(file, names, positions):
                if (node.lineno, node.col_offset) in positions:
                    return None
                found.append(place_at(file, node.lineno))
        return found[0] if found else None

    def _names_of(self, entry: Entry) -> frozenset[str]:
        """The identifiers by which code may mean a source."""
        if entry.leaf is not None:
            return frozenset({entry.name.partition("[")[0].partition(".")[0]})
        known = {n for n, v in self.sources.outside.items() if v is entry.thing}
        held = [owner for owner in self.sources.outside.values() if hasattr(owner, "__dict__")]
        for owner in held:
            known |= {n for n, v in vars(owner).items() if _is_thing(v, entry.thing)}
        return frozenset(known)


def _is_thing(value: Any, thing: Any) -> bool:
    return value is thing or getattr(value, "_value", None) is thing


def _moved(tensor: Any) -> Any:
    """Other numbers, near the old ones."""
    array = tensor.numpy()
    return tf.constant(array * 1.0625 + 0.03125, tensor.dtype)


def _alike(before: Sequence[Any], after: Sequence[Any]) -> bool:
    if len(before) != len(after):
        return False
    pairs = zip(before, after, strict=True)
    return all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)


class _Watch:
    """Notes which instructions of the user's code run, by their places in the text."""

    def __init__(self, lines: Lines) -> None:
        self.ran: Positions = {}
        self._lines = lines
        self._places: dict[Any, list[Any]] = {}
        self._before: Any = None

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        sys.settrace(self._on_call)

    def __exit__(self, *_: Any) -> None:
        sys.settrace(self._before)

    def _on_call(self, frame: Any, event: str, argument: Any) -> Any:
        del event, argument
        code = frame.f_code
        if code not in self._places:
            theirs = self._lines.is_theirs(code.co_filename)
            self._places[code] = list(code.co_positions()) if theirs else []
        if not self._places[code]:
            return None
        frame.f_trace_opcodes = True
        return self._on_event

    def _on_event(self, frame: Any, event: str, argument: Any) -> Any:
        del argument
        if event == "opcode":
            line, _, column, _ = self._places[frame.f_code][frame.f_lasti // 2]
            if line is not None:
                self.ran.setdefault(frame.f_code.co_filename, set()).add((line, column))
        return self._on_event


def _namings(file: str, names: frozenset[str], positions: set[tuple[int, int]]) -> list[Any]:
    """Where functions that ran name one of these."""
    tree = _tree(file)
    if tree is None or not names:
        return []
    lines = {line for line, _ in positions}
    functions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.Lambda))
        and not lines.isdisjoint(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    ]
    found = [n for function in functions for n in ast.walk(function) if _names_one(n, names)]
    return sorted(set(found), key=lambda n: (n.lineno, n.col_offset))


def _names_one(node: ast.AST, names: frozenset[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in names and isinstance(node.ctx, ast.Load)
    return isinstance(node, ast.Attribute) and node.attr in names


@functools.lru_cache(maxsize=32)
def _tree(file: str) -> ast.AST | None:
    try:
        return ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None
