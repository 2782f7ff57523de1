"""Rules in a form that a SavedModel keeps: an identity with the rule as its gradient, in a function of its own."""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow.op_rules import OpCall, carries_gradient, chain_pullback
from pullback.engines.tensorflow.override_graphs import enclosing, kept
from pullback.engines.tensorflow.scope import Bound, suspended
from pullback.engines.tensorflow.splice import splice

# What is traced here will be written to a file.
exporting: contextvars.ContextVar[bool] = contextvars.ContextVar("pullback_exporting", default=False)


def spliced(chain: tuple[Bound, ...], call: OpCall, outputs: Sequence[Any]) -> list[Any]:
    """The outputs by way of an identity that has the rule: for where a mark on the op would be lost with the op."""
    flowing = [i for i, t in enumerate(outputs) if carries_gradient(t)]
    run = chain_pullback(chain, call)

    def spliced_pullback(*upstream: Any) -> list[Any]:
        given = dict(zip(flowing, upstream, strict=True))
        return run(*(given.get(i) for i in range(len(outputs))))

    fresh = splice(call.type, [outputs[i] for i in flowing], list(call.inputs or ()), spliced_pullback)
    fresh[0].op._pullback_chain = ()
    replaced = dict(zip(flowing, fresh, strict=True))
    return [replaced.get(i, t) for i, t in enumerate(outputs)]


def carried(chain: tuple[Bound, ...], operation: Any, place: Any) -> list[Any]:
    """The outputs of an op by way of a small function that has the rule."""
    count = len(operation.inputs)

    def carrier(*tensors: Any) -> list[Any]:
        inputs, outputs = list(tensors[:count]), list(tensors[count:])
        call = OpCall(operation.type, inputs, outputs, None, _Moved(operation, inputs, outputs))
        call.place = place
        return [tf.identity(t) for t in spliced(chain, call, outputs)]

    return in_function(carrier, [*operation.inputs, *operation.outputs])


def in_function(function: Any, tensors: Sequence[Any]) -> Any:
    """Run a function as a function of its own in the graph, which lives as long as the graphs around it."""
    graph = tf.compat.v1.get_default_graph()
    made = tf.function(function, autograph=False)
    with suspended():
        result = made(*tensors)
    for each in enclosing(graph):
        kept(each).alive.append(made)
    return result


def hold_on(owner: Any, concrete: Any) -> None:
    """Keep what a trace made alive with its owner."""
    owner._pullback_alive = tuple(kept(concrete.graph).alive)


class _Moved:
    """An op as its gradient function sees it, with the tensors of another graph in place of its own."""

    def __init__(self, operation: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self._operation = operation
        self.inputs = inputs
        self.outputs = outputs
        self.skip_input_indices = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operation, name)
