"""Attaching a rule to a call that is being traced: into a graph, or as a node of a functional Keras model.

The body's ops stay in the graph as they are, so nothing has to be kept or hidden: what no gradient needs is pruned. The
outputs are spliced to the inputs and to what the body captured; the ordinary gradient of the latter is built by
differentiating the body's own ops, with the inputs held fixed.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.attach import recorded
from pullback.engines.tensorflow.attach.closed_over import Variables, reads_outside
from pullback.engines.tensorflow.attach.hidden_tensors import refuse_in_outputs, refuse_unseen
from pullback.engines.tensorflow.attach.model_nodes import call_as_node
from pullback.engines.tensorflow.attach.recorded import FlatGradient, Given, Recorded
from pullback.engines.tensorflow.attach.splice import capture_ahead
from pullback.engines.tensorflow.tf_private import overriding
from pullback.errors import ExportError
from pullback.extend import (
    Call,
    ForwardResult,
    Rule,
    unflatten,
    walk,
)

# What is traced here will be written to a file.
exporting: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "pullback_exporting", default=False
)
_INPUTS = frozenset(["Placeholder", "PlaceholderWithDefault"])
_HOLDING = (tf.resource, tf.variant)  # variables, lists of tensors
# So many ops in a row are looked at for what a tensor was computed from.
_MOST_OPS = 10_000
_converted = functools.partial(overriding.converted, body=True)


def attach(given: Given) -> Any:
    """Trace the call into the current graph with its own gradient."""
    graph = tf.compat.v1.get_default_graph()
    arguments = [_in_this(graph, t) for t in given.tensors]
    tensors = values.distinct(arguments)
    given = given._replace(leaves=given.around(tensors), tensors=tensors)
    if exporting.get():
        return _attach_portably(graph, given)
    before = private.newest_operation(graph)
    with Variables() as variables:
        result = recorded.run(given.call, given.leaves, _converted)
    record = _record(graph, given, result)
    outputs = record.values
    found = variables.found()
    foreign = _foreign(graph, outputs, tensors, before)
    fixed = [*tensors, *foreign]
    if "variables" in record.rule.requested:
        record.variables = found
    if not given.flowing and not record.variables:
        _refuse_unseen(given, record.rule, foreign)
        if not found:
            return record.form.rebuild(result.leaves)  # nothing is differentiated here
    inside = _sources_inside(graph, given, record)
    if given.call.definition.is_whole and foreign:
        # The rule has said everything about its arguments, also where the body closes over what they were made into.
        foreign = [t for t in foreign if not _depends(t, arguments)]
    captured = [*foreign, *(() if record.variables else (v.handle for v in found))]
    # Now, not when differentiating: a branch of a tf.cond forgets by then what it has captured.
    captured = [_in_this(graph, source) for source in captured]
    _keep(record, functools.partial(_differentiate, graph, outputs, fixed=fixed), inside, captured)
    # Values read, not handles: the gradient of an op that passes on a handle is lost in a SavedModel.
    sources = [*tensors, *foreign, *(v.read_value() for v in found)]
    if not sources or not outputs:
        return record.form.rebuild(result.leaves)
    finished = recorded.finish(record, given, result, sources)
    if must_capture_ahead(graph, record.rule):
        capture_ahead(graph, record.backward, outputs)
    return finished


def _sources_inside(graph: Any, given: Given, record: Recorded) -> list[Any] | None:
    """What the ordinary gradient is taken towards, where the rule asks for that."""
    if "original" not in given.call.definition.kept:
        return None
    leaves = [given.leaves[i] for i in given.flowing]
    sources = map(values.handle_or_tensor, leaves, given.tensors)
    return [_in_this(graph, s) for s in (*sources, *(v.handle for v in record.variables))]


def _keep(record: Recorded, differentiate: Any, inside: list[Any] | None, captured: Any) -> None:
    if inside is not None and captured:
        record.keep_both(differentiate, inside, captured)
    elif inside is not None:
        record.keep_ordinary(differentiate(inside))
    elif captured:
        record.captured = differentiate(captured)


def must_capture_ahead(graph: Any, rule: Rule) -> bool:
    """Whether what a rule reads has to be captured with the forward pass: TensorFlow's gradients of control flow, and
    its forward mode of functions, fail on what only the backward pass captures.
    """
    inside = isinstance(graph, private.FuncGraph)
    return private.is_control_flow(graph) or (inside and reads_outside(rule.function))


def _attach_portably(graph: Any, given: Given) -> Any:
    """Trace without variables among the sources of the gradient, which a SavedModel could not keep.

    The body runs once with its inputs held fixed: through it, variables get their ordinary
    gradient. Where the rule asks for the original, the body runs once more.
    """
    call, tensors = given.call, given.tensors
    if "variables" in call.definition.kept:
        raise ExportError(
            f"the rule of {call.title} asks for `variables`, which a file cannot keep. "
            "Leave them their ordinary gradient."
        )
    fixed = given.around([tf.stop_gradient(t) for t in tensors])
    before = private.newest_operation(graph)
    result = recorded.run(call, fixed, _converted)
    record = _record(graph, given, result)
    if not given.flowing:
        _refuse_unseen(given, record.rule, _foreign(graph, record.values, (), before))
    record.captured = list
    if "original" in call.definition.kept:
        before = private.newest_operation(graph)
        again = recorded.run(call, given.leaves, _converted)
        outputs = [values.gradient_tensor(again.leaves[i]) for i in record.returned]
        foreign = _foreign(graph, outputs, tensors, before)
        record.keep_ordinary(_differentiate(graph, outputs, tensors, foreign))
    returned = record.values
    finished = recorded.finish(record, given, result, [*tensors, *returned])
    if "original" in call.definition.kept:
        # Functions called in the body get outputs for their backward passes now: a file cannot add them later.
        capture_ahead(graph, record.backward, returned)
    return finished


def _refuse_unseen(given: Given, rule: Rule, foreign: Sequence[Any]) -> None:
    used = [_outside(tensor) for tensor in foreign]
    if any(map(_may_have_gradient, used)):
        refuse_unseen(given, rule, used)


def _may_have_gradient(tensor: Any) -> bool:
    """Whether a tensor comes from an input of a program, or from something that a tape watches."""
    for each in walk(tensor, depth=_MOST_OPS, inside=_flows_from):
        if isinstance(each, private.EagerTensor):
            found = private.possible_gradient_types([each]) > 0
        else:
            found = each.op.type in _INPUTS or any(t.dtype in _HOLDING for t in each.op.inputs)
        if found:
            return True
    return False


def _flows_from(tensor: Any) -> list[Any]:
    return [t for t in _made_of(tensor) if values.flows(t)]


def _record(graph: Any, given: Given, result: ForwardResult) -> Recorded:
    refuse_in_outputs(given, result)
    record = recorded.record(given, result)
    record.values = [_in_this(graph, value) for value in record.values]
    record.tensors = given.tensors
    return record


def _differentiate(
    graph: Any, outputs: Sequence[Any], sources: Sequence[Any], fixed: Sequence[Any] = ()
) -> FlatGradient:
    """The ordinary gradient through the ops of a graph, built in the graph that is current when it is asked for.

    Each source for itself: what one is computed from does not count as its own gradient.
    """
    return functools.partial(private.gradients_across, outputs, sources, fixed, graph)


def _foreign(graph: Any, outputs: Sequence[Any], inputs: Sequence[Any], before: int) -> list[Any]:
    """The tensors of flowing dtype that the body uses but neither was given nor made."""
    given = {id(t) for t in inputs}
    # A small eager tensor is captured as a constant op, which looks like one of the body's own.
    captured = {t.op.name for t in getattr(graph, "internal_captures", ())}

    def is_foreign(tensor: Any) -> bool:
        operation = tensor.op
        old = private.operation_number(operation) <= before or operation.type == "Placeholder"
        return old or operation.name in captured or _reads_reference(operation)

    def used(tensor: Any) -> list[Any]:
        return [t for t in tensor.op.inputs if id(t) not in given]

    start = [v for v in outputs if id(v) not in given]
    made = private.newest_operation(graph) - before
    reached = walk(*start, stop=is_foreign, depth=made, inside=used)
    return [t for t in reached if (values.flows(t) or t.dtype == tf.variant) and is_foreign(t)]


def _depends(tensor: Any, arguments: Sequence[Any]) -> bool:
    """Whether a tensor was computed from one of the arguments, here or in the graphs around."""
    # An argument that was read from a variable is that variable, which may have been read again.
    roots = walk(*map(_outside, arguments), depth=_MOST_OPS, inside=_read_from)
    known = {id(root) for root in roots}
    reached = walk(_outside(tensor), depth=_MOST_OPS, inside=_made_of)
    return any(id(each) in known for each in reached)


def _read_from(tensor: Any) -> list[Any]:
    symbolic = not isinstance(tensor, private.EagerTensor)
    reads = symbolic and tensor.op.type in ("ReadVariableOp", "Identity")
    return _made_of(tensor) if reads else []


def _made_of(tensor: Any) -> list[Any]:
    symbolic = not isinstance(tensor, private.EagerTensor)
    return [_outside(t) for t in tensor.op.inputs] if symbolic else []


def _outside(tensor: Any) -> Any:
    """The tensor itself that a graph has captured, however far out."""
    while not isinstance(tensor, private.EagerTensor) and isinstance(
        tensor.graph, private.FuncGraph
    ):
        captures = {id(inside): outside for outside, inside in tensor.graph.captures}
        if id(tensor) not in captures:
            break
        tensor = captures[id(tensor)]
    return tensor


def _reads_reference(operation: Any) -> bool:
    """Whether an op reads a variable of the old kind, which is a tensor of a dtype of its own."""
    return any(t.dtype != t.dtype.base_dtype for t in operation.inputs)


def _in_this(graph: Any, tensor: Any) -> Any:
    """A tensor from outside as this graph has captured it."""
    inside = not isinstance(tensor, private.EagerTensor) and tensor.graph is graph
    if inside or not isinstance(graph, private.FuncGraph):
        return tf.convert_to_tensor(tensor)
    return graph.capture(tensor)


def attach_symbolic(call: Call, leaves: Sequence[Any]) -> Any:
    """Make the call a node of the model."""

    def operation(*args: Any, **kwargs: Any) -> Any:
        return call_as_node(call.definition.owner, args, kwargs)

    return call.plan.call(operation, unflatten(call.structure, leaves))
