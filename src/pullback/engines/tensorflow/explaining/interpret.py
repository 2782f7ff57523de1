"""Graphs, run op by op at once: functions that were traced, loops, branches and saved models show what is in them.

An op that was given a gradient of its own in its graph is run unrecorded and then recorded with that gradient, which is
traced into a graph, and interpreted in turn.
"""

from __future__ import annotations

import dataclasses
import heapq
import re
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.explaining.stream import Stream
from pullback.engines.tensorflow.programs import rules
from pullback.engines.tensorflow.programs.graphs import branches_of
from pullback.engines.tensorflow.programs.names import AROUND_LOADED, plain_name
from pullback.engines.tensorflow.tf_private import explaining
from pullback.extend import flow

_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_LOOPS = frozenset({"While", "StatelessWhile"})
_CONDS = frozenset({"If", "StatelessIf"})
_CASES = frozenset({"Case", "StatelessCase"})
_CARRIERS = frozenset({"Identity", "IdentityN"})  # that are there for the sake of a rule
_NOT_RUN = frozenset({"Placeholder", "NoOp", "_Arg"})

Run = Callable[[Any, "Frame", list[Any]], list[Any]]


@dataclasses.dataclass(slots=True)
class Step:
    """An op of a graph, prepared to be run."""

    operation: Any
    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: tuple[Any, ...]
    own: Any  # its own gradient, if it was given one
    constant: Any = None
    traced: Any = None  # its own gradient as a graph, once it was asked for
    place: flow.Place | None = None
    layer: tuple[str, ...] | None = None


@dataclasses.dataclass(slots=True)
class Frame:
    """One run of a graph: its tensors by name."""

    graph: Any
    values: dict[str, Any]
    outer: Frame | None

    def of(self, tensor: Any) -> Any:
        """The value of a tensor of this graph, of one around it, or of a copy of it."""
        if isinstance(tensor, private.EagerTensor):
            return tensor
        frame: Frame | None = self
        while frame is not None:
            if frame.graph is tensor.graph and tensor.name in frame.values:
                return frame.values[tensor.name]
            frame = frame.outer
        return self.values[tensor.name]


