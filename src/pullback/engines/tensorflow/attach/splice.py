"""The one primitive: give values a gradient of our own towards some sources.

`splice` returns new handles on the same values. To every tape, accumulator and graph, these come from the sources by
way of the given backward function, and from nothing else.
"""

from __future__ import annotations

import itertools
import re
import secrets
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach.graph_captures import through

Backward = Callable[..., Sequence[Any]]
PREFIX = "pullback_"
# In the name of a gradient whose transpose gives the tangents, so that it must be linear: a file keeps the name.
TRANSPOSABLE = "by_transpose"
_numbers = itertools.count()
# A file saved without its gradients must not find another's under the same name in another process.
_PROCESS = secrets.token_hex(4)


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
        fresh = [private.detached(v) for v in values]
    else:
        fresh = _spliced_in_graph(name, values, sources, backward)
    if ready:
        ready(fresh)
    private.record_operation(name, fresh, list(sources), backward, forward)
    return fresh


def _spliced_in_graph(
    name: str, values: Sequence[Any], sources: Sequence[Any], backward: Backward
) -> list[Any]:
    graph = tf.compat.v1.get_default_graph()
    count = len(values)

    gradient = _IdentityGradient(graph, count, backward)
    registered = register_gradient(graph, name, gradient)
    everything = private.identity_with_gradient(graph, [*values, *sources], registered)
    for fresh, value in zip(everything, values, strict=False):
        fresh.set_shape(value.shape)
    return list(everything[:count])


class _IdentityGradient:
    """The gradient of an identity over values and sources: all of it goes to the sources."""

    def __init__(self, graph: Any, count: int, backward: Backward) -> None:
        self.count = count
        self._graph = weakref.ref(graph)
        self._backward = backward

    def __call__(self, _: Any, *upstream: Any) -> list[Any]:
        with through(self._graph()):
            return [None] * self.count + list(self._backward(*upstream[: self.count]))


def register_gradient(graph: Any, hint: str, gradient: Callable[..., Any]) -> str:
    """A name for a gradient function that the graph owns: it goes when the graph goes."""
    name = f"{PREFIX}{re.sub(r'[^A-Za-z0-9]', '_', hint)}_{_PROCESS}_{next(_numbers)}"
    if not hasattr(graph, "_pullback_gradients"):
        graph._pullback_gradients = {}
    graph._pullback_gradients[name] = gradient
    private.remember_gradient(name, _Registered(graph, name))
    weakref.finalize(graph, private.forget_gradient, name)
    return name


class _Registered:
    """What stands in TensorFlow's registry, which lives for ever: no more than a way to the graph."""

    def __init__(self, graph: Any, name: str) -> None:
        self._graph = weakref.ref(graph)
        self.__name__ = name

    def __call__(self, operation: Any, *upstream: Any) -> Any:
        return self.function(operation, *upstream)

    @property
    def function(self) -> Callable[..., Any]:
        """The gradient function, as long as its graph lives."""
        graph = self._graph()
        if graph is None:
            raise LookupError(f"the graph that defined the gradient {self.__name__} is gone")
        return graph._pullback_gradients[self.__name__]
