"""Functions without Python source: loaded, concrete, pruned. Their graphs are copied with the
targeted ops marked.

The copy is loaded from the function's definition, runs with the captured inputs of the original,
and keeps the custom gradients that the original has. The original is left as it is.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from pullback._audit import Place
from pullback.engines.tensorflow.override import graphs
from pullback.engines.tensorflow.override.scope import Bound, Stack, suspended
from pullback.engines.tensorflow.override.targets import CallLine, is_scope_inside
from pullback.engines.tensorflow.tf_private import overriding as private

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
        self.rules: list[graphs.GraphRule] = []
        self.hits: list[tuple[int, int, Place, str | None]] = []

    def made(self) -> Any:
        """The copy as a concrete function; `None` where no op is targeted."""
        library = private.new_library()
        for definition in private.reachable_definitions(self.function):
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
        where = _NodeWhere(node)
        chain = tuple(_matching(self.stack, where))
        if not chain:
            return
        rule = graphs.new_rule(chain)
        self.rules.append(rule)
        node.attr["_gradient_op_type"].s = rule.name.encode()
        self.hits += [(b.depth, b.entry.index, where.place, None) for b in chain]

    def _keep_custom_gradients(self, library: Any) -> None:
        """Custom gradients hold tensors of the original graph; in the copy they get those of the copy."""
        for definition in library.function:
            for node in definition.node_def:
                name = (
                    node.attr["_gradient_op_type"].s.decode()
                    if "_gradient_op_type" in node.attr
                    else ""
                )
                if name and not any(rule.name == name for rule in self.rules):
                    rule = graphs.own_rule(_Remapped(name, self.function))
                    self.rules.append(rule)
                    node.attr["_gradient_op_type"].s = rule.name.encode()

    def _load(self, library: Any) -> Any:
        name = self.function.function_def.signature.name
        with suspended():
            loaded = private.load_library(library)
        for each in loaded.values():
            for rule in self.rules:
                rule.owned_by(each.graph)
        copy = private.concrete_from(loaded[name].graph, self.function)
        copy._pullback_loaded = loaded  # the functions that it calls live as long as it does
        mine = graphs.kept(copy.graph)
        mine.hits = self.hits
        mine.fresh = False
        return copy


class _NodeWhere:
    """The place of a node of a graph without source."""

    def __init__(self, node: Any) -> None:
        self.type = node.op
        self.name = node.name
        self.place = Place(node.name, node.op)


def _matching(stack: Stack, where: _NodeWhere) -> Iterator[Bound]:
    """The narrowest match of each open override, innermost first."""
    chosen: dict[int, Bound] = {}
    functions = [b for bounds in stack.by_function.values() for b in bounds]
    for bound in (*stack.by_type.get(where.type, ()), *stack.anywhere, *functions):
        if bound.depth not in chosen and _accepts(bound.line, where):
            chosen[bound.depth] = bound
    for depth in sorted(chosen, reverse=True):
        yield chosen[depth]


def _accepts(line: Any, where: _NodeWhere) -> bool:
    if isinstance(line, CallLine):
        fits = where.type in line.op_types
        return fits and all(is_scope_inside(part, where.name) for part in line.parts)
    return line.accepts(where)


def _explain_unreached(stack: Stack, function: Any) -> None:
    for bounds in stack.by_function.values():
        for bound in bounds:
            if not bound.line.op_types:
                bound.activation.notes["unreachable"] = (
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
        original = private.gradient_of_type(self._name)
        with private.capturing_from_copy(self._function.graph, operation.graph):
            return original(operation, *upstream)
