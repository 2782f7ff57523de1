"""What runs, seen as it does: every operation with its tensors, and each that was recorded with a gradient.

Traced functions are interpreted operation by operation, on the tapes that are open: loops, branches and saved models
show what is in them.
"""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.attach.registry import TRANSPOSABLE
from pullback.engines.tensorflow.explaining.reading import GraphReader
from pullback.engines.tensorflow.programs import TensorFlowPrograms, rules
from pullback.engines.tensorflow.programs.lines import Lines
from pullback.engines.tensorflow.programs.names import AROUND_LOADED, plain_name
from pullback.engines.tensorflow.programs.operations import Raw, as_gradient, flat
from pullback.engines.tensorflow.programs.seen import Watcher
from pullback.engines.tensorflow.tf_private import explaining, explaining_hooks
from pullback.extend import (
    Event,
    Frame,
    Node,
    NodeKind,
    Program,
    Run,
    Runner,
    flow,
    recording,
    rule_gradients,
    sizes,
)

_NOTHING = Program("", (), (), (), ())
_LISTS = frozenset({tf.resource, tf.variant, tf.string})


@dataclass(frozen=True, slots=True)
class Around:
    """What an operation ran in."""

    layer: tuple[str, ...]
    tapes: tuple[Any, ...]  # that were recording


class Interpreter(Runner):
    """Runs traced functions on the tapes that are open."""

    def __init__(self, made: Run, sight: Sight) -> None:
        super().__init__(made)
        self.sight = sight
        # what branches that were not taken would have read, and their programs
        self.not_taken: list[tuple[tuple[int, ...], Program]] = []
        self.compiled = False  # whether a function asks for XLA

    def called(self, function: Any, inputs: Sequence[Any], count: int) -> list[Any]:
        """Run a function that was called at once."""
        self.compiled = self.compiled or explaining.is_compiled(function)
        graph, title = function.graph, plain_name(function.graph.name)
        within = () if title in AROUND_LOADED else (title,)
        body = self.sight.reader.read(graph, count)
        return self.sight.interpreted(body, inputs, None, within)

    def nodes_of(self, program: Program) -> Iterable[Node]:
        """What outputs and effects need: what only a rule reads is run when it does."""
        return (node for node in program.nodes if node not in program.idle)

    def compute(self, node: Node, taken: tuple[int, ...], frame: Frame) -> Iterable[int]:
        """Run it, and record it with its gradient."""
        inputs = [self.made.values[number] for number in taken]
        attrs, own = flat(node), node.raw.gradient is not None
        with private.stop_recording() if own else contextlib.nullcontext(), self.sight.at(frame):
            outputs = explaining.run_op(node.op, len(node.outputs), inputs, attrs)
        found = tuple(map(self.made.add, outputs))
        self.sight.numbers.update(zip(map(private.number_of, outputs), found, strict=True))
        event = Event(node, frame, taken, found)
        if own:
            self._record(event, inputs, outputs)
        else:
            explaining.record_gradient(node.op, inputs, attrs, outputs)
            if private.recording_is_stopped() and node.rule.kind != "stopped":
                event = replace(event, node=replace(node, rule=rules.UNRECORDED))
        self.sight.note(event, node.layer)
        return found

    def _record(self, event: Event, inputs: list[Any], outputs: list[Any]) -> None:
        """An operation with a gradient of its own."""
        sight, node = self.sight, event.node
        # What is not kept for us is kept for the gradient alone, as the tape does.
        known = None if sight.keeps else _read_by(sight.engine.rule(node).reads, event.frame)

        def backward(*upstream: Any) -> list[Any]:
            return sight.own_gradient(event, upstream, known)

        with sight.rest():
            private.record_operation(node.op, outputs, inputs, backward, None)

    def call(
        self, node: Node, taken: tuple[int, ...], outer: Frame | None, path: tuple[str, ...]
    ) -> Iterable[int]:
        """Run the body of a call."""
        self.compiled = self.compiled or explaining.asks_to_compile(node.raw.operation)
        return super().call(node, taken, outer, path)

    def branch(
        self, node: Node, taken: tuple[int, ...], outer: Frame | None, path: tuple[str, ...]
    ) -> Iterable[int]:
        """Run the branch that is taken, and remember the others."""
        before = len(self.made.choices)
        found = super().branch(node, taken, outer, path)
        chosen = self.made.choices[before][1]
        last = len(node.bodies) - 1
        chosen = chosen if 0 <= chosen <= last else last
        self.not_taken += [(taken[1:], b) for k, b in enumerate(node.bodies) if k != chosen]
        return found


