"""Names of gradients in TensorFlow's registry, each for as long as a graph that uses it lives.

The registry itself lives for ever, and gradient functions hold tensors of their graphs. So a graph owns its gradient
functions, and the registry holds no more than a way to the graph.
"""

from __future__ import annotations

import itertools
import re
import secrets
import weakref
from collections.abc import Callable
from typing import Any

from pullback.engines.tensorflow import tf_private as private

PREFIX = "pullback_"
# In the name of a gradient whose transpose gives the tangents, so that it must be linear: a file keeps the name.
TRANSPOSABLE = "by_transpose"
# A file saved without its gradients must not find another's under the same name in another process.
_PROCESS = secrets.token_hex(4)
_numbers = itertools.count()

Gradient = Callable[..., Any]


def new_name(hint: str) -> str:
    """A name that nothing else in this or another process has."""
    return f"{PREFIX}{re.sub(r'[^A-Za-z0-9]', '_', hint)}_{_PROCESS}_{next(_numbers)}"


def register(name: str, gradient: Gradient, graph: Any) -> None:
    """Let a graph own a gradient under this name; other graphs may own it, too."""
    if not hasattr(graph, "_pullback_gradients"):
        graph._pullback_gradients = {}
    graph._pullback_gradients[name] = gradient
    registered = private.registered_gradient(name)
    if registered is None:
        registered = _Registered(name)
        private.remember_gradient(name, registered)
    registered.owners.append(weakref.ref(graph, registered.release))


class _Registered:
    """What stands in TensorFlow's registry under a name."""

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self.owners: list[weakref.ref[Any]] = []

    def __call__(self, operation: Any, *upstream: Any) -> Any:
        return self.function(operation, *upstream)

    @property
    def function(self) -> Gradient:
        """The gradient function, as long as one of its graphs lives."""
        for owner in self.owners:
            graph = owner()
            if graph is not None:
                return graph._pullback_gradients[self.__name__]
        raise LookupError(f"the graph that defined the gradient {self.__name__} is gone")

    def release(self, owner: weakref.ref[Any]) -> None:
        """A graph is gone, and with it the name, unless another graph owns it."""
        self.owners.remove(owner)
        if not self.owners:
            private.forget_gradient(self.__name__)
