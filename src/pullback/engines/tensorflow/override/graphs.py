"""What a graph keeps of the overrides it was traced under, and copies of graphs that were traced without them.

A function without Python source (loaded, concrete, pruned) is copied with the targeted ops marked. The copy is loaded
from the function's definition, runs with the captured inputs of the original, and keeps its custom gradients. The
original is left as it is.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach import registry
from pullback.engines.tensorflow.attach.graph import exporting
from pullback.engines.tensorflow.override.op_calls import chain_gradient, why_node_hidden
from pullback.engines.tensorflow.override.places import Where
from pullback.engines.tensorflow.tf_private import overriding
from pullback.errors import ExportError
from pullback.extend import Bound, Chain, Hit, Stack, matching, suspended
from pullback.extend import note as note_in_audit

MOST_COPIES = 16
GIVEN_INSIDE = (
    "a gradient of its own was given to it inside the override, by a gradient_override_map, a custom gradient or "
    "another override, and the innermost decides. Open this override inside of that"
)
NOT_IN_FILES = (
    "Its ops can have another gradient while this process runs, but not in a file. Apply the override to the model or "
    "function that it was made from, and export that."
)
_GRADIENT = "_gradient_op_type"  # the attribute of a node that names its gradient
_copies: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()


class GraphState:
    """What is kept on a graph."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.hits: list[Hit] = []
        self.key: Any = None
        # Op types under a gradient_override_map, and how many overrides were open when it was opened.
        self.mapped: dict[str, int] = {}
        self.fresh: Any = None  # the activation under which it was traced, until it first runs
        self.later: list[Any] = []  # functions that take the overrides along to when they run
        self.alive: list[Any] = []  # functions that nothing else holds


def state_of(graph: Any) -> GraphState:
    """What is kept on this graph."""
    found = getattr(graph, "_pullback_state", None)
    if found is None:
        found = graph._pullback_state = GraphState()
    return found


def gradient_name(graph: Any, chain: Chain, own: Any = None) -> str:
    """The name under which TensorFlow finds these rules for ops of this graph; `own` is a gradient that they had."""
    names = state_of(graph).names
    key = (own, *((id(bound.activation), bound.entry.index) for bound in chain))
    if key not in names:
        names[key] = registry.new_name("override")
        gradient = functools.partial(chain_gradient, chain, own)
        for each in enclosing(graph):
            registry.register(names[key], gradient, each)
    return names[key]


def enclosing(graph: Any) -> list[Any]:
    """The graph and those around it: bodies of loops and branches are rebuilt from their function's graph."""
    found = [graph]
    while isinstance(graph, private.FuncGraph):
        graph = graph.outer_graph
        # The default graph of eager code lives for ever, and nothing is built in it.
        lasting = not isinstance(graph, private.FuncGraph)
        if not (lasting and overriding.ops.executing_eagerly_outside_functions()):
            found.append(graph)
    return found


def note(
    chain: Chain, where: Any, mode: str, *, recorded: bool = True, hidden_by: str | None = None
) -> None:
    """Write a match into the audit, and into the graphs around it for when their trace is used again."""
    hits = note_in_audit(chain, where, mode, recorded=recorded, hidden_by=hidden_by)
    if mode != "eager" and hits:
        _remember(hits)


def _remember(hits: Sequence[Hit]) -> None:
    for each in enclosing(overriding.ops.get_default_graph()):
        state_of(each).hits.extend(hits)


def used_again(stack: Stack, graph: Any, mode: str = "cached") -> None:
    """Count what matched in a graph whose trace is used once more."""
    hits = list(state_of(graph).hits)
    for bound, place, hidden_by in hits:
        ledger = stack.activation_of(bound).ledger
        ledger.record(bound.entry.index, place, mode, hidden_by=hidden_by)
        ledger.borrow(bound.entry.index, bound.activation.ledger)
    for function in state_of(graph).later:
        function.used_under(stack)
    if hits and not private.executing_eagerly():
        _remember(hits)


def in_function(function: Callable[..., Any], tensors: Sequence[Any]) -> Any:
    """Run a function as a function of its own in the graph, which lives as long as the graphs around it."""
    graph = overriding.ops.get_default_graph()
    made = tf.function(function, autograph=False)
    with suspended():
        result = made(*tensors)
    for each in enclosing(graph):
        state_of(each).alive.append(made)
    return result