class Interpreter:
    """Runs graphs on a stream."""

    def __init__(self, stream: Stream, layer_names: frozenset[str]) -> None:
        self.stream = stream
        self.layer_names = layer_names
        # of branches that were not taken: the numbers of the tensors that they would have read, and their graphs
        self.not_taken: list[tuple[list[int], Any]] = []
        self.compiled = False  # whether a function asks for XLA
        self._frame: Frame | None = None
        self.plans: weakref.WeakKeyDictionary[Any, dict[tuple[int, int], list[Step]]]
        self.plans = weakref.WeakKeyDictionary()
        self._special: dict[str, Run] = {
            **dict.fromkeys(_CALLS, self._call),
            **dict.fromkeys(_LOOPS, self._loop),
            **dict.fromkeys(_CONDS, self._branch),
            **dict.fromkeys(_CASES, self._branch),
        }

    def called(self, function: Any, inputs: Sequence[Any], count: int) -> list[Any]:
        """Run a function that was called at once."""
        self.compiled = self.compiled or explaining.is_compiled(function)
        return self.function(function.graph, inputs, count)

    def function(self, graph: Any, inputs: Sequence[Any], count: int) -> list[Any]:
        """Run the graph of a function."""
        name = plain_name(graph.name)
        with self.stream.within(*([] if name in AROUND_LOADED else [name])):
            return self.run(graph, inputs, count)

    def run(self, graph: Any, inputs: Sequence[Any], count: int) -> list[Any]:
        """The first `count` outputs of a graph: differentiating it may have added more."""
        taken = [getattr(t, "handle", t) for t in inputs]
        named = {inner.name: t for inner, t in zip(graph.inputs, taken, strict=False)}
        frame = Frame(graph, named, self._frame)
        self._frame = frame
        try:
            for step in self._plan(graph, count):
                self._run_step(step, frame)
        finally:
            self._frame = frame.outer
        return [frame.values[t.name] for t in graph.outputs[:count]]

    # one op

    def _run_step(self, step: Step, frame: Frame) -> None:
        if step.constant is not None:
            # A small tensor from outside is captured as a constant, which is then an input.
            frame.values.setdefault(step.outputs[0], step.constant)
            return
        inputs = [frame.values[name] for name in step.inputs]
        special = self._special.get(step.type)
        if special is None and explaining.is_function_of(frame.graph, step.type):
            special = self._call
        if special is not None:
            outputs = special(step.operation, frame, inputs)
        elif step.own is not None:
            outputs = self._run_marked(step, frame, inputs)
        else:
            outputs = self._run_plain(step, inputs)
        frame.values.update(zip(step.outputs, outputs, strict=False))

    def _run_plain(self, step: Step, inputs: list[Any]) -> list[Any]:
        outputs = explaining.run_op(step.type, len(step.outputs), inputs, step.attrs)
        explaining.record_gradient(step.type, inputs, step.attrs, outputs)
        self._note(step, inputs, outputs)
        return outputs

    def _run_marked(self, step: Step, frame: Frame, inputs: list[Any]) -> list[Any]:
        """An op with a gradient of its own."""
        with private.stop_recording():
            outputs = explaining.run_op(step.type, len(step.outputs), inputs, step.attrs)

        # Once it is known what the gradient reads, no more than that is held.
        known = None if step.traced is None else [frame.of(t) for t, _ in step.traced[0].captures]
        kept, count = frame if known is None else None, len(inputs)

        def backward(*upstream: Any) -> list[Any]:
            return self._own_gradient(step, kept, known, upstream, count)

        with self.stream.paused():
            private.record_operation(step.type, outputs, inputs, backward, None)
        rule = rules.of_marked(step.operation, step.own)
        self._note(step, inputs, outputs, rule, backward)
        return outputs

    def _note(
        self, step: Step, inputs: Any, outputs: Any, rule: Any = None, backward: Any = None
    ) -> None:
        if self.stream.frozen:
            return
        operation = step.operation
        if step.layer is None:
            step.layer = self._layer_of(operation)
            step.place = self.stream.lines.of_operation(operation)
        layer = step.layer if step.layer else self.stream.layers
        title = rules.title_of(rule) if rule and step.type in _CARRIERS else ""
        args = (title or step.type, operation.name, inputs, step.attrs, outputs, step.place, layer)
        self.stream.ran(*args, rule, backward)

    def _layer_of(self, operation: Any) -> tuple[str, ...]:
        known = self.stream.layers_of_graph.get(operation.graph, {})
        if operation.name in known:
            return known[operation.name]
        scopes = operation.name.split("/")[:-1]
        names = [s if s in self.layer_names else _without_number(s) for s in scopes]
        return tuple(name for name in names if name in self.layer_names)

    def _own_gradient(
        self,
        step: Step,
        frame: Frame | None,
        captured: list[Any] | None,
        upstream: Sequence[Any],
        count: int,
    ) -> list[Any]:
        """Trace the gradient that an op was given, and run it."""
        if step.traced is None:
            step.traced = _traced(step, upstream)
        graph, structure = step.traced
        if captured is None and frame is not None:
            captured = [frame.of(outside) for outside, _ in graph.captures]
        found = self.run(graph, [*upstream, *(captured or ())], len(graph.outputs))
        present = [g for g in structure if g is not None]
        packed = iter(tf.nest.pack_sequence_as(present, found, expand_composites=True))
        gradients = [None if g is None else next(packed) for g in structure]
        return [*gradients, *[None] * (count - len(gradients))]

    # functions, loops, branches

    def _call(self, operation: Any, frame: Frame, inputs: list[Any]) -> list[Any]:
        del frame
        name = operation.get_attr("f").name if operation.type in _CALLS else operation.type
        self.compiled = self.compiled or explaining.asks_to_compile(operation)
        graph = explaining.graph_of(operation, name)
        return self.function(graph, inputs, len(operation.outputs))

    def _loop(self, operation: Any, frame: Frame, inputs: list[Any]) -> list[Any]:
        del frame
        cond = explaining.attached_graph(operation, "_cond_graph")
        body = explaining.attached_graph(operation, "_body_graph")
        cond = cond or explaining.graph_of(operation, operation.get_attr("cond").name)
        body = body or explaining.graph_of(operation, operation.get_attr("body").name)
        values, step = inputs, 1
        while True:
            with self.stream.within(f"while, step {step}"):
                if not bool(self.run(cond, values, 1)[0]):
                    return values
                values = self.run(body, values, len(operation.outputs))
            step += 1

    def _branch(self, operation: Any, frame: Frame, inputs: list[Any]) -> list[Any]:
        del frame
        graphs = branches_of(operation)
        index = inputs[0].numpy()
        if operation.type in _CONDS:
            taken = 0 if _is_true(index) else 1
            title = ("then", "else")[taken] + " of cond"
        else:
            taken = int(index) if 0 <= int(index) < len(graphs) else len(graphs) - 1
            title = f"branch {taken} of case"
        given = [private.number_of(t) for t in inputs[1:]]
        self.not_taken += [(given, g) for k, g in enumerate(graphs) if k != taken]
        with self.stream.within(title):
            return self.run(graphs[taken], inputs[1:], len(operation.outputs))

    # the order in which ops run

    def _plan(self, graph: Any, count: int) -> list[Step]:
        plans = self.plans.setdefault(graph, {})
        key = count, graph.version  # differentiating a loop puts more into its body
        if key not in plans:
            plans[key] = [_step(op) for op in _in_order(graph, count) if op.type not in _NOT_RUN]
        return plans[key]


