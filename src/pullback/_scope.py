"""Which overrides are open here, and which of their lines match what runs.

The stack of open overrides belongs to the context (`contextvars`), so tasks of one event loop and threads do not see
each other's. The innermost override wins, and what its rule calls `original` is the next one's rule. Rules, and the
backward pass of the framework, run with the stack suspended.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pullback._audit import ELSEWHERE, Place
from pullback._rule import Rule
from pullback._targets import Entry

if TYPE_CHECKING:
    from pullback._overriding import Activation


class Line(Protocol):
    """A target in an engine's form."""

    @property
    def is_plain(self) -> bool:
        """Whether everything under its handle is meant, wherever it runs."""
        ...

    @property
    def is_one_op(self) -> bool:
        """Whether it is a function that runs one op and nothing else, so that the op can stand for it."""
        ...

    def accepts(self, where: Any) -> bool:
        """Whether what runs there is meant."""
        ...


Lines: TypeAlias = "list[tuple[Entry, Line]]"


class Resolved:
    """The lines of an override by handle (an op type, a function), or to be tried on everything."""

    def __init__(self) -> None:
        self.by_handle: dict[Any, Lines] = {}
        self.anywhere: Lines = []
        self.one_op_types: frozenset[str] = frozenset()  # of functions that are one op
        self.tracks = False  # whether it matters which parts of the program are running
        self.patches: list[tuple[Any, Any]] = []  # functions to intercept while it is open, and how

    def add(self, handle: Any, entry: Entry, line: Line) -> None:
        """Add a line under a handle."""
        self.by_handle.setdefault(handle, []).append((entry, line))

    def patch(self, function: Any, dispatch: Any) -> None:
        """Note that calls of a function have to be intercepted."""
        if not any(known is function for known, _ in self.patches):
            self.patches.append((function, dispatch))


class Bound:
    """A line of an open override, ready to be matched."""

    __slots__ = ("activation", "depth", "entry", "line", "mark", "rule")

    def __init__(self, activation: Activation, entry: Entry, line: Line, depth: int) -> None:
        self.activation = activation
        self.entry = entry
        self.line = line
        self.depth = depth
        self.mark = (depth, entry.index)  # identifies the line among all open ones
        self.rule = ScopedRule(activation, entry)


Chain: TypeAlias = "tuple[Bound, ...]"


class ScopedRule(Rule):
    """The rule of an open override: it runs with nothing overridden, and each run is counted."""

    __slots__ = ("_index", "_ledger")

    def __init__(self, activation: Activation, entry: Entry) -> None:
        rule = entry.rule
        self.function, self.requested = rule.function, rule.requested
        self.required, self.kept, self._accepted = rule.required, rule.kept, -1
        self._index, self._ledger = entry.index, activation.ledger

    def __call__(self, upstream: Any, offers: Mapping[str, Any]) -> Any:
        """Run the rule."""
        self._ledger.ran(self._index)
        token = suspend()
        try:
            return super().__call__(upstream, offers)
        finally:
            resume(token)


class Stack:
    """The open overrides of a context, innermost first, indexed for matching."""

    __slots__ = (
        "activation", "anywhere", "before", "by_handle", "depth", "key", "one_op", "one_op_types", "parent",
        "plain", "tracks", "traits",
    )  # fmt: skip

    def __init__(self, previous: Stack | None, activation: Any) -> None:
        parent = None if previous is SUSPENDED else previous
        self.parent = parent
        self.before: tuple[Stack | None, Any] = (previous, None)
        self.activation = activation
        self.depth = parent.depth + 1 if parent else 0
        self.by_handle: dict[Any, Chain] = dict(parent.by_handle) if parent else {}
        self.anywhere: Chain = parent.anywhere if parent else ()
        self.key: tuple[Any, ...] = parent.key if parent else ()
        self.traits: tuple[Any, ...] = (
            parent.traits if parent else ()
        )  # the engine's own part of the key
        # Handles whose every use matches, whatever runs around it: the chain is known beforehand.
        self.plain: dict[Any, Chain] = {}
        self.one_op: dict[Any, Chain] = {}  # of these, functions that are one op
        self.one_op_types: frozenset[str] = parent.one_op_types if parent else frozenset()
        self.tracks: bool = parent.tracks if parent else False
        if activation is not None:
            self._add(activation.override.resolved, activation.override.key)

    def _add(self, resolved: Resolved, key: tuple[Any, ...]) -> None:
        self.key = (*self.key, key)
        for handle, lines in resolved.by_handle.items():
            self.by_handle[handle] = self._bind(lines) + self.by_handle.get(handle, ())
        self.anywhere = self._bind(resolved.anywhere) + self.anywhere
        self.one_op_types |= resolved.one_op_types
        self.tracks |= resolved.tracks
        plain = {handle: chain for handle, chain in self.by_handle.items() if _is_plain(chain)}
        self.plain = {} if self.anywhere else plain
        self.one_op = {} if self.tracks else {h: c for h, c in plain.items() if c[0].line.is_one_op}

    def _bind(self, lines: Lines) -> Chain:
        return tuple(Bound(self.activation, entry, line, self.depth) for entry, line in lines)

    def activations(self) -> Iterator[Any]:
        """From the innermost outwards."""
        stack: Stack | None = self
        while stack is not None:
            yield stack.activation
            stack = stack.parent

    def at(self, depth: int) -> Any:
        """The activation at a depth."""
        return next(a for i, a in enumerate(self.activations()) if self.depth - i == depth)

    def copied(self) -> Stack:
        """Another stack of the same, to be put in force elsewhere."""
        copy = Stack.__new__(Stack)
        for name in Stack.__slots__:
            setattr(copy, name, getattr(self, name))
        return copy


