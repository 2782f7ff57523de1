"""Ops: an op whose type is targeted gets a rule instead of TensorFlow's gradient, at once or in a
graph.

At once: its outputs are handed on as new handles, recorded with the rule. In a graph: the op is
marked with the name of the rule, which tf.gradients and every function's backward pass obey, and
tapes opened inside the trace record the rule as well.
"""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from typing import Any

from pullback._audit import NOT_FLOATING, Place
from pullback.engines.tensorflow.override.carriers import carried, exporting, spliced
from pullback.engines.tensorflow.override.graphs import gradient_name, note
from pullback.engines.tensorflow.override.op_forward import OpTangents
from pullback.engines.tensorflow.override.op_rules import OpCall, carries_gradient, chain_pullback
from pullback.engines.tensorflow.override.places import find_place
from pullback.engines.tensorflow.override.scope import Bound, Stack, handle_ops_with
from pullback.engines.tensorflow.tf_private import overriding as private

# Lines whose own region is running: what runs inside is part of the region.
guarded: contextvars.ContextVar[frozenset[tuple[int, int]]] = contextvars.ContextVar(
    "pullback_guarded", default=frozenset()
)
# Why nothing that is overridden here can have an effect, if that is so.
hidden: contextvars.ContextVar[str | None] = contextvars.ContextVar("pullback_hidden", default=None)

# What runs here runs once more when it is differentiated, under the same overrides.
postponed: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "pullback_postponed", default=False
)
# What is traced here will be turned into other, batched ops.
batching: contextvars.ContextVar[bool] = contextvars.ContextVar("pullback_batching", default=False)

# The function that is running and is nothing but the next op of its type.
expected: contextvars.ContextVar[Expected | None] = contextvars.ContextVar(
    "pullback_expected", default=None
)

STOPPED = "recording is stopped where it runs (tape.stop_recording)"


def on_op(
    stack: Stack,
    bounds: Sequence[Bound],
    op_type: str,
    inputs: Any,
    attrs: Any,
    outputs: Any,
    op_name: Any,
    graph: Any,
) -> Any:
    """Attach the rules that match this op; its outputs."""
    if not outputs:
        return outputs
    operation = None if graph is None else outputs[0].op
    where = Where(op_type, op_name, operation)
    awaited = expected.get()
    if awaited is None and op_type in stack.plain and not guarded.get():
        chain = stack.plain[op_type]
    else:
        chain = _matching(bounds, where) if bounds else ()
        if awaited is not None:
            chain = awaited.joined(op_type, chain)
    if not chain:
        return outputs
    if graph is not None:
        return _in_graph(stack, chain, where, operation, outputs)
    return _at_once(stack, chain, where, OpCall(op_type, inputs, outputs, attrs), outputs)


handle_ops_with(on_op)


class Expected:
    """A function that is one op: its lines are put on that op, which is far cheaper than a region."""

    __slots__ = ("chain", "op_types")

    def __init__(self, chain: tuple[Bound, ...], op_types: tuple[str, ...]) -> None:
        self.chain: tuple[Bound, ...] | None = chain
        self.op_types = op_types

    def joined(self, op_type: str, chain: tuple[Bound, ...]) -> tuple[Bound, ...]:
        """The lines of the function and those of the op, innermost override first, the function's before the op's."""
        if self.chain is None or op_type not in self.op_types:
            return chain
        own, self.chain = self.chain, None
        return tuple(sorted((*own, *chain), key=_depth_first)) if chain else own


def _depth_first(bound: Bound) -> int:
    return -bound.depth


class Where:
    """The place of an op, found out only when somebody asks."""

    def __init__(self, op_type: str, name: Any, operation: Any) -> None:
        self._known: Place | None = None
        self.type = op_type
        self._name = name
        self._operation = operation

    @property
    def place(self) -> Place:
        if self._known is None:
            self._known = find_place(self.type, self.name, self._operation)
        return self._known

    @property
    def name(self) -> str:
        if self._operation is not None:
            return self._operation.name
        scope = private.name_scope()
        own = self._name.decode() if isinstance(self._name, bytes) else self._name or self.type
        return f"{scope}/{own}" if scope else own


