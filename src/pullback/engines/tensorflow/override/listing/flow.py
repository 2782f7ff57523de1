"""Where gradients flow in one call: each op is seen when it runs, and once more when a gradient arrives at it.

While the call runs, a callback notes of every op which of its inputs are being differentiated. All ops are overridden
by their own gradients, which note what arrives and whether it is passed on. So an op, or a call of a function, decides
something if a gradient arrives at its outputs and one of its inputs leads to what is differentiated.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach.splice import IdentityGradient
from pullback.engines.tensorflow.override import scope
from pullback.engines.tensorflow.override.op_calls import carries_gradient
from pullback.engines.tensorflow.tf_private import overriding
from pullback.extend import (
    Activation,
    Line,
    Override,
    Replacement,
    Resolved,
    Together,
    Where,
    enter,
    leave,
    rehearsing,
)

# TensorFlow puts these in for reasons of its own, some with a custom gradient as their mark.
_NOT_OURS = frozenset({"Identity", "IdentityN"})


class Run(NamedTuple):
    """Something that ran: what it is, where, and the tensors that went in and came out, as keys."""

    what: Any
    layer: str | None
    inputs: tuple[Any, ...]  # those that are being differentiated
    outputs: tuple[Any, ...]


class Flow:
    """What is known of the tensors of a call."""

    def __init__(self) -> None:
        self.ops: list[Run] = []
        self.overrides: set[Override] = set()  # in force where an op ran
        self._arrived: set[Any] = set()  # tensors at which a gradient arrived
        self._cut: set[Any] = set()  # outputs of ops that pass nothing on
        self._graphs: dict[int, Any] = {}  # that were traced here, kept so that no two have one id
        self._unseen: dict[Any, Run] = {}  # ops of graphs without Python source

    def differentiated(self, tensors: Iterable[Any]) -> tuple[Any, ...]:
        """The keys of those tensors that are being differentiated, as far as can be told now."""
        return tuple(self._key(t) for t in tensors if _is_differentiated(t))

    def outputs(self, tensors: Iterable[Any]) -> tuple[Any, ...]:
        """The keys of the tensors through which gradients pass."""
        return tuple(key for t in tensors if carries_gradient(t) for key in _keys(t))

    def ends(self, tensors: Iterable[Any]) -> None:
        """Gradients start at these."""
        self._arrived.update(map(self._key, tensors))

    def decides(self, runs: Sequence[Run]) -> list[Run]:
        """Those whose gradient matters, in the order in which they ran."""
        dead = self._dead()
        return [
            run
            for run in runs
            if not dead.issuperset(run.inputs) and not self._arrived.isdisjoint(run.outputs)
        ]

    def deciding_ops(self) -> list[Run]:
        """The ops whose gradient matters."""
        known = {key for run in self.ops for key in run.outputs}
        unseen = [run for key, run in self._unseen.items() if key not in known]
        runs = [*self.decides([run for run in self.ops if is_op_type(run.what)]), *unseen]
        return [run for run in runs if run.what not in _NOT_OURS]

    def _dead(self) -> set[Any]:
        """Tensors from which no gradient goes on to what is differentiated."""
        dead = set(self._cut)
        for run in self.ops:
            if run.inputs and dead.issuperset(run.inputs):
                dead.update(run.outputs)
        return dead

    def _key(self, tensor: Any) -> Any:
        keys = _keys(tensor)
        return keys[0] if len(keys) == 1 or id(tensor.graph) in self._graphs else keys[1]

    def on_op(self, layer: str | None, op_type: str, inputs: Any, outputs: Any, graph: Any) -> None:
        """An op has run, or was put into a graph."""
        if graph is not None:
            self._graphs.setdefault(id(graph), graph)
        self.ops.append(Run(op_type, layer, self.differentiated(inputs), self.outputs(outputs)))

    def arrived(self, *upstream: Any, inputs: Any, outputs: Any, original: Any) -> Any:
        """The rule of every op: its own gradient, noted."""
        given = original(*upstream) if original is not None else None
        if rehearsing.get():
            return given
        found = tf.nest.flatten(outputs)
        self._arrived.update(map(self._key, found))
        if all(g is None for g in tf.nest.flatten(given)):
            self._cut.update(map(self._key, found))
        else:
            self._arrived.update(self.outputs(inputs))
        if not isinstance(found[0], private.EagerTensor):
            key = self._key(found[0])
            self._unseen[key] = Run(found[0].op.type, None, (), (key,))
        return given

    def passed(self, outputs: Iterable[Any], sources: Sequence[Any], gradients: Any) -> None:
        """Gradients have gone through a call with a gradient of ours: no op tells what goes in and comes out of it."""
        self._arrived.update(outputs)
        for keys, gradient in zip(sources, gradients, strict=True):
            self._arrived.update(keys if gradient is not None else ())

    def recording(self, record_operation: Callable[..., None]) -> Callable[..., None]:
        """See the calls that tapes record."""

        def record(name: str, outputs: Any, sources: Any, backward: Any, forward: Any) -> None:
            ends, starts = self.outputs(outputs), list(map(_keys, sources))

            def seen(*upstream: Any) -> Any:
                found = backward(*upstream)
                self.passed(ends, starts, found)
                return found

            record_operation(name, outputs, sources, seen, forward)

        return record

    def building(self, differentiate: Callable[..., Any]) -> Callable[..., Any]:
        """See the calls in graphs."""

        def gradient(splice: Any, operation: Any, *upstream: Any) -> Any:
            found = differentiate(splice, operation, *upstream)
            inputs = list(map(_keys, operation.inputs))
            self.passed(self.outputs(operation.outputs[: splice.count]), inputs, found)
            return found

        return gradient


def _keys(tensor: Any) -> list[Any]:
    """What a tensor is known by; bodies of loops are built again, under the same names, to be differentiated."""
    if isinstance(tensor, private.EagerTensor):
        return [private.number_of(tensor)]
    if not isinstance(tensor, tf.Tensor):
        return [id(tensor)]  # a variable
    return [(id(tensor.graph), tensor.name), (tensor.graph.name, tensor.name)]


def _is_differentiated(tensor: Any) -> bool:
    if isinstance(tensor, private.EagerTensor):
        return bool(private.possible_gradient_types([tensor]))
    if isinstance(tensor, tf.Tensor):
        return carries_gradient(tensor) and _leads_somewhere(tensor.op)
    return bool(getattr(tensor, "trainable", False))


def _leads_somewhere(operation: Any) -> bool:
    """Whether an op of a graph reads anything, or stands for what the graph is given."""
    return bool(operation.inputs) or operation.type in ("Placeholder", "VarHandleOp")


@functools.cache
def _has_own_gradient(op_type: str) -> bool:
    definition = overriding.op_def_registry.get(op_type)
    takes_inputs = definition is not None and bool(definition.input_arg)
    return takes_inputs and is_op_type(op_type) and op_type not in _NOT_OURS


@functools.cache
def is_op_type(name: str) -> bool:
    """Whether this is an op of TensorFlow, and not a function, nor an op that runs functions."""
    definition = overriding.op_def_registry.get(name)
    return definition is not None and not any("func" in a.type for a in definition.attr)


@contextlib.contextmanager
def observed(flow: Flow, layer: Callable[[], str | None]) -> Generator[None]:
    """Watch all ops of this block; `layer` says which layer is running."""

    def callback(
        op_type: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None
    ) -> Any:
        del attrs, op_name
        stack = scope.current()
        if stack is not None and outputs:
            op_type = op_type.decode() if isinstance(op_type, bytes) else op_type
            flow.overrides.update(activation.override for activation in stack.activations)
            flow.on_op(layer(), op_type, inputs, outputs, graph)
        return outputs

    override = Override({Where(bool): flow.arrived}, strict=False)
    override.resolved = _every_op(override)
    enter(Activation(override))
    try:
        seeing = Together()
        seeing.add(Replacement(private, "record_operation", flow.recording))
        seeing.add(Replacement(IdentityGradient, "__call__", flow.building))
        with private.ops_seen_by(callback), seeing:
            yield
    finally:
        leave(override)  # whatever it did not reach is no fault


def _every_op(override: Override) -> Resolved:
    """One line for every op that has a gradient of its own."""
    resolved = Resolved()
    line = Line((lambda where: _has_own_gradient(where.type),))
    resolved.anywhere.append((override.entries[0], line))
    return resolved
