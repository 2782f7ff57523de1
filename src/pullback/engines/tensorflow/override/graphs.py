"""What a traced graph keeps of the overrides it was traced under: the names of its rules, and what
matched in it.
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pullback._audit import ELSEWHERE, Place
from pullback.engines.tensorflow.override.op_rules import OpCall, chain_pullback
from pullback.engines.tensorflow.override.scope import Bound, Stack
from pullback.engines.tensorflow.tf_private import overriding as private

_numbers = itertools.count()
_lock = threading.Lock()


class GraphRule:
    """The gradient function of marked ops: in TensorFlow's registry for as long as one of its graphs lives."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self.function = function
        self.owners = 0

    def __call__(self, operation: Any, *upstream: Any) -> Any:
        """The gradients of an op's inputs, for tf.gradients and functions."""
        return self.function(operation, *upstream)

    def owned_by(self, graph: Any) -> None:
        """Live as long as this graph."""
        self.owners += 1
        weakref.finalize(graph, self._released)

    def _released(self) -> None:
        with _lock:
            self.owners -= 1
            if not self.owners:
                private.forget_gradient(self.name)


class _ChainRule:
    """The rules of nested overrides, for an op of a graph."""

    def __init__(self, chain: tuple[Bound, ...]) -> None:
        self._chain = chain

    def __call__(self, operation: Any, *upstream: Any) -> list[Any]:
        call = OpCall.of(operation)
        if any("op" in bound.entry.wishes for bound in self._chain):
            known = getattr(operation, "_pullback_place", None)
            call.place = known or Place(operation.name, operation.type)
        return chain_pullback(self._chain, call)(*upstream)


def gradient_name(graph: Any, chain: tuple[Bound, ...]) -> str:
    """The name under which TensorFlow finds these rules for ops of this graph."""
    names = kept(graph).names
    key = tuple((id(bound.activation), bound.entry.index) for bound in chain)
    if key not in names:
        rule = new_rule(chain)
        for each in enclosing(graph):
            rule.owned_by(each)
        names[key] = rule.name
    return names[key]


def new_rule(chain: tuple[Bound, ...]) -> GraphRule:
    """Rules in TensorFlow's registry, not owned by any graph yet."""
    return own_rule(_ChainRule(chain))


def own_rule(function: Callable[..., Any]) -> GraphRule:
    """A gradient function in TensorFlow's registry, not owned by any graph yet."""
    rule = GraphRule(f"pullback_override_{next(_numbers)}", function)
    private.ops.gradient_registry.register(rule, rule.name)
    return rule


class Kept:
    """What is kept on a graph."""

    __slots__ = ("alive", "fresh", "hits", "key", "names")

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.hits: list[tuple[int, int, Place, str | None]] = []
        self.key: Any = None
        self.fresh = True
        self.alive: list[Any] = []  # functions that nothing else holds


def kept(graph: Any) -> Kept:
    """What is kept on this graph."""
    found = getattr(graph, "_pullback_kept", None)
    if found is None:
        found = graph._pullback_kept = Kept()
    return found


def enclosing(graph: Any) -> list[Any]:
    """The graph and those around it: bodies of loops and branches are rebuilt from their function's graph."""
    return list(_outwards(graph))


def _outwards(graph: Any) -> Iterator[Any]:
    yield graph
    while isinstance(graph, private.FuncGraph):
        graph = graph.outer_graph
        # The default graph of eager code lives for ever, and nothing is built in it.
        if (
            isinstance(graph, private.FuncGraph)
            or not private.ops.executing_eagerly_outside_functions()
        ):
            yield graph


def note(
    stack: Stack,
    chain: Sequence[Bound],
    where: Any,
    mode: str,
    *,
    recorded: bool = True,
    hidden_by: str | None = None,
) -> None:
    """Write a match into the audit of every override that it concerns, and into the graphs around it."""
    pending = _gathered.get()
    if pending is not None and hidden_by is None:
        pending.append((stack, chain, where, mode, recorded))
        return
    graph = None if mode == "eager" else private.ops.get_default_graph()
    for bound in chain:
        ledger, index = bound.activation.ledger, bound.entry.index
        place = ELSEWHERE
        if ledger.wants_place(index):
            place = where.place
            ledger.record(index, place, mode, recorded=recorded, hidden_by=hidden_by)
        else:
            ledger.tally(index, mode, recorded, hidden_by)
        if graph is not None:
            remember(graph, (bound.depth, index, place, hidden_by))


_gathered: contextvars.ContextVar[Gathered | None] = contextvars.ContextVar(
    "pullback_gathered", default=None
)


class Gathered(list[Any]):
    """Matches that are held back until it is known whether they can have an effect."""

    def release(self, hidden_by: str | None) -> None:
        """Write them into the audit."""
        for stack, chain, where, mode, recorded in self:
            note(stack, chain, where, mode, recorded=recorded, hidden_by=hidden_by)


@contextlib.contextmanager
def gathering() -> Iterator[Gathered]:
    """Hold back the matches of this block."""
    gathered = Gathered()
    for_now = _gathered.set(gathered)
    try:
        yield gathered
    finally:
        _gathered.reset(for_now)


def remember(graph: Any, hit: tuple[int, int, Place, str | None]) -> None:
    """Keep a match on the graphs in which it lies, for when their trace is used again."""
    for each in _outwards(graph):
        kept(each).hits.append(hit)


def used_again(stack: Stack, graph: Any, mode: str = "cached") -> None:
    """Count what matched in a graph whose trace is used once more."""
    building = not private.context().executing_eagerly()
    for depth, index, place, hidden_by in kept(graph).hits:
        stack.at(depth).ledger.record(index, place, mode, hidden_by=hidden_by)
        if building:
            remember(private.ops.get_default_graph(), (depth, index, place, hidden_by))
