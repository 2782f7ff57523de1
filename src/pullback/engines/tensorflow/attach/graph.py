"""Attaching a rule to a call that is being traced.

The body's ops stay in the graph as they are, so nothing has to be kept or hidden: what no gradient needs is pruned. The
outputs are spliced to the inputs and to what the body captured; the ordinary gradient of the latter is built by
differentiating the body's own ops, with the inputs held fixed.
"""

from __future__ import annotations

import contextvars
import types
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.attach import recorded
from pullback.engines.tensorflow.attach.graph_captures import prepare
from pullback.engines.tensorflow.attach.recorded import Given, Recorded
from pullback.engines.tensorflow.attach.variables import Variables
from pullback.errors import ExportError
from pullback.extend import ForwardResult

# What is traced here will be written to a file.
exporting: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "pullback_exporting", default=False
)


def attach(given: Given) -> Any:
    """Trace the call into the current graph with its own gradient."""
    graph = tf.compat.v1.get_default_graph()
    tensors = values.distinct([_in_this(graph, t) for t in given.tensors])
    given = given._replace(leaves=given.around(tensors), tensors=tensors)
    if exporting.get():
        return _attach_portably(graph, given)
    before = graph.version
    with Variables() as variables:
        result = recorded.run(given.call, given.leaves, _converted)
    record = _record(graph, given, result)
    outputs = record.values
    if "original" in given.call.definition.kept:
        record.keep_ordinary(_Differentiate(graph, outputs, tensors))
    found = variables.found()
    foreign = _foreign(graph, outputs, tensors, before)
    if "variables" in record.rule.requested:
        record.variables = found
    captured = [*foreign, *(() if record.variables else (v.handle for v in found))]
    if captured:
        # Now, not when differentiating: a branch of a tf.cond forgets by then what it has captured.
        inside = [_in_this(graph, source) for source in captured]
        record.captured = _Differentiate(graph, outputs, inside, tensors)
    # Values read, not handles: the gradient of an op that passes on a handle is lost in a SavedModel.
    sources = [*tensors, *foreign, *(v.read_value() for v in found)]
    if not sources or not outputs:
        return record.form.rebuild(result.leaves)
    finished = recorded.finish(record, result, given.leaves, sources)
    if private.is_control_flow(graph):
        prepare(graph, record.backward, outputs)
    return finished


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
    result = recorded.run(call, fixed, _converted)
    record = _record(graph, given, result)
    record.captured = list
    if "original" in call.definition.kept:
        again = recorded.run(call, given.leaves, _converted)
        outputs = [values.gradient_tensor(again.leaves[i]) for i in record.returned]
        record.keep_ordinary(_Differentiate(graph, outputs, tensors))
    return recorded.finish(record, result, given.leaves, [*tensors, *record.values])


def _record(graph: Any, given: Given, result: ForwardResult) -> Recorded:
    record = recorded.record(given, result)
    record.values = [_in_this(graph, value) for value in record.values]
    record.tensors = given.tensors
    return record


class _Differentiate:
    """The ordinary gradient through the ops of a graph, built in the graph that is current when it is asked for."""

    def __init__(
        self, graph: Any, outputs: Sequence[Any], sources: Sequence[Any], fixed: Sequence[Any] = ()
    ) -> None:
        self._graph = graph
        self._outputs = list(outputs)
        self._sources = list(sources)
        self._fixed = list(fixed)

    def __call__(self, upstream: Sequence[Any]) -> list[Any]:
        return private.gradients_across(
            self._outputs,
            self._sources,
            grad_ys=list(upstream),
            stop_gradients=self._fixed,
            src_graph=self._graph,
        )


def _foreign(graph: Any, outputs: Sequence[Any], inputs: Sequence[Any], before: int) -> list[Any]:
    """The tensors of flowing dtype that the body uses but neither was given nor made."""
    found: dict[int, Any] = {}
    given = {id(t) for t in inputs}
    # A small eager tensor is captured as a constant op, which looks like one of the body's own.
    captured = {t.op.name for t in getattr(graph, "internal_captures", ())}
    seen: set[int] = set()
    todo = [v for v in outputs if id(v) not in given]
    while todo:
        tensor = todo.pop()
        operation = tensor.op
        old = private.operation_number(operation) <= before or operation.type == "Placeholder"
        if old or operation.name in captured:
            if values.flows(tensor):
                found[id(tensor)] = tensor
        elif id(operation) not in seen:
            seen.add(id(operation))
            todo += [t for t in operation.inputs if id(t) not in given]
    return list(found.values())


def _converted(function: Any) -> Any:
    """The user's function with its Python control flow turned into TensorFlow's, in Keras' `fit` too."""
    if isinstance(function, (types.FunctionType, types.MethodType)):
        return private.tf_convert(
            function, private.autograph_context(function.__name__ == "<lambda>")
        )
    return function


def _in_this(graph: Any, tensor: Any) -> Any:
    """A tensor from outside as this graph has captured it."""
    inside = not isinstance(tensor, private.EagerTensor) and tensor.graph is graph
    if inside or not isinstance(graph, private.FuncGraph):
        return tf.convert_to_tensor(tensor)
    return graph.capture(tensor)
