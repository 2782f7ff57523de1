"""Which overrides are open here, and which of their lines match what runs.

The stack of open overrides belongs to the context (`contextvars`), so tasks of one event loop and threads do not see
each other's. The innermost override wins, and what its rule calls `original` is the next one's rule. Rules, and the
backward pass of the framework, run with the stack suspended.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from pullback._audit import Place
from pullback._patch import Shared
from pullback._rule import Rule
from pullback._targets import Entry
from pullback.errors import PullbackError

if TYPE_CHECKING:
    from pullback._overriding import Activation, Override


@dataclass(frozen=True)
class Line:
    """A target in the form in which it is matched."""

    conditions: tuple[Callable[[Any], bool], ...] = ()  # all must hold where something runs
    op_types: tuple[str, ...] = ()  # of a function: what stands for it where only ops are left
    is_one_op: bool = False  # of a function: calling it is running that op, no more and no less
    is_method: bool = False  # the rule does not see the object that the function is called on
    # Of a function that the target is another name for: its parameters as the target calls them.
    names: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def is_plain(self) -> bool:
        """Whether everything under its handle is meant, wherever it runs."""
        return not self.conditions

    def accepts(self, where: Any) -> bool:
        """Whether what runs there is meant."""
        return all(holds(where) for holds in self.conditions)


Lines: TypeAlias = "list[tuple[Entry, Line]]"


class Resolved:
    """The lines of an override by handle (an op type, a function), or to be tried on everything."""

    def __init__(self) -> None:
        self.by_handle: dict[Any, Lines] = {}
        self.anywhere: Lines = []
        self.one_op_types: frozenset[str] = frozenset()  # of functions that are one op
        self.tracks = False  # whether it matters which parts of the program are running
        # Functions to intercept while it is open, and what makes the patch of each.
        self.patches: dict[Any, Callable[[], Shared]] = {}

    def add(self, handle: Any, entry: Entry, line: Line) -> None:
        """Add a line under a handle."""
        self.by_handle.setdefault(handle, []).append((entry, line))


class Bound:
    """A line of an open override, ready to be matched."""

    __slots__ = ("activation", "depth", "entry", "line", "mark", "met", "rule")

    def __init__(self, activation: Activation, entry: Entry, line: Line, depth: int) -> None:
        self.activation = activation
        self.entry = entry
        self.line = line
        self.depth = depth
        self.mark = (depth, entry.index)  # identifies the line among all open ones
        self.rule = ScopedRule(activation, entry)
        self.met: set[int] = set()  # the layers whose weights are known to the audit


Chain: TypeAlias = "tuple[Bound, ...]"


class ScopedRule(Rule):
    """The rule of an open override: it runs with nothing overridden, and each run is counted."""

    __slots__ = ("_index", "_is_traced", "_ledger")

    def __init__(self, activation: Activation, entry: Entry) -> None:
        rule = entry.rule
        self.function, self.requested = rule.function, rule.requested
        self.required, self.kept, self._accepted = rule.required, rule.kept, -1
        self.returned_by_body, self.unscaled = False, rule.unscaled
        self._index, self._ledger = entry.index, activation.ledger
        self._is_traced = activation.override.engine.is_tracing

    def __call__(self, upstream: Any, offers: Mapping[str, Any]) -> Any:
        """Run the rule."""
        if not rehearsing.get():
            self._ledger.ran(self._index, traced=self._is_traced())
        token = stack_here.set(SUSPENDED)  # faster than a block
        try:
            return super().__call__(upstream, offers)
        finally:
            stack_here.reset(token)


@dataclass(slots=True, eq=False)
class Stack:
    """The open overrides of a context, innermost first, indexed for matching; without any, nothing is overridden."""

    activation: Any = None  # the innermost
    activations: tuple[Activation, ...] = ()
    undo: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    by_handle: dict[Any, Chain] = field(default_factory=dict[Any, Chain])
    anywhere: Chain = ()
    key: tuple[Any, ...] = ()
    traits: tuple[Any, ...] = ()  # the engine's own part of the key
    # Handles whose every use matches, whatever runs around it: the chain is known beforehand.
    plain: dict[Any, Chain] = field(default_factory=dict[Any, Chain])
    one_op: dict[Any, Chain] = field(default_factory=dict[Any, Chain])  # functions
    one_op_types: frozenset[str] = frozenset()
    tracks: bool = False

    def opened(self, activation: Activation) -> Stack:
        """This stack with one more override on it."""
        stack, resolved = copy.copy(self), activation.override.resolved
        stack.activation, stack.activations = activation, (activation, *self.activations)
        stack.key = (*self.key, activation.override.key)
        by_handle = stack.by_handle = dict(self.by_handle)
        for handle, lines in resolved.by_handle.items():
            by_handle[handle] = stack._bind(lines) + by_handle.get(handle, ())
        stack.anywhere = stack._bind(resolved.anywhere) + self.anywhere
        stack.one_op_types = self.one_op_types | resolved.one_op_types
        stack.tracks = self.tracks or resolved.tracks
        plain = {handle: chain for handle, chain in by_handle.items() if _is_plain(chain)}
        one_op = {handle: chain for handle, chain in plain.items() if chain[0].line.is_one_op}
        stack.plain = {} if stack.anywhere else plain
        stack.one_op = {} if stack.tracks else one_op
        return stack

    def _bind(self, lines: Lines) -> Chain:
        depth = len(self.activations) - 1
        return tuple(Bound(self.activation, entry, line, depth) for entry, line in lines)

    def activation_of(self, bound: Bound) -> Activation:
        """The activation at the depth of a line; of one that was opened further inside, its own."""
        inside = bound.depth >= len(self.activations)
        return bound.activation if inside else self.activations[-1 - bound.depth]


def _is_plain(chain: Chain) -> bool:
    depths = {bound.depth for bound in chain}
    return bool(chain) and len(depths) == len(chain) and all(b.line.is_plain for b in chain)


SUSPENDED = Stack()  # of a context in which nothing is to be overridden
stack_here: ContextVar[Stack | None] = ContextVar("pullback_stack", default=None)
# Lines whose own region is running: what runs inside is part of the region.
guarded: ContextVar[frozenset[tuple[int, int]]] = ContextVar("guarded", default=frozenset())
# Why nothing that is overridden here can have an effect, if that is so.
hidden: ContextVar[str | None] = ContextVar("hidden", default=None)
# Rules are run here only to see what they read.
rehearsing: ContextVar[bool] = ContextVar("rehearsing", default=False)
# What runs here runs once more when it is differentiated, under the same overrides.
postponed: ContextVar[bool] = ContextVar("postponed", default=False)
# The layers and functions that are running here, outermost first; kept where a line asks for it.
running: ContextVar[tuple[Any, ...]] = ContextVar("running", default=())
# Gathers the chains that match in some call, for who must know whether anything in it is overridden.
matched_here: ContextVar[list[Chain] | None] = ContextVar("matched_here", default=None)
# A function that is running and is nothing but the next op of its type.
one_op_call: ContextVar[OneOpCall | None] = ContextVar("one_op_call", default=None)


class OneOpCall:
    """A function that is one op: its lines are put on that op, which is far cheaper than a region."""

    __slots__ = ("chain", "op_types")

    def __init__(self, chain: Chain, op_types: tuple[str, ...]) -> None:
        self.chain: Chain | None = chain
        self.op_types = op_types

    def join(self, op_type: str, chain: Chain) -> Chain:
        """The lines of the function and those of the op, innermost override first, the function's before the op's."""
        if self.chain is None or op_type not in self.op_types:
            return chain
        own, self.chain = self.chain, None
        return tuple(sorted((*own, *chain), key=lambda bound: -bound.depth)) if chain else own


def matching(bounds: Sequence[Bound], where: Any) -> Chain:
    """The narrowest match of each open override, innermost first."""
    guard = guarded.get()
    chosen: dict[int, Bound] = {}
    for bound in bounds:
        if bound.depth not in chosen and bound.mark not in guard and bound.line.accepts(where):
            chosen[bound.depth] = bound
    if len(chosen) < 2:
        return tuple(chosen.values())
    return tuple(chosen[depth] for depth in sorted(chosen, reverse=True))


@contextlib.contextmanager
def set_for(variable: ContextVar[Any], value: Any) -> Generator[None]:
    """A context variable has this value in the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def suspended() -> contextlib.AbstractContextManager[None]:
    """Nothing is overridden in this block."""
    return set_for(stack_here, SUSPENDED)


