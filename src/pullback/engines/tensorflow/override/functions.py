"""Functions without Python source: loaded, concrete, pruned. Their graphs are copied with the
targeted ops marked.

The copy is loaded from the function's definition, runs with the captured inputs of the original,
and keeps the custom gradients that the original has. The original is left as it is.
"""

from __future__ import annotations

import weakref
from typing import Any

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach import registry
from pullback.engines.tensorflow.override import graphs
from pullback.engines.tensorflow.override.op_calls import ChainGradient
from pullback.engines.tensorflow.override.places import Where
from pullback.engines.tensorflow.tf_private import overriding
from pullback.extend import Place, Stack, matching, suspended

MOST_COPIES = 16
_copies: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()


def rewritten(stack: Stack, function: Any) -> Any:
    """The function with the open overrides in force, or itself where none concerns it."""
    copies = _copies.setdefault(function, {})
    if stack.key not in copies:
        if len(copies) >= MOST_COPIES:
            copies.pop(next(iter(copies)))
        copies[stack.key] = _Copy(stack, function).made()
    copy = copies[stack.key]
    if copy is None:
        _explain_unreached(stack, function)
        return function
    graphs.used_again(stack, copy.graph, "rewritten")
    return copy


class _Copy:
    """The making of one copy."""

    def __init__(self, stack: Stack, function: Any) -> None:
        self.stack = stack
        self.function = function
        self.gradients: dict[str, Any] = {}
        self.hits: list[tuple[int, int, Place, str | None]] = []

    def made(self) -> Any:
        """The copy as a concrete function; `None` where no op is targeted."""
        library = overriding.new_library()
        for definition in overriding.reachable_definitions(self.function):
            library.function.add().CopyFrom(definition)
        for definition in library.function:
            for node in definition.node_def:
                self._mark(node)
        if not self.hits:
            return None
        self._keep_custom_gradients(library)
        return self._load(library)

    def _mark(self, node: Any) -> None:
        self.stack.activation.seen[node.op] = None
        where = Where(node.op, node.name, in_source=False)
        chain = matching(_bounds(self.stack, node.op), where)
        if chain:
            self._name_gradient(node, ChainGradient(chain))
            self.hits += [(b.depth, b.entry.index, where.place, None) for b in chain]

    def _name_gradient(self, node: Any, gradient: Any) -> None:
        name = registry.new_name("rewritten")
        self.gradients[name] = gradient
        node.attr[_NAME].s = name.encode()

    def _keep_custom_gradients(self, library: Any) -> None:
        """Custom gradients hold tensors of the original graph; in the copy they get those of the copy."""
        for definition in library.function:
            for node in definition.node_def:
                name = node.attr[_NAME].s.decode() if _NAME in node.attr else ""
                if name and name not in self.gradients:
                    self._name_gradient(node, _Remapped(name, self.function))

    def _load(self, library: Any) -> Any:
        name = self.function.function_def.signature.name
        with suspended():
            loaded = overriding.load_library(library)
        for each in loaded.values():
            for gradient_name, gradient in self.gradients.items():
                registry.register(gradient_name, gradient, each.graph)
        copy = overriding.concrete_from(loaded[name].graph, self.function)
        copy._pullback_loaded = loaded  # the functions that it calls live as long as it does
        mine = graphs.state_of(copy.graph)
        mine.hits = self.hits
        mine.fresh = False
        return copy


_NAME = "_gradient_op_type"


def _bounds(stack: Stack, op_type: str) -> list[Any]:
    """The lines that may mean an op of a graph without source: of its type, of anything, of functions it stands for."""
    own = (*stack.by_handle.get(op_type, ()), *stack.anywhere)
    calls = [b for h, bounds in stack.by_handle.items() if not isinstance(h, str) for b in bounds]
    return [*own, *calls]


def _explain_unreached(stack: Stack, function: Any) -> None:
    for handle, bounds in stack.by_handle.items():
        for bound in bounds:
            if not isinstance(handle, str) and not bound.line.op_types:
                bound.activation.unreachable = (
                    f"{function.graph.name!r} runs here as a graph without Python source (loaded or concrete), "
                    "in which only ops are left, no functions or layers. Target op types, such as 'Relu', or "
                    "`pb.inside(re.compile(name), 'Relu')`."
                )


class _Remapped:
    """A custom gradient of the original graph, run for an op of a copy."""

    def __init__(self, name: str, function: Any) -> None:
        self._name = name
        self._function = function  # keeps the original graph, and with it the gradient, alive

    def __call__(self, operation: Any, *upstream: Any) -> Any:
        original = private.registered_gradient(self._name)
        with overriding.capturing_from_copy(self._function.graph, operation.graph):
            return original(operation, *upstream)