class Sight(Watcher):
    """All that is seen of a run."""

    def __init__(
        self,
        function: Any,
        lines: Lines,
        engine: TensorFlowPrograms,
        reader: GraphReader,
        *,
        keeps: bool = True,
    ) -> None:
        super().__init__(function, lines)
        self.reader, self.engine, self.keeps = reader, engine, keeps
        self.made = Run(engine, "")
        self.interpreter = Interpreter(self.made, self)
        self.around: dict[Event, Around] = {}
        self.open_tapes: list[Any] = []
        self.resting = True  # before and after the run, and where we run operations ourselves
        self.start = private.next_number()
        self.known_layers: dict[int, Any] = {}  # by identity
        self._frame = Frame(self.made, _NOTHING, [], None, ())
        self._turns: list[
            tuple[Any, int]
        ] = []  # tapes as they are opened and closed, and after how many events
        self._alive: dict[int, weakref.ref[Any]] = {}

    # tensors

    def _add(self, tensor: Any, constant: Any = None) -> int:
        del constant
        number = self.numbers[private.number_of(tensor)] = self.made.add(
            tensor if self.keeps else None
        )
        if not self.keeps:
            self._alive[number] = weakref.ref(tensor)
        return number

    def known(self, tensor: Any) -> int | None:
        """The value that a tensor is, if it was met."""
        return self.numbers.get(private.number_of(getattr(tensor, "handle", tensor)))

    def value(self, tensor: Any) -> int:
        """The value that a tensor or variable is."""
        return self._value(tensor)

    def _unknown(self, tensor: Any) -> int:
        """What no operation made: a source, a constant, or what the fast path has read of a variable."""
        if self.resting or not self._may_be_read(tensor):
            return self._add(tensor)
        return super()._unknown(tensor)

    def _may_be_read(self, tensor: Any) -> bool:
        count = tensor.shape.num_elements() if values.flows(tensor) else 0
        if private.number_of(tensor) < self.start or not count:
            return False
        # TensorFlow keeps single numbers, which variables were made of
        return count > 1 or bool(private.possible_gradient_types([tensor]))

    def position(self) -> tuple[int, int]:
        """How many operations have run, and how many values there are."""
        return len(self.made.events), len(self.made.values)

    def assigned(self) -> set[int]:
        """The handles of the variables that were written."""
        return {e.inputs[0] for e in self.made.events if e.node.op in rules.ASSIGNING}

    # what is seen

    def _enter(self, layer: Any) -> None:
        super()._enter(layer)
        self.known_layers[id(layer)] = layer

    @contextlib.contextmanager
    def seen(self) -> Generator[None]:
        """See everything that runs in this block."""
        with (
            explaining_hooks.callbacks_on_slow_path(),
            explaining_hooks.records_seen(self._on_record),
            explaining_hooks.layer_calls_seen(self._enter, self._leave),
            explaining_hooks.control_flow_seen(self.within),
            explaining_hooks.tapes_seen(self._tape_opened, self._tape_closed),
            explaining_hooks.functions_interpreted(self.interpreter.called),
            private.ops_seen_by(self._on_op, first=True),
        ):
            self.resting = False
            try:
                yield
            finally:
                self.resting = True

    def note(self, event: Event, layer: tuple[str, ...] = ()) -> None:
        """An operation ran."""
        if not self.resting:
            self.made.events.append(event)
            self.around[event] = Around(layer or tuple(self.layers), tuple(self.open_tapes))

    def _node(
        self,
        op: str,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        raw: Raw,
        rule: Any = None,
        kind: NodeKind = NodeKind.OPERATION,
        bodies: tuple[Program, ...] = (),
        carries: int = 0,
        name: str = "",
    ) -> None:
        place = self.lines.here(explaining_hooks.calling_frame(2))
        rule = rule or self._rule_of(op)
        has_rule = raw.gradient is not None
        node = Node(
            kind, op, name or op, inputs, outputs, rule, place, (), bodies, carries, has_rule, raw
        )
        self.note(Event(node, self._frame, inputs, outputs))

    def _on_op(
        self,
        op_type: Any,
        inputs: Any,
        attrs: Any,
        outputs: Any,
        op_name: Any = None,
        graph: Any = None,
    ) -> Any:
        if graph is not None and self.layers and outputs:  # it is remembered for when it runs
            known: Any = self.reader.layers
            known.setdefault(graph, {})[outputs[0].op.name] = tuple(self.layers)
        return super()._on_op(op_type, inputs, attrs, outputs, op_name, graph)

    def _on_record(self, name: Any, outputs: Any, inputs: Any, backward: Any) -> None:
        """An operation was recorded with a backward function: it is what made its outputs from here on."""
        outputs, inputs = list(outputs), list(inputs)
        if self.resting or not outputs or not isinstance(outputs[0], private.EagerTensor):
            return
        if not all(isinstance(t, (private.EagerTensor, tf.Variable)) for t in inputs):
            return
        rule, text = rules.of_recorded(name, backward), _text(name)
        taken = tuple(map(self._value, inputs))
        if rule.kind == "override" and self._is_last(text, taken):
            self._replace_last(outputs, rule, backward)
            return
        # The body led to these as well, by a way that gradients do not take.
        known = dict.fromkeys(
            n for n in map(self.known, outputs) if n is not None and n not in taken
        )
        made = tuple(map(self._add, outputs))
        title = recording.title_of(rule) or text
        raw = Raw((), (), None, self, backward)
        self._node(title, (*taken, *known), made, raw, rule)

    def _is_last(self, op: str, inputs: tuple[int, ...]) -> bool:
        last = self.made.events[-1] if self.made.events else None
        return last is not None and last.node.op == op and last.inputs == inputs

    def _replace_last(self, outputs: list[Any], rule: Any, backward: Callable[..., Any]) -> None:
        """The last operation again, with other handles on its outputs and with another rule."""
        last = self.made.events[-1]
        raw = replace(last.node.raw, gradient=backward, scope=self)
        node = replace(last.node, rule=rule, raw=raw, has_rule=True)
        carried = [
            n for n, t in zip(last.outputs, node.raw.output_types, strict=True) if _carries(t)
        ]
        for tensor, number in zip(outputs, carried, strict=True):
            self.numbers[private.number_of(tensor)] = number
            if self.keeps:
                self.made.values[number] = tensor
            else:
                self._alive[number] = weakref.ref(tensor)
        self.made.events.pop()
        around = self.around.pop(last)
        self.note(Event(node, last.frame, last.inputs, last.outputs), around.layer)

    # around

    def _tape_opened(self, tape: Any) -> None:
        self.open_tapes.append(tape)
        self._turns.append((tape, len(self.made.events)))

    def _tape_closed(self, tape: Any) -> None:
        self.open_tapes.remove(tape)
        self._turns.append((tape, len(self.made.events)))

    def block_of(self, tape: Any) -> tuple[int, int]:
        """The events between the first opening and the last closing of a tape."""
        seen = [at for known, at in self._turns if known is tape] or [0]
        return seen[0], seen[-1]

    @contextlib.contextmanager
    def within(self, *where: str) -> Generator[None]:
        """What runs in this block is inside of a loop or branch."""
        with self.at(Frame(self.made, _NOTHING, [], None, (*self._frame.path, *where))):
            yield

    @contextlib.contextmanager
    def at(self, frame: Frame) -> Generator[None]:
        """What runs in this block, such as Python in a graph, runs there."""
        before, self._frame = self._frame, frame
        try:
            yield
        finally:
            self._frame = before

    # programs that run in between

    def interpreted(
        self,
        program: Program,
        inputs: Sequence[Any],
        outer: Frame | None,
        within: tuple[str, ...] = (),
    ) -> list[Any]:
        """The results of a program that runs here."""
        inputs = [getattr(t, "handle", t) for t in inputs]
        taken, start = list(map(self._value, inputs)), len(self.made.values)
        for number, tensor in zip(taken, inputs, strict=True):
            self.made.values[number] = tensor
        found = self.interpreter.run(program, taken, outer, (*self._frame.path, *within))
        results = [self.made.values[number] for number in found]
        for tensor, number in zip(results, found, strict=True):
            self.numbers[private.number_of(tensor)] = number
        if not self.keeps:
            self._forget(range(start, len(self.made.values)), taken)
        return results

    def _forget(self, made: range, given: list[int]) -> None:
        for number in made:
            if self.made.values[number] is not None:
                self._alive[number] = weakref.ref(self.made.values[number])
                self.made.values[number] = None
        for number in given:
            self.made.values[number] = None

    def own_gradient(
        self, event: Event, upstream: Sequence[Any], known: list[Any] | None
    ) -> list[Any]:
        """What the gradient that an operation of a graph was given passes on, run on the tapes that are open."""
        if self.resting and known is None:
            return rule_gradients(self.made, event, upstream)
        rule = self.engine.rule(event.node)
        read = _read_by(rule.reads, event.frame) if known is None else known
        arrived = [tf.convert_to_tensor(g) for g in upstream]
        given = [*arrived, *read, *rule.program.captured]
        found = self.interpreted(rule.program, given, event.frame)
        return [
            None
            if parts is None
            else self.engine.gradient(event.node, k, [found[p] for p in parts])
            for k, parts in enumerate(rule.gradients)
        ]

    def recorded(self, event: Event, upstream: Sequence[Any]) -> list[Any]:
        """What the gradient with which an operation was recorded passes on."""
        own, node = event.node.raw.gradient, event.node
        if own is None:
            inputs, outputs = (
                [self.made.values[n] for n in numbers] for numbers in (event.inputs, event.outputs)
            )
            return self.engine.vjp(node, inputs, outputs, upstream, "")
        if node.raw.scope is not self:
            return rule_gradients(self.made, event, upstream)
        types = node.raw.output_types  # of an operation that was overridden
        ends = list(zip(event.outputs, upstream, strict=True))
        ends = [end for k, end in enumerate(ends) if not types or _carries(types[k])]
        results = [self.made.values[n] for n, _ in ends]
        found = own(*explaining.zeros_where_missing(node.op, results, [g for _, g in ends]))
        found = list(found) if isinstance(found, (list, tuple)) else [found]
        found = [as_gradient(g) for g in found]
        return [*found, *[None] * (len(event.inputs) - len(found))]

    def kept(self, given: Iterable[Any]) -> Mapping[int, int]:
        """Bytes by value, each buffer once; what was there before, such as weights and inputs, is not counted."""
        gc.collect()
        with self.rest():
            known = {explaining.address(_tensor(thing)) for thing in given}
        found: dict[int, int] = {}
        for number, reference in sorted(self._alive.items()):
            tensor = reference()
            size = 0 if tensor is None else bytes_of(tensor)
            if not size:
                continue
            at = explaining.address(tensor)
            if at not in known:
                known.add(at)
                found[number] = size
        return found