def _matching(bounds: Sequence[Bound], where: Where) -> tuple[Bound, ...]:
    """The narrowest match of each open override, innermost first."""
    guard = guarded.get()
    chosen: dict[int, Bound] = {}
    for bound in bounds:
        if bound.depth not in chosen and bound.mark not in guard and bound.line.accepts(where):
            chosen[bound.depth] = bound
    if len(chosen) < 2:
        return tuple(chosen.values())
    return tuple(chosen[depth] for depth in sorted(chosen, reverse=True))


def _at_once(
    stack: Stack, chain: tuple[Bound, ...], where: Where, call: OpCall, outputs: list[Any]
) -> list[Any]:
    reason = _why_hidden(outputs)
    recorded = bool(private.possible_gradient_types(call.inputs))
    later = postponed.get()
    if reason is None and not recorded and not later and private.recording_is_stopped():
        reason = STOPPED
    note(stack, chain, where, "eager", recorded=recorded or later, hidden_by=reason)
    if not recorded or reason is not None:
        return outputs
    fresh = [private.detached(t) for t in outputs]
    sources = call.inputs
    call.outputs = fresh
    backward = chain_pullback(chain, call)
    call.keep_for(chain)
    if any("op" in bound.entry.wishes for bound in chain):
        call.place = where.place
    forward = OpTangents(backward, fresh, chain[0].entry.rule, call.type)
    private.record_operation(call.type, fresh, sources, backward, forward)
    # Ops that leave the fast path are recorded once more afterwards: the mark prevents it.
    fresh[0]._pullback_chain = True
    outputs[:] = fresh
    return outputs


def _in_graph(
    stack: Stack, chain: tuple[Bound, ...], where: Where, operation: Any, outputs: Any
) -> Any:
    if private.in_keras_symbolic_scope():
        stack.activation.notes["symbolic"] = "yes"
        return outputs
    reason = _why_hidden(outputs)
    note(stack, chain, where, "traced", hidden_by=reason)
    if reason is not None:
        return outputs
    if exporting.get():
        fresh = carried(chain, operation, where.place)
        fresh[0].op._pullback_chain = ()
        return fresh
    if stack.batching or batching.get():
        call = OpCall.of(operation)
        call.place = where.place
        return spliced(chain, call, outputs)
    _mark(chain, operation, where)
    return outputs


def _mark(chain: tuple[Bound, ...], operation: Any, where: Where) -> None:
    operation._pullback_chain = chain
    if any("op" in bound.entry.wishes for bound in chain):
        operation._pullback_place = where.place
    private.set_gradient_name(operation, gradient_name(operation.graph, chain))


def mark_imported(stack: Stack, operation: Any) -> None:
    """Attach the rules that match an op which came into its graph unnoticed."""
    op_type = operation.type
    stack.activation.seen[op_type] = None
    where = Where(op_type, operation.name, operation)
    chain = (
        _matching([*stack.by_type.get(op_type, ()), *stack.anywhere], where)
        if operation.outputs
        else ()
    )
    if chain:
        note(stack, chain, where, "rewritten", hidden_by=_why_hidden(operation.outputs))
        _mark(chain, operation, where)
    for function in private.functions_called(operation):
        _note_unreached(stack, function, operation)


def _note_unreached(stack: Stack, definition: Any, operation: Any) -> None:
    reason = (
        f"it lies in the function {definition.signature.name!r} of an imported graph, which is copied as it is. "
        "Import it with tf.compat.v1.wrap_function, and call that under the override"
    )
    for node in definition.node_def:
        where = Where(node.op, node.name, operation)
        chain = _matching(stack.by_type.get(node.op, ()), where)
        note(stack, chain, where, "rewritten", hidden_by=reason)


def _why_hidden(outputs: Sequence[Any]) -> str | None:
    for tensor in outputs:
        if carries_gradient(tensor):
            return hidden.get()
    return NOT_FLOATING
