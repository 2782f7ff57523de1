"""Attaching a rule to a call that is being traced.

The body's ops stay in the graph as they are, so nothing has to be kept or hidden: what no gradient needs is pruned. The
outputs are spliced to the inputs and to what the body captured; the ordinary gradient of the latter is built by
differentiating the body's own ops, with the inputs held fixed.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from pullback._engine import Kind
from pullback._pullback import Job, Pullback
from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach.graph_captures import prepare
from pullback.engines.tensorflow.attach.recorded import Recorded, finish
from pullback.engines.tensorflow.attach.variables import Variables
from pullback.engines.tensorflow.values import core, distinct, flows, kind, like, with_core
from pullback.engines.tensorflow.values import outputs as outputs_of


def attach(job: Job, leaves: Sequence[Any], kinds: Sequence[Kind]) -> Any:
    """Trace the job into the current graph with its own gradient."""
    graph = tf.compat.v1.get_default_graph()
    flowing = [i for i, k in enumerate(kinds) if k is Kind.DIFFERENTIABLE]
    leaves = list(leaves)
    tensors = distinct([_in_this(graph, core(leaves[i])) for i in flowing])
    for index, tensor in zip(flowing, tensors, strict=True):
        leaves[index] = with_core(leaves[index], tensor)
    before = graph.version
    with Variables() as variables:
        ran = job.run(leaves, _converted)
    ran.leaves = outputs_of(ran.leaves)
    returned = [i for i, leaf in enumerate(ran.leaves) if kind(leaf) is Kind.DIFFERENTIABLE]
    values = [_in_this(graph, core(ran.leaves[i])) for i in returned]
    recorded = Recorded(Pullback(ran, kinds, [like(leaf) for leaf in leaves]), flowing, returned)
    recorded.cores = tensors
    recorded.ordinary = _Ordinary(graph, values, tensors, flowing, len(leaves)).of_leaves
    found = variables.found()
    foreign = _foreign(graph, values, tensors, before)
    if "variables" in ran.rule.wants:
        recorded.variables = found
    captured = [*foreign, *(() if recorded.variables else (v.handle for v in found))]
    if captured:
        recorded.captured = _Captured(graph, values, tensors, captured).gradients
    # Values read, not handles: the gradient of an op that passes on a handle is lost in a SavedModel.
    sources = [*tensors, *foreign, *(v.read_value() for v in found)]
    if not sources or not values:
        return ran.outputs(ran.leaves)
    outputs = finish(recorded, leaves, values, sources)
    if private.is_control_flow(graph):
        prepare(graph, recorded.backward, values)
    return outputs


class _Ordinary:
    """The ordinary gradient of the body with respect to the inputs."""

    def __init__(
        self, graph: Any, values: list[Any], inputs: list[Any], flowing: list[int], count: int
    ) -> None:
        self._graph = graph
        self._values = values
        self._inputs = inputs
        self._flowing = flowing
        self._count = count

    def of_leaves(self, upstream: Sequence[Any]) -> list[Any]:
        """One gradient per leaf of the inputs."""
        gradients = differentiate(self._graph, self._values, self._inputs, upstream)
        flat: list[Any] = [None] * self._count
        for index, gradient in zip(self._flowing, gradients, strict=True):
            flat[index] = gradient
        return flat


class _Captured:
    """The ordinary gradient of the body with respect to what it captured."""

    def __init__(
        self, graph: Any, values: list[Any], inputs: list[Any], captured: list[Any]
    ) -> None:
        self._graph = graph
        self._values = values
        self._inputs = inputs
        # Now, not when differentiating: a branch of a tf.cond forgets by then what it has captured.
        self._captured = [_in_this(graph, source) for source in captured]

    def gradients(self, upstream: Sequence[Any]) -> list[Any]:
        """One gradient per captured source, the inputs held fixed."""
        return differentiate(self._graph, self._values, self._captured, upstream, self._inputs)


def differentiate(
    graph: Any,
    values: Sequence[Any],
    sources: Sequence[Any],
    upstream: Sequence[Any],
    fixed: Sequence[Any] = (),
) -> list[Any]:
    """The ordinary gradient through the ops of a graph, built in the current one."""
    return private.gradients_across(
        list(values),
        list(sources),
        grad_ys=list(upstream),
        stop_gradients=list(fixed),
        src_graph=graph,
    )


def _foreign(graph: Any, values: Sequence[Any], inputs: Sequence[Any], before: int) -> list[Any]:
    """The tensors of flowing dtype that the body uses but neither was given nor made."""
    found: dict[int, Any] = {}
    given = {id(t) for t in inputs}
    # A small eager tensor is captured as a constant op, which looks like one of the body's own.
    captured = {t.op.name for t in getattr(graph, "internal_captures", ())}
    seen: set[int] = set()
    todo = [v for v in values if id(v) not in given]
    while todo:
        tensor = todo.pop()
        operation = tensor.op
        old = private.operation_number(operation) <= before or operation.type == "Placeholder"
        if old or operation.name in captured:
            if flows(tensor):
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