def _is_plain(chain: Chain) -> bool:
    depths = {bound.depth for bound in chain}
    return bool(chain) and len(depths) == len(chain) and all(b.line.is_plain for b in chain)


SUSPENDED: Stack = None  # type: ignore[assignment]  # a stack asks for it while it is made, this one too
SUSPENDED = Stack(None, None)  # of a context in which nothing is to be overridden
stack_here: contextvars.ContextVar[Stack | None] = contextvars.ContextVar("pullback", default=None)
# Lines whose own region is running: what runs inside is part of the region.
guarded: contextvars.ContextVar[frozenset[tuple[int, int]]] = contextvars.ContextVar(
    "pullback_guarded", default=frozenset()
)
# Why nothing that is overridden here can have an effect, if that is so.
hidden: contextvars.ContextVar[str | None] = contextvars.ContextVar("pullback_hidden", default=None)
# What runs here runs once more when it is differentiated, under the same overrides.
postponed: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "pullback_postponed", default=False
)
# The layers and functions that are running here, outermost first; kept where a line asks for it.
running: contextvars.ContextVar[tuple[Any, ...]] = contextvars.ContextVar(
    "pullback_running", default=()
)
# A function that is running and is nothing but the next op of its type.
one_op_call: contextvars.ContextVar[OneOpCall | None] = contextvars.ContextVar(
    "pullback_one_op_call", default=None
)


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
        return tuple(sorted((*own, *chain), key=_outermost_last)) if chain else own


def _outermost_last(bound: Bound) -> int:
    return -bound.depth


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


def suspend() -> contextvars.Token[Stack | None]:
    """Override nothing from here on; give the result to `resume`. Faster than a block."""
    return stack_here.set(SUSPENDED)


def resume(token: contextvars.Token[Stack | None]) -> None:
    """Undo `suspend`."""
    stack_here.reset(token)


@contextlib.contextmanager
def suspended() -> Iterator[None]:
    """Nothing is overridden in this block."""
    token = suspend()
    try:
        yield
    finally:
        resume(token)


@contextlib.contextmanager
def set_for(variable: contextvars.ContextVar[Any], value: Any) -> Iterator[None]:
    """A context variable has this value in the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


class Guarded:
    """The body of a region: lines that it belongs to do not match again inside."""

    __slots__ = ("_body", "_mark")

    def __init__(self, bound: Bound, body: Callable[..., Any]) -> None:
        self._mark = bound.mark
        self._body = body

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the body."""
        token = guarded.set(guarded.get() | {self._mark})
        try:
            return self._body(*args, **kwargs)
        finally:
            guarded.reset(token)


Note: TypeAlias = "tuple[Chain, Any, str, bool]"
_gathered: contextvars.ContextVar[list[Note] | None] = contextvars.ContextVar(
    "pullback_gathered", default=None
)


def note(
    chain: Chain, where: Any, mode: str, *, recorded: bool = True, hidden_by: str | None = None
) -> list[tuple[int, int, Place, str | None]]:
    """Write a match into the audit of every override that it concerns; what a trace must remember of it."""
    pending = _gathered.get()
    if pending is not None and hidden_by is None:
        pending.append((chain, where, mode, recorded))
        return []
    hits: list[tuple[int, int, Place, str | None]] = []
    for bound in chain:
        ledger, index = bound.activation.ledger, bound.entry.index
        place = ELSEWHERE
        if ledger.wants_place(index):
            place = where.place
            ledger.record(index, place, mode, recorded=recorded, hidden_by=hidden_by)
        else:
            ledger.tally(index, mode, recorded, hidden_by)
        hits.append((bound.depth, index, place, hidden_by))
    return hits


@contextlib.contextmanager
def gathering() -> Iterator[list[Note]]:
    """Hold back the matches of this block, until it is known whether they can have an effect."""
    gathered: list[Note] = []
    with set_for(_gathered, gathered):
        yield gathered
