"""Rules in a form that a SavedModel keeps: an identity with the rule as its gradient, in a function
of its own.
"""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from pullback._engine import Kind
from pullback._pullback import Pullback
from pullback.engines.tensorflow.attach.graph import differentiate
from pullback.engines.tensorflow.attach.recorded import Recorded, finish
from pullback.engines.tensorflow.attach.splice import TRANSPOSABLE, splice
from pullback.engines.tensorflow.override.graphs import enclosing, kept
from pullback.engines.tensorflow.override.op_rules import OpCall, carries_gradient, chain_pullback
from pullback.engines.tensorflow.override.scope import Bound, suspended
from pullback.engines.tensorflow.values import core, kind, like, with_core
from pullback.errors import ExportError

# What is traced here will be written to a file.
exporting: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "pullback_exporting", default=False
)


def spliced(chain: tuple[Bound, ...], call: OpCall, outputs: Sequence[Any]) -> list[Any]:
    """The outputs by way of an identity that has the rule: for where a mark on the op would be lost with the op."""
    flowing = [i for i, t in enumerate(outputs) if carries_gradient(t)]
    run = chain_pullback(chain, call)

    def spliced_pullback(*upstream: Any) -> list[Any]:
        given = dict(zip(flowing, upstream, strict=True))
        return run(*(given.get(i) for i in range(len(outputs))))

    name = f"{call.type}_{TRANSPOSABLE}"
    fresh = splice(name, [outputs[i] for i in flowing], list(call.inputs or ()), spliced_pullback)
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


def attach_portably(job: Any, leaves: Sequence[Any]) -> Any:
    """Trace a region without variables among the sources of its gradient, which a SavedModel could not keep.

    The body runs once with its inputs held fixed: through it, variables get their ordinary
    gradient. Where the rule asks for the original, the body runs once more.
    """
    if "variables" in job.wants:
        raise ExportError(
            f"the rule of `{job.name}` asks for `variables`, which a file cannot keep. "
            "Leave them their ordinary gradient."
        )
    graph = tf.compat.v1.get_default_graph()
    kinds = [kind(leaf) for leaf in leaves]
    flowing = [i for i, k in enumerate(kinds) if k is Kind.DIFFERENTIABLE]
    tensors = [core(leaves[i]) for i in flowing]
    ran = job.run(_with_cores(leaves, flowing, [tf.stop_gradient(t) for t in tensors]))
    returned = [i for i, leaf in enumerate(ran.leaves) if kind(leaf) is Kind.DIFFERENTIABLE]
    values = [core(ran.leaves[i]) for i in returned]
    recorded = Recorded(Pullback(ran, kinds, [like(leaf) for leaf in leaves]), flowing, returned)
    recorded.cores = tensors
    recorded.captured = list
    if "original" in job.wants:
        again = [core(job.run(leaves).leaves[i]) for i in returned]
        recorded.ordinary = _ordinary(graph, again, tensors, flowing, len(leaves))
    return finish(recorded, leaves, values, [*tensors, *values])


def _with_cores(leaves: Sequence[Any], flowing: Sequence[int], cores: Sequence[Any]) -> list[Any]:
    inner = list(leaves)
    for index, tensor in zip(flowing, cores, strict=True):
        inner[index] = with_core(inner[index], tensor)
    return inner


def _ordinary(
    graph: Any, values: list[Any], inputs: list[Any], flowing: list[int], count: int
) -> Any:
    def ordinary(upstream: Sequence[Any]) -> list[Any]:
        flat: list[Any] = [None] * count
        found = differentiate(graph, values, inputs, upstream)
        for index, gradient in zip(flowing, found, strict=True):
            flat[index] = gradient
        return flat

    return ordinary


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
