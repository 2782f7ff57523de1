"""What a traced graph keeps of the overrides it was traced under: the names of its rules, and what matched in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach import registry
from pullback.engines.tensorflow.override.op_calls import ChainGradient
from pullback.engines.tensorflow.tf_private import overriding
from pullback.extend import Chain, Place, Stack, suspended
from pullback.extend import note as note_in_audit


class GraphState:
    """What is kept on a graph."""

    __slots__ = ("alive", "fresh", "hits", "key", "names")

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.hits: list[tuple[int, int, Place, str | None]] = []
        self.key: Any = None
        self.fresh = True
        self.alive: list[Any] = []  # functions that nothing else holds


def state_of(graph: Any) -> GraphState:
    """What is kept on this graph."""
    found = getattr(graph, "_pullback_state", None)
    if found is None:
        found = graph._pullback_state = GraphState()
    return found


def gradient_name(graph: Any, chain: Chain) -> str:
    """The name under which TensorFlow finds these rules for ops of this graph."""
    names = state_of(graph).names
    key = tuple((id(bound.activation), bound.entry.index) for bound in chain)
    if key not in names:
        names[key] = registry.new_name("override")
        gradient = ChainGradient(chain)
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


def _remember(hits: Sequence[tuple[int, int, Place, str | None]]) -> None:
    for each in enclosing(overriding.ops.get_default_graph()):
        state_of(each).hits.extend(hits)


def used_again(stack: Stack, graph: Any, mode: str = "cached") -> None:
    """Count what matched in a graph whose trace is used once more."""
    hits = list(state_of(graph).hits)
    for depth, index, place, hidden_by in hits:
        stack.at(depth).ledger.record(index, place, mode, hidden_by=hidden_by)
    if hits and not overriding.context().executing_eagerly():
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
