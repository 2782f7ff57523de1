"""The one primitive: give values a gradient of our own towards some sources.

`splice` returns new handles on the same values. To every tape, accumulator and graph, these come from the sources by
way of the given backward function, and from nothing else.

In a graph, the backward function may run while another graph is built, and read values from outside both. TensorFlow's
gradients of tf.cond and tf.while_loop fail on an eager tensor (a variable's handle, a large constant) that only the
gradient captures. Where the forward graph has captured it already, the rule is given that capture instead.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Generator, Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach import registry
from pullback.engines.tensorflow.tf_private import saving
from pullback.engines.tensorflow.tf_private import transposing as tangents
from pullback.engines.tensorflow.values import tensors_in
from pullback.errors import ExportError
from pullback.extend import rehearsing, set_for, walk

Backward = Callable[..., Sequence[Any]]


def splice(
    name: str,
    values: Sequence[Any],
    sources: Sequence[Any],
    backward: Backward,
    forward: Backward | None = None,
    ready: Callable[[Sequence[Any]], None] | None = None,
) -> list[Any]:
    """The values again, with `backward` as their gradient towards the sources.

    `ready` gets the new handles before an accumulator asks for tangents.
    """
    if private.executing_eagerly():
        fresh = list(map(private.detached, values))
    else:
        fresh = _splice_in_graph(name, values, sources, backward)
    if ready:
        ready(fresh)
    record(name, fresh, list(sources), backward, forward)
    return fresh


def record(
    name: str,
    outputs: list[Any],
    sources: list[Any],
    backward: Backward,
    forward: Backward | None,
) -> None:
    """Record outputs on every tape and accumulator, so that a tape can differentiate the tangents.

    TensorFlow asks for tangents before it tells the tapes of the outputs: to them, a rule that reads its outputs would
    read constants. So tapes are told first, and accumulators by way of handles on the sources that no tape knows.
    """
    taped = forward is not None and tangents.should_record_backprop(sources)
    if taped and tangents.have_tangents(sources):
        tangents.record_backprop(name, outputs, sources, backward)
        sources = tangents.known_to_accumulators(sources)
    private.record_operation(name, outputs, sources, backward, forward)


def _splice_in_graph(
    name: str, values: Sequence[Any], sources: Sequence[Any], backward: Backward
) -> list[Any]:
    graph = tf.compat.v1.get_default_graph()
    registered = registry.new_name(name)
    registry.register(registered, IdentityGradient(graph, len(values), backward), graph)
    fresh = private.identity_with_gradient(graph, [*values, *sources], registered)[: len(values)]
    for new, value in zip(fresh, values, strict=True):
        new.set_shape(value.shape)
    return list(fresh)


class IdentityGradient:
    """The gradient of an identity over values and sources: all of it goes to the sources."""

    def __init__(self, graph: Any, count: int, backward: Backward) -> None:
        self.count = count
        self._graph = weakref.ref(graph)
        self.backward = backward

    def __call__(self, _: Any, *upstream: Any) -> list[Any]:
        with through(self._graph()):
            return [None] * self.count + list(self.backward(*upstream[: self.count]))


@contextlib.contextmanager
def through(forward: Any) -> Generator[None]:
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
        with outer.as_default():  # a small tensor becomes a constant of the default graph
            return outer.capture(_reachable(outer, None, tensor))
    if not eager and tensor.graph is graph:
        return tensor
    if eager and tensor.dtype == tf.resource and saving.being_saved():
        # A file keeps variables and tables by themselves, and not what a graph has captured of them.
        if private.is_control_flow(forward):
            raise ExportError(
                "a rule reads a variable inside of a tf.while_loop, tf.cond or tf.map_fn, which a file cannot keep. "
                "Read it before and pass its value, or save without gradients: "
                "tf.saved_model.SaveOptions(experimental_custom_gradients=False)."
            )
        return tensor
    forward = private.forward_graph_of(graph) or forward
    known = {id(outside): inside for outside, inside in getattr(forward, "captures", ())}
    return known.get(id(tensor), tensor)


def capture_ahead(graph: Any, backward: Backward, values: Sequence[Any]) -> None:
    """Capture now what a backward function will read from outside this graph once the graph is finished.

    One that fails does so again when its gradient is asked for, which may be never.
    """
    with contextlib.suppress(Exception):
        with set_for(rehearsing, True):
            reads = captures(traced(backward, values))
        for tensor, used in reads:
            if used:
                graph.capture(tensor)


def captures(function: Any) -> list[tuple[Any, bool]]:
    """What a concrete function captured, and whether its results depend on it.

    Where an accumulator is open, TensorFlow captures the tangents of what is captured, too.
    """
    graph = function.graph
    ends = [*(t.op for t in graph.outputs), *graph.control_outputs]
    used = {id(op) for op in walk(*ends, depth=private.newest_operation(graph), inside=_read_by)}
    return [(outside, id(inside.op) in used) for outside, inside in graph.captures]


def _read_by(operation: Any) -> list[Any]:
    return [*(t.op for t in operation.inputs), *operation.control_inputs]


def traced(backward: Backward, values: Sequence[Any]) -> Any:
    """A backward function as a concrete one of upstream gradients like these values; it captures what it uses."""

    def present(*upstream: Any) -> list[Any]:
        return tensors_in(backward(*upstream))

    specs = [tf.TensorSpec(v.shape, v.dtype) for v in values]
    return tf.function(present, autograph=False).get_concrete_function(*specs)
