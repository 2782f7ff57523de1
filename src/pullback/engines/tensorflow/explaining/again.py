"""What one run does not tell of a source from which no path leads to the result.

Does the result change with it all the same? Is it named on a line that did not run? Was it assigned or read elsewhere?
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.explaining import steps
from pullback.engines.tensorflow.explaining.code_reading import codes_of, left_at, named_on
from pullback.engines.tensorflow.explaining.interpret import Interpreter
from pullback.engines.tensorflow.explaining.sources import Entry, Sources
from pullback.engines.tensorflow.explaining.stream import Stream
from pullback.engines.tensorflow.explaining.subject import Subject
from pullback.engines.tensorflow.probing.arguments import outputs_of
from pullback.engines.tensorflow.programs import rules
from pullback.engines.tensorflow.programs.lines import Lines
from pullback.engines.tensorflow.state import State, seeded
from pullback.engines.tensorflow.tf_private import explaining
from pullback.engines.tensorflow.tf_private.keras_models import layers_inside
from pullback.extend import flow, walk

# Sources that are moved one by one, each of which costs a run.
_MOST_MOVED = 8
_SEED = 0
_FACTOR, _SUMMAND = 1.37, 0.71  # far enough that what is rounded or compared is likely to change


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
        self._move(lost, state)
        codes = codes_of(self.subject.fn, self.lines)
        for entry in lost:
            behind = self._behind(entry)
            if entry.moves:
                entry.place = left_at(codes, entry.name, behind)
            elif not self._is_read(entry) and flow.Hint.READ_BEFORE not in entry.hints:
                found, traced = named_on(codes, entry.name, behind), self._branch_not_taken(entry)
                entry.place = found.place if found else traced
                entry.chosen = found.chosen if found else None
                entry.hints += found.hints if found else ()
                entry.hints += [flow.Hint.ZEROS] if traced else []

    def _is_read(self, entry: Entry) -> bool:
        return any(not set(entry.values).isdisjoint(r.inputs) for r in self.stream.records)

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
                and flow.Hint.ASSIGNED not in entry.hints
            ):
                entry.hints.append(flow.Hint.ASSIGNED)
        if isinstance(entry.thing, tf.Variable) and self._was_read_before(entry.thing, needed):
            entry.hints.append(flow.Hint.READ_BEFORE)

    def _was_read_before(self, variable: Any, needed: set[int]) -> bool:
        """Whether a tensor with the variable's numbers is part of the result, and the variable is not."""
        given = [e.thing for e in self.sources.entries if e.kind == "tensor"]
        alike = [t for t in given if t.dtype == variable.dtype and t.shape == variable.shape]
        used = [t for t in alike if self.stream.known(t) in needed]
        if not used:
            return False
        now = explaining.value_behind(variable.handle, variable.dtype)
        at, array = explaining.address(now), now.numpy()
        return any(explaining.address(t) == at or np.array_equal(t.numpy(), array) for t in used)

    # moving

    def _move(self, lost: Sequence[Entry], state: State) -> None:
        """Run again, as before and with the sources moved."""
        movable = [e for e in lost if e.kind != "tensor" and e.thing.shape.num_elements()]
        try:
            before = self._result({}, state)
            if movable and self._differs(movable, before, state):
                alone = movable[:_MOST_MOVED]
                for entry in alone:
                    entry.moves = len(movable) == 1 or self._differs([entry], before, state)
            else:
                for entry in movable:
                    entry.moves = False
        except Exception:  # it ran once, and does not run like this: nothing more is known
            return
        finally:
            state.restore(state.changed())

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
        with gradients.seen(), seeded(_SEED):
            result = self.subject.run(moved)
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

    def _behind(self, entry: Entry) -> list[Any]:
        """What code may name when it means a source: the thing itself, the layers that hold it."""
        layers = [t for t in self._reached if _holds(t, entry.objects)]
        return [entry.thing, *entry.objects, *layers]

    @functools.cached_property
    def _reached(self) -> list[Any]:
        roots = [t for t in walk(self.subject.fn, stop=_is_layer) if _is_layer(t)]
        return [layer for root in roots for layer in layers_inside(root)]


def _is_layer(thing: Any) -> bool:
    return isinstance(thing, keras.Layer)


def _holds(layer: Any, objects: Sequence[Any]) -> bool:
    return any(v is thing for v in layer.variables for thing in objects)


def _moved(tensor: Any) -> Any:
    """Other numbers."""
    array = tensor.numpy()
    uneven = np.cos(np.arange(array.size)).reshape(array.shape)  # some results only see differences
    return tf.constant(array * _FACTOR + _SUMMAND * uneven, tensor.dtype)


def _alike(before: Sequence[Any], after: Sequence[Any]) -> bool:
    if len(before) != len(after):
        return False
    pairs = zip(before, after, strict=True)
    return all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)