def bytes_of(tensor: Any) -> int:
    """What a concrete tensor takes."""
    count = 0 if tensor.dtype in _LISTS else tensor.dtype.size
    for length in private.concrete_shape(tensor):
        count *= length
    return count


def _read_by(reads: Iterable[tuple[int, int]], frame: Frame) -> list[Any]:
    return [frame.value(*where) for where in reads]


def _tensor(thing: Any) -> Any:
    if isinstance(thing, tf.Variable):
        return explaining.value_behind(thing.handle, thing.dtype)
    return thing if isinstance(thing, private.EagerTensor) else tf.convert_to_tensor(thing)


def _text(name: Any) -> str:
    """The name of an operation, without the mark by which ours are known to forward mode."""
    text = name.decode() if isinstance(name, bytes) else str(name)
    return text.removesuffix(f"_{TRANSPOSABLE}")


def _carries(dtype: Any) -> bool:
    return dtype.is_floating or dtype.is_complex or dtype in (tf.resource, tf.variant)


def size_of(value: Any) -> flow.Size | None:
    """The size of a tensor or of a sparse gradient; `None` for what holds no numbers."""
    if isinstance(value, tf.IndexedSlices):
        if value.dense_shape is None:
            return size_of(tf.convert_to_tensor(value))
        rows, count = (explaining.numbers(t) for t in (value.indices, value.dense_shape))
        return sizes.size_of_rows(explaining.numbers(value.values), rows, int(np.prod(count)))
    if not value.dtype.is_floating and not value.dtype.is_complex:
        return None
    return sizes.size_of(explaining.numbers(value))
