"""Values from outside that a rule reads while its backward pass is built in another graph.

TensorFlow's gradients of tf.cond and tf.while_loop fail on an eager tensor (a variable's handle, a large constant) that
only the gradient captures. Where the forward graph has captured it already, the rule is given that capture instead.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private


@contextlib.contextmanager
def through(forward: Any) -> Iterator[None]:
    """Let the current graph capture eager tensors by the ways that its kind of graph allows."""
    graph = tf.compat.v1.get_default_graph()
    if graph is forward or not isinstance(graph, private.FuncGraph):
        yield
        return
    with private.capturing(graph, lambda tensor: _reachable(graph, forward, tensor)):
        yield


def _reachable(graph: Any, forward: Any, tensor: Any) -> Any:
    """The tensor that stands for one from outside where this graph can capture it."""
    eager = isinstance(tensor, private.EagerTensor)
    outer = graph.outer_graph
    if eager and private.is_cond_gradient(graph) and isinstance(outer, private.FuncGraph):
        return outer.capture(_reachable(outer, None, tensor))
    if not eager and tensor.graph is graph:
        return tensor
    forward = getattr(graph, "_forward_graph", forward)
    known = {id(outside): inside for outside, inside in getattr(forward, "captures", ())}
    return known.get(id(tensor), tensor)


def prepare(graph: Any, backward: Callable[..., Any], values: Sequence[Any]) -> None:
    """Capture now what a backward function will read from outside this graph once the graph is finished."""

    def rule(*upstream: Any) -> list[Any]:
        return [tf.convert_to_tensor(g) for g in backward(*upstream) if g is not None]

    specs = [tf.TensorSpec(v.shape, v.dtype) for v in values]
    with private.stop_recording():
        traced = tf.function(rule, autograph=False).get_concrete_function(*specs)
    for tensor in traced.captured_inputs:
        graph.capture(tensor)
