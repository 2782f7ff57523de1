"""A program seen while eager code runs: flat, with what Python decided, for code that cannot be traced."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.programs import rules
from pullback.engines.tensorflow.programs.graphs import Reader
from pullback.engines.tensorflow.programs.lines import Lines
from pullback.engines.tensorflow.programs.names import plain_name
from pullback.engines.tensorflow.programs.operations import Raw, dtypes, typed
from pullback.engines.tensorflow.state import reachable_variables
from pullback.engines.tensorflow.tf_private import explaining, explaining_hooks, overriding
from pullback.extend import Node, NodeKind, Program, RuleBody, Value

_CARRIER = "IdentityN"
_WITHOUT_ADDRESS = (tf.resource, tf.variant, tf.string)
_STOPPING = frozenset({"StopGradient", "PreventGradient"})


class Watcher:
    """The program of what runs."""

    def __init__(self, function: Any, lines: Lines) -> None:
        self.lines, self.reader = lines, Reader(lines, {})
        self.nodes: list[Node] = []
        self.values: list[Value] = []
        self.numbers: dict[int, int] = {}  # of tensors -> values
        self.handles: dict[int, Any] = {}  # values that are variables' handles
        self.variables = {id(v): v for v in reachable_variables(function)}
        self.tape = tf.GradientTape()
        self.addresses: dict[int, int] = {}  # of buffers -> the last value there
        self.alive: list[Any] = []  # so that no other tensor is given its buffer
        self.layers: list[str] = []
        self.resting = False

    def program(self, function: Callable[..., Any], args: Sequence[Any]) -> Program:
        """Run a function of tensors, and give what was seen."""
        given = tuple(self._add(tensor) for tensor in args)
        with self.tape, self._open():
            self.tape.watch([t for t in args if t.dtype.is_floating or t.dtype.is_complex])
            found = function(*args)
        outputs = tuple(map(self._value, found))
        inputs = (*given, *self.handles)
        return Program(
            "", tuple(self.nodes), tuple(self.values), inputs, outputs, tuple(self.handles.values())
        )

    @contextlib.contextmanager
    def _open(self) -> Generator[None]:
        with (
            explaining_hooks.callbacks_on_slow_path(),
            explaining_hooks.records_seen(self._on_record),
            explaining_hooks.calls_seen(self._on_call),
            explaining_hooks.layer_calls_seen(self._enter, self._leave),
            private.ops_seen_by(self._on_op, first=True),
        ):
            yield

    def _enter(self, layer: Any) -> None:
        self.layers.append(layer.name)

    def _leave(self) -> None:
        self.layers.pop()

    # tensors

    def _add(self, tensor: Any, constant: Any = None) -> int:
        number = self.numbers[private.number_of(tensor)] = len(self.values)
        self.values.append(Value(tuple(tensor.shape.as_list()), tensor.dtype.name, "", constant))
        if constant is None and tensor.dtype not in _WITHOUT_ADDRESS:
            self.addresses[explaining.address(tensor)] = number
            self.alive.append(tensor)
        return number

    def _value(self, tensor: Any) -> int:
        """The value that a tensor is."""
        tensor = getattr(tensor, "handle", tensor)
        found = self.numbers.get(private.number_of(tensor))
        return self._unknown(tensor) if found is None else found

    def _unknown(self, tensor: Any) -> int:
        """What no operation made: a variable, what the fast path has read of one, or a constant."""
        if tensor.dtype == tf.resource:
            number = self._add(tensor)
            self.handles[number] = tensor
            return number
        if (copied := self._on_same_buffer(tensor)) is not None:
            return copied
        read = self._variable_read(tensor)
        if read is None:
            return self._add(tensor, tensor)
        taken = (self._value(read.handle),)
        made = (self._add(tensor),)
        raw = Raw((tf.resource,), (tensor.dtype,), seen={"dtype": tensor.dtype})
        self._node("ReadVariableOp", taken, made, raw)
        return made[0]

    def _variable_read(self, tensor: Any) -> Any:
        watched = {id(v): v for v in self.tape.watched_variables()}
        alike = [
            variable
            for variable in {**self.variables, **watched}.values()
            if variable.dtype == tensor.dtype and variable.shape == tensor.shape
        ]
        with self.rest():
            found = (v for look in (_is_buffer_of, _is_copy_of) for v in alike if look(v, tensor))
            return next(found, None)

    @contextlib.contextmanager
    def rest(self) -> Generator[None]:
        """What runs in this block is ours."""
        before, self.resting = self.resting, True
        try:
            yield
        finally:
            self.resting = before

    # what is seen

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
        own = rule or self._rule_of(op)
        layer = tuple(self.layers)
        self.nodes.append(
            Node(
                kind,
                op,
                name or op,
                inputs,
                outputs,
                own,
                place,
                layer,
                bodies,
                carries,
                carries > 0,
                raw,
            )
        )

    def _rule_of(self, op: str) -> Any:
        if op in _STOPPING:
            return rules.STOPPED
        return rules.UNRECORDED if private.recording_is_stopped() else rules.of_type(op)

    def _on_op(
        self,
        op_type: Any,
        inputs: Any,
        attrs: Any,
        outputs: Any,
        op_name: Any = None,
        graph: Any = None,
    ) -> Any:
        op = tf.compat.as_str(op_type)
        # a function is seen by its call
        if graph is None and not self.resting and overriding.op_def_registry.get(op) is not None:
            taken = tuple(map(self._value, inputs))
            made = tuple(map(self._add, outputs))
            raw = Raw(dtypes(inputs), dtypes(outputs), seen=typed(op, attrs))
            self._node(op, taken, made, raw, name=tf.compat.as_str(op_name or op))
        return outputs

    def _on_call(self, function: Any, args: Sequence[Any], outputs: Sequence[Any]) -> None:
        """A traced function was called."""
        if self.resting:
            return
        taken = tuple(map(self._value, args))
        made = tuple(map(self._add, outputs))
        body = self.reader.program(function.graph, plain_name(function.graph.name))
        self._node("PartitionedCall", taken, made, Raw((), ()), rules.NONE, NodeKind.CALL, (body,))

    def _on_record(self, name: Any, outputs: Any, inputs: Any, backward: Any) -> None:
        """An operation was recorded with a gradient of its own: what leads to its outputs from here on."""
        outputs, inputs = list(outputs), [getattr(t, "handle", t) for t in inputs]
        if self.resting or not outputs or not isinstance(outputs[0], private.EagerTensor):
            return
        last = self.nodes[-1] if self.nodes else None
        known = [self.numbers.get(private.number_of(t)) for t in outputs]
        if last is not None and last.kind is NodeKind.CALL and set(known) <= set(last.outputs):
            return  # which is differentiated operation by operation
        raw = tuple(self._raw_result(t) for t in outputs)
        taken = (*raw, *map(self._value, inputs))
        made = tuple(map(self._add, outputs))
        rule = rules.of_recorded(name, backward)
        types = tuple(t.dtype for t in outputs)
        kept = Raw((*types, *(t.dtype for t in inputs)), types, None, self, backward, len(raw))
        self._node(_CARRIER, taken, made, kept, rule, carries=len(made))

    def _raw_result(self, tensor: Any) -> int:
        """The value that a body gave, which may be another tensor on the same buffer."""
        found = self.numbers.get(private.number_of(tensor))
        found = self._on_same_buffer(tensor) if found is None else found
        return self._value(tensor) if found is None else found

    def _on_same_buffer(self, tensor: Any) -> int | None:
        """The value that a tensor shares its numbers with, such as the copy that a custom gradient is given."""
        if tensor.dtype in _WITHOUT_ADDRESS:
            return None
        found = self.addresses.get(explaining.address(tensor) or -1)
        known = None if found is None else self.values[found]
        same = known and (known.shape, known.dtype) == (
            tuple(tensor.shape.as_list()),
            tensor.dtype.name,
        )
        return found if same else None

    # gradients that somebody wrote

    def rule(self, node: Node) -> RuleBody:
        """The backward function that was recorded, traced; it reads values of the run."""
        backward: Any = node.raw.gradient
        graph = private.FuncGraph(f"gradient_of_{node.rule.name}")
        shapes = [self.values[number] for number in node.outputs]
        with graph.as_default():
            upstream = [explaining.new_placeholder(v.dtype, v.shape) for v in shapes]
            found = backward(*upstream)
        return self.reader.rule_of(node, graph, upstream, found, self)

    def place_of(self, tensor: Any) -> tuple[int, int] | None:
        """Which value of the run a tensor is."""
        found = isinstance(tensor, private.EagerTensor) and self.numbers.get(
            private.number_of(tensor)
        )
        return None if found is None or found is False else (0, found)


def _is_buffer_of(variable: Any, tensor: Any) -> bool:
    """Whether a tensor that was read lies where a variable does."""
    at = explaining.address(explaining.value_behind(variable.handle, variable.dtype))
    return bool(at) and at == explaining.address(tensor)


def _is_copy_of(variable: Any, tensor: Any) -> bool:
    """Whether a tensor may be a copy of a variable: once rows of that were read or written, every reading is one."""
    one, other = (explaining.value_behind(variable.handle, variable.dtype) for _ in range(2))
    is_copied = explaining.address(one) != explaining.address(other)
    return is_copied and np.array_equal(one.numpy(), tensor.numpy())