def _is_true(value: Any) -> bool:
    """As TensorFlow decides: text and lists are true if they are not empty."""
    return bool(value.size) if value.ndim else bool(value)


def _without_number(scope: str) -> str:
    return re.sub(r"_\d+$", "", scope)


def _step(operation: Any) -> Step:
    inputs = tuple(t.name for t in operation.inputs)
    outputs = tuple(t.name for t in operation.outputs)
    if operation.type == "Const":
        value = tf.constant(tf.make_ndarray(operation.get_attr("value")))
        return Step(operation, "Const", inputs, outputs, (), None, value)
    functional = operation.type in (*_CALLS, *_LOOPS, *_CONDS, *_CASES)
    own = None if functional else private.own_gradient(operation)
    attrs = () if functional else explaining.attributes_of(operation)
    return Step(operation, operation.type, inputs, outputs, attrs, own)


def _in_order(graph: Any, count: int) -> list[Any]:
    """The ops that the outputs and the side effects need: in the order of creation, but each after those it reads."""
    needed: dict[Any, set[Any]] = {}
    todo = [t.op for t in graph.outputs[:count]] + list(graph.control_outputs)
    while todo:
        op = todo.pop()
        if op not in needed:
            needed[op] = {*(t.op for t in op.inputs), *op.control_inputs}
            todo += needed[op]
    readers: dict[Any, list[Any]] = {}
    for op, before in needed.items():
        for each in before:
            readers.setdefault(each, []).append(op)
    missing = {op: len(before) for op, before in needed.items()}
    ready = [(private.operation_number(op), op) for op, count in missing.items() if not count]
    heapq.heapify(ready)
    order: list[Any] = []
    while ready:
        op = heapq.heappop(ready)[1]
        order.append(op)
        for reader in readers.get(op, ()):
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, (private.operation_number(reader), reader))
    return order


def _traced(step: Step, upstream: Sequence[Any]) -> tuple[Any, Any]:
    """The own gradient of an op as a graph, and the structure of what it gives."""
    graph = explaining.new_graph_inside(step.operation.graph, f"gradient_of_{step.type}")
    with graph.as_default():
        given = [explaining.new_placeholder(u.dtype, u.shape) for u in upstream]
        gradients = step.own(step.operation, *given)
        gradients = list(gradients) if isinstance(gradients, (list, tuple)) else [gradients]
        gradients = [_as_tensor(g) for g in gradients]
        flat = [g for g in gradients if g is not None]
        flat = tf.nest.flatten(flat, expand_composites=True)
        present = [graph.capture(t) for t in flat]
    graph.inputs = [*given, *graph.internal_captures]
    graph.outputs = present
    return graph, gradients


def _as_tensor(gradient: Any) -> Any:
    if gradient is None or isinstance(gradient, (tf.Tensor, tf.IndexedSlices)):
        return gradient
    return tf.convert_to_tensor(gradient)
