"""The one primitive: give values a gradient of our own towards some sources.

`splice` returns new handles on the same values. To every tape, accumulator and graph, these come from the sources by
way of the given backward function, and from nothing else.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach import registry
from pullback.engines.tensorflow.attach.graph_captures import through

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
    private.record_operation(name, fresh, list(sources), backward, forward)
    return fresh


def _splice_in_graph(
    name: str, values: Sequence[Any], sources: Sequence[Any], backward: Backward
) -> list[Any]:
    graph = tf.compat.v1.get_default_graph()
    count = len(values)
    registered = registry.new_name(name)
    registry.register(registered, IdentityGradient(graph, count, backward), graph)
    everything = private.identity_with_gradient(graph, [*values, *sources], registered)
    for fresh, value in zip(everything, values, strict=False):
        fresh.set_shape(value.shape)
    return list(everything[:count])


class IdentityGradient:
    """The gradient of an identity over values and sources: all of it goes to the sources."""

    def __init__(self, graph: Any, count: int, backward: Backward) -> None:
        self.count = count
        self._graph = weakref.ref(graph)
        self._backward = backward

    def __call__(self, _: Any, *upstream: Any) -> list[Any]:
        with through(self._graph()):
            return [None] * self.count + list(self._backward(*upstream[: self.count]))
