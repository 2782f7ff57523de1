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
from pullback.engines.tensorflow.attach import body
from pullback.engines.tensorflow.attach.graph_captures import prepare
from pullback.engines.tensorflow.attach.recorded import Recorded
from pullback.engines.tensorflow.attach.variables import Variables
from pullback.errors import ExportError
from pullback.extend import Call, ForwardResult, Kind

# What is traced here will be written to a file.
exporting: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "pullback_exporting", default=False
)


def attach(call: Call, leaves: Sequence[Any], kinds: Sequence[Kind], flowing: Sequence[int]) -> Any:
    """Trace the call into the current graph with its own gradient."""
    graph = tf.compat.v1.get_default_graph()
    tensors = [_in_this(graph, values.gradient_tensor(leaves[i])) for i in flowing]
    tensors = values.distinct(tensors)
    leaves = values.with_gradient_tensors(leaves, flowing, tensors)
    if exporting.get():
        return _attach_portably(graph, call, leaves, kinds, flowing, tensors)
    before = graph.version
    with Variables() as variables:
        result = body.run(call, leaves, _converted)
    recorded = _record(graph, call, result, leaves, kinds, flowing, tensors)
    outputs = recorded.values
    recorded.keep_ordinary(_Differentiate(graph, outputs, tensors))
    found = variables.found()
    foreign = _foreign(graph, outputs, tensors, before)
    if "variables" in recorded.rule.requested:
        recorded.variables = found
    captured = [*foreign, *(() if recorded.variables else (v.handle for v in found))]
    if captured:
        # Now, not when differentiating: a branch of a tf.cond forgets by then what it has captured.
        inside = [_in_this(graph, source) for source in captured]
        recorded.captured = _Differentiate(graph, outputs, inside, tensors)
    # Values read, not handles: the gradient of an op that passes on a handle is lost in a SavedModel.
    sources = [*tensors, *foreign, *(v.read_value() for v in found)]
    if not sources or not outputs:
        return recorded.form.rebuild(result.leaves)
    finished = body.finish(recorded, result, leaves, sources)
    if private.is_control_flow(graph):
        prepare(graph, recorded.backward, outputs)
    return finished


def _attach_portably(
    graph: Any,
    call: Call,
    leaves: Sequence[Any],
    kinds: Sequence[Kind],
    flowing: Sequence[int],
    tensors: Sequence[Any],
) -> Any:
    """Trace without variables among the sources of the gradient, which a SavedModel could not keep.

    The body runs once with its inputs held fixed: through it, variables get their ordinary
    gradient. Where the rule asks for the original, the body runs once more.
    """
    if "variables" in call.definition.kept:
        raise ExportError(
            f"the rule of {call.title} asks for `variables`, which a file cannot keep. "
            "Leave them their ordinary gradient."
        )
    fixed = [tf.stop_gradient(t) for t in tensors]
    result = body.run(call, values.with_gradient_tensors(leaves, flowing, fixed), _converted)
    recorded = _record(graph, call, result, leaves, kinds, flowing, tensors)
    recorded.captured = list
    if "original" in call.definition.kept:
        again = body.run(call, leaves, _converted)
        outputs = [values.gradient_tensor(again.leaves[i]) for i in recorded.returned]
        recorded.keep_ordinary(_Differentiate(graph, outputs, tensors))
    return body.finish(recorded, result, leaves, [*tensors, *recorded.values])


def _record(
    graph: Any,
    call: Call,
    result: ForwardResult,
    leaves: Sequence[Any],
    kinds: Sequence[Kind],
    flowing: Sequence[int],
    tensors: Sequence[Any],
) -> Recorded:
    recorded = body.record(call, result, leaves, kinds, flowing)
    recorded.values = [_in_this(graph, value) for value in recorded.values]
    recorded.tensors = tensors
    return recorded


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
