"""Ops: an op whose type is targeted gets a rule instead of TensorFlow's gradient, at once or in a graph.

At once: its outputs are handed on as new handles, recorded with the rule. In a graph: the op is
marked with the name of the rule, which tf.gradients and every function's backward pass obey, and
tapes opened inside the trace record the rule as well.
"""

from __future__ import annotations

import contextvars
import weakref
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach.graph import exporting, must_capture_ahead
from pullback.engines.tensorflow.attach.registry import TRANSPOSABLE
from pullback.engines.tensorflow.attach.splice import capture_ahead, record, splice
from pullback.engines.tensorflow.override.graphs import (
    GIVEN_INSIDE,
    gradient_name,
    in_function,
    note,
    state_of,
)
from pullback.engines.tensorflow.override.op_calls import (
    Op,
    OpView,
    asked_place,
    record_of,
    why_hidden,
)
from pullback.engines.tensorflow.override.places import Where
from pullback.engines.tensorflow.tf_private import keras_losses, overriding
from pullback.engines.tensorflow.values import with_gradient_tensors
from pullback.extend import (
    Bound,
    Chain,
    Stack,
    guarded,
    matching,
    one_op_call,
    postponed,
    suspended,
)

# Traits of a stack in force in the body of a tf.vectorized_map, whose ops will be turned into others.
BATCHED = ("batched",)
MODEL_WAS_BUILT = (
    "a Keras model was built here, and building runs nothing that could be differentiated. "
    "Build it outside, and apply the override to it: `pb.override({...})(model)`."
)
# What runs here will run again by itself, outside of every block: matches are noted, and nothing is changed.
inert: contextvars.ContextVar[bool] = contextvars.ContextVar("pullback_inert", default=False)
_STOPPED = "recording is stopped where it runs (tape.stop_recording)"


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
    caller = one_op_call.get()
    if caller is None and op_type in stack.plain and not guarded.get():
        chain = stack.plain[op_type]
    else:
        chain = matching(bounds, where) if bounds else ()
        if caller is not None:
            chain = caller.join(op_type, chain)
    if not chain:
        return outputs
    if graph is not None:
        return _in_graph(stack, chain, where, operation, outputs)
    return _at_once(chain, where, Op(op_type, inputs, outputs, attrs), outputs)


def _at_once(chain: Chain, where: Where, op: Op, outputs: list[Any]) -> list[Any]:
    recorded = bool(private.possible_gradient_types(op.inputs))
    reason = note_eager(chain, where, recorded, why_hidden(op.inputs, outputs))
    if not recorded or reason is not None:
        return outputs
    op.place = asked_place(chain, where, op.inputs)
    op.outputs = list(map(private.detached, outputs))
    _record(chain, op)
    # Ops that leave the fast path are recorded once more afterwards: the mark prevents it.
    op.outputs[0]._pullback_recorded = True
    outputs[:] = op.outputs
    return outputs


def note_eager(chain: Chain, where: Where, recorded: bool, reason: str | None) -> str | None:
    """Note a match in eager code, with or without a reason why it has no effect; that reason, or one found here."""
    later = postponed.get()
    if reason is None and not recorded and not later and private.recording_is_stopped():
        reason = _STOPPED
    note(chain, where, "eager", recorded=recorded or later, hidden_by=reason)
    return reason


def _record(chain: Chain, op: Op) -> None:
    """Record an op with its rule on every tape and accumulator."""
    recorded = record_of(chain, op)
    if recorded.ordinary is None:
        recorded.references = list(map(weakref.ref, op.inputs))
    else:  # which keeps the inputs anyway
        recorded.tensors = op.inputs
    recorded.values = [op.outputs[i] for i in recorded.returned]
    record(op.type, recorded.values, list(op.inputs), recorded.backward, recorded.forward)
    recorded.values = ()


def record_marked(operation: Any) -> bool:
    """Record a marked op of a graph on the tapes inside the trace; whether there was nothing left to record."""
    chain = getattr(operation, "_pullback_chain", None)
    if chain:
        _record(chain, Op.of(operation))
    return chain is not None