def rewritten(stack: Stack, function: Any) -> Any:
    """A function without Python source under the open overrides, or itself where none concerns it."""
    copies = _copies.setdefault(function, {})
    if stack.key not in copies:
        if len(copies) >= MOST_COPIES:
            copies.pop(next(iter(copies)))
        copies[stack.key] = _copy(stack, function)
    copy = copies[stack.key]
    if copy is not None and exporting.get():
        raise ExportError(
            f"{function.graph.name!r} has no Python source here, as a loaded SavedModel, a TFSMLayer and a concrete "
            f"function have not. {NOT_IN_FILES}"
        )
    if copy is None:
        _explain_unreached(stack, function)
        return function
    used_again(stack, copy.graph, "rewritten")
    return copy


def _copy(stack: Stack, function: Any) -> Any:
    """The copy as a concrete function; `None` where no op is targeted."""
    library = overriding.new_library()
    library.function.extend(overriding.reachable_definitions(function))
    gradients: dict[str, Any] = {}
    hits: list[Hit] = []
    graphs = overriding.graphs_by_name(function)
    for home, node in [(d.signature.name, node) for d in library.function for node in d.node_def]:
        stack.activation.seen[node.op] = None
        where = Where(node.op, node.name, in_source=False)
        chain = matching(_bounds(stack, node.op), where)
        own = _own_gradient(node, function, graphs.get(home, function.graph))
        reason = why_node_hidden(node) or (own and GIVEN_INSIDE) if chain else None
        hits += [(bound, where.place, reason) for bound in chain]
        if own or (chain and not reason):
            name = registry.new_name("rewritten")
            node.attr[_GRADIENT].s = name.encode()
            gradients[name] = own or functools.partial(chain_gradient, chain, None)
    return _load(library, function, gradients, hits) if hits else None


def _load(library: Any, function: Any, gradients: dict[str, Any], hits: Sequence[Hit]) -> Any:
    overriding.describe_resources(library, function)
    with suspended():
        loaded = overriding.load_library(library)
    for each in loaded.values():
        for name, gradient in gradients.items():
            registry.register(name, gradient, each.graph)
    copy = overriding.concrete_from(loaded[function.function_def.signature.name].graph, function)
    copy._pullback_loaded = loaded  # the functions that it calls live as long as it does
    mine = state_of(copy.graph)
    mine.hits.extend(hits)
    return copy


def _own_gradient(node: Any, function: Any, graph: Any) -> Any:
    """The gradient that a node was given in place of that of its type, if it was and is known here."""
    name = node.attr[_GRADIENT].s.decode() if _GRADIENT in node.attr else ""
    known = name and private.registered_gradient(name) is not None
    return functools.partial(_custom_gradient, name, function, graph) if known else None


def _custom_gradient(name: str, function: Any, graph: Any, operation: Any, *upstream: Any) -> Any:
    """Run a custom gradient of the original graph for an op of the copy, with the tensors of the copy.

    Holding the function keeps its graphs, and with them the gradient, alive.
    """
    del function
    with overriding.capturing_from_copy(graph, operation.graph):
        return private.registered_gradient(name)(operation, *upstream)


def _bounds(stack: Stack, op_type: str) -> list[Bound]:
    """The lines that may mean an op of a graph without source: of its type, of anything, of functions it stands for."""
    calls = [b for bounds in stack.by_handle.values() for b in bounds if op_type in b.line.op_types]
    return [*stack.by_handle.get(op_type, ()), *stack.anywhere, *calls]


def _explain_unreached(stack: Stack, function: Any) -> None:
    for handle, bounds in stack.by_handle.items():
        for bound in bounds:
            if not isinstance(handle, str) and not bound.line.op_types:
                bound.activation.unreachable = (
                    f"{function.graph.name!r} runs here as a graph without Python source (loaded or concrete), "
                    "in which only ops are left, no functions or layers. Target op types, such as 'Relu', or "
                    "`pb.inside(re.compile(name), 'Relu')`."
                )