def guarding(bound: Bound, body: Callable[..., Any]) -> Callable[..., Any]:
    """The body of a region: the line that it belongs to does not match again inside."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with set_for(guarded, guarded.get() | {bound.mark}):
            return body(*args, **kwargs)

    return run


def enter(activation: Activation) -> None:
    """Open an override in this context."""
    _push((activation.override.engine.current() or SUSPENDED).opened(activation), [activation])


def leave(override: Override) -> Activation:
    """Close the innermost override, which must be this one."""
    stack = stack_here.get()
    if stack is None or stack.activation is None or stack.activation.override is not override:
        raise PullbackError(
            f"{override!r} is closed here, but it is not the innermost override that is open here. Close overrides in "
            "the reverse order, in the thread and task that opened them."
        )
    stack.undo.close()
    return stack.activation


@contextlib.contextmanager
def reactivate(stack: Stack) -> Generator[None]:
    """What was in force when `stack` was read is in force in this block, also in another thread or later."""
    if stack.activation.override.engine.current() is stack:
        yield
        return
    again = copy.copy(stack)
    _push(again, stack.activations)
    try:
        yield
    finally:
        again.undo.close()


def _push(stack: Stack, activations: Iterable[Activation]) -> None:
    """Put a stack in force here, and patch the functions that these activations intercept."""
    with contextlib.ExitStack() as undo:
        stack.activation.override.engine.intercept(stack, undo)
        for activation in activations:
            for patch in activation.override.resolved.patches.values():
                undo.enter_context(patch())
        undo.callback(stack_here.set, stack_here.get())
        stack_here.set(stack)
        stack.undo = undo.pop_all()


Note: TypeAlias = "tuple[Chain, Any, str, bool]"
Hit: TypeAlias = (
    "tuple[Bound, Place | None, str | None]"  # a line, and what a trace remembers of its match
)
_gathered: ContextVar[list[Note] | None] = ContextVar("gathered", default=None)


def note(
    chain: Chain, where: Any, mode: str, *, recorded: bool = True, hidden_by: str | None = None
) -> list[Hit]:
    """Write a match into the audit of every override that it concerns; what a trace must remember of it."""
    matched = matched_here.get()
    if matched is not None and hidden_by is None:
        matched.append(chain)
    pending = _gathered.get()
    if pending is not None and hidden_by is None:
        pending.append((chain, where, mode, recorded))
        return []
    hits: list[Hit] = []
    for bound in chain:
        ledger, index = bound.activation.ledger, bound.entry.index
        place = where.place if ledger.wants_place(index) else None
        ledger.record(index, place, mode, recorded=recorded, hidden_by=hidden_by)
        hits.append((bound, place, hidden_by))
    return hits


@contextlib.contextmanager
def gathering() -> Generator[list[Note]]:
    """Hold back the matches of this block, until it is known whether they can have an effect."""
    gathered: list[Note] = []
    with set_for(_gathered, gathered):
        yield gathered