def _in_graph(stack: Stack, chain: Chain, where: Where, operation: Any, outputs: Any) -> Any:
    if overriding.in_keras_symbolic_scope():
        stack.activation.unreachable = MODEL_WAS_BUILT
        return outputs
    reason = why_hidden(operation.inputs, outputs)
    inner = _inside_of_maps(chain, operation)
    note(inner, where, "traced", hidden_by=reason)
    if len(inner) < len(chain):
        taped = private.possible_gradient_types(operation.inputs)
        note(
            chain[len(inner) :],
            where,
            "traced",
            hidden_by=reason or (None if taped else GIVEN_INSIDE),
        )
    if reason is not None or inert.get():
        return outputs
    if exporting.get():
        fresh = _in_portable_function(chain, operation, where.place)
    elif stack.traits == BATCHED:
        op = Op.of(operation, where.place, private.own_gradient(operation))
        fresh = _behind_identity(chain, op)
    else:
        _mark(chain, operation, where)
        if operation.type not in keras_losses.LOOKED_BEHIND:
            return outputs
        # Keras' losses would take the input of such an op instead, and pass the rule by.
        record_marked(operation)
        fresh = list(map(tf.identity, outputs))
    fresh[0].op._pullback_chain = ()
    return fresh


def _behind_identity(chain: Chain, op: Op) -> list[Any]:
    """The outputs by way of an identity that has the rule: for where a mark on the op would be lost with the op."""
    recorded = record_of(chain, op)
    recorded.tensors = op.inputs
    values = [op.outputs[i] for i in recorded.returned]
    fresh = splice(f"{op.type}_{TRANSPOSABLE}", values, op.inputs, recorded.backward)
    fresh[0].op._pullback_chain = ()
    return with_gradient_tensors(op.outputs, recorded.returned, fresh)


def _in_portable_function(chain: Chain, operation: Any, place: Any) -> list[Any]:
    """The outputs of an op by way of a small function that has the rule, which a SavedModel keeps."""
    count = len(operation.inputs)

    def carrier(*tensors: Any) -> list[Any]:
        inputs, outputs = list(tensors[:count]), list(tensors[count:])
        view = OpView(operation, inputs, outputs)
        own = private.own_gradient(operation)
        op = Op(operation.type, inputs, outputs, None, view, place, own)
        return list(map(tf.identity, _behind_identity(chain, op)))

    return in_function(carrier, [*operation.inputs, *operation.outputs])


def _inside_of_maps(chain: Chain, operation: Any) -> Chain:
    """The rules of overrides that were opened inside a gradient_override_map for this op, which win over the map."""
    opened = state_of(operation.graph).mapped.get(operation.type, 0)
    return tuple(bound for bound in chain if bound.depth >= opened) if opened else chain


def _mark(chain: Chain, operation: Any, where: Where) -> None:
    operation._pullback_chain = chain  # for tapes, which know nothing of maps
    operation._pullback_place = asked_place(chain, where, operation.inputs)
    chain = _inside_of_maps(chain, operation)
    if not chain:
        return
    own = private.own_gradient(operation)
    private.set_gradient_name(operation, gradient_name(operation.graph, chain, own))
    if any(must_capture_ahead(operation.graph, bound.rule) for bound in chain):
        recorded = record_of(chain, Op.of(operation, own=own))
        outputs = [operation.outputs[i] for i in recorded.returned]
        with suspended():
            capture_ahead(operation.graph, recorded.backward, outputs)


def mark_imported(stack: Stack, operation: Any) -> None:
    """Attach the rules that match an op which came into its graph unnoticed."""
    op_type = operation.type
    stack.activation.seen[op_type] = None
    where = Where(op_type, operation.name, operation)
    bounds = (*stack.by_handle.get(op_type, ()), *stack.anywhere)
    chain = matching(bounds, where) if operation.outputs else ()
    if chain:
        reason = why_hidden(operation.inputs, operation.outputs)
        note(chain, where, "rewritten", hidden_by=reason)
        if reason is None and not inert.get():
            _mark(chain, operation, where)
    for definition in overriding.functions_called(operation):
        reason = (
            f"it lies in the function {definition.signature.name!r} of an imported graph, which is copied as it is. "
            "Import it with tf.compat.v1.wrap_function, and call that under the override"
        )
        for node in definition.node_def:
            where = Where(node.op, node.name, operation)
            found = matching(stack.by_handle.get(node.op, ()), where)
            note(found, where, "rewritten", hidden_by=reason)
