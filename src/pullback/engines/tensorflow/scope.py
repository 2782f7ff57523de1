"""Which overrides are open here, and the hooks that are in TensorFlow while any is open anywhere.

The stack of open overrides belongs to the context (`contextvars`), so tasks of one event loop and threads do not see each
other's. Replica threads of a distribution strategy inherit it with the thread's op callbacks. Rules, and TensorFlow's own
backward pass, run with the stack suspended.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator
from typing import Any

from pullback._targets import Entry
from pullback.engines.tensorflow import tf_private_override as private
from pullback.errors import PullbackError


class Bound:
    """A line of an open override, ready to be matched."""

    __slots__ = ("activation", "entry", "line")

    def __init__(self, activation: Any, entry: Entry, line: Any) -> None:
        self.activation = activation
        self.entry = entry
        self.line = line

    def record(self, place: Any, mode: str, **how: Any) -> None:
        """Note in the audit that the target was met."""
        self.activation.ledger.record(self.entry.index, place, mode, **how)


class Stack:
    """The open overrides of a context, innermost first, indexed for matching."""

    __slots__ = ("activation", "anywhere", "by_function", "by_type", "carrier", "key", "parent")

    def __init__(self, parent: Stack | None, activation: Any, carrier: bool = False) -> None:
        self.parent = parent
        self.activation = activation
        self.carrier = carrier
        self.by_type: dict[str, tuple[Bound, ...]] = dict(parent.by_type) if parent else {}
        self.by_function: dict[int, tuple[Bound, ...]] = dict(parent.by_function) if parent else {}
        self.anywhere: tuple[Bound, ...] = parent.anywhere if parent else ()
        self.key: tuple[Any, ...] = parent.key if parent else ()
        if activation is not None:
            self._add(activation)

    def _add(self, activation: Any) -> None:
        resolved = activation.override.resolved
        self.key = (*self.key, activation.override.key)
        for op_type, lines in resolved.by_type.items():
            ours = tuple(Bound(activation, entry, line) for entry, line in lines)
            self.by_type[op_type] = ours + self.by_type.get(op_type, ())
        for function, lines in resolved.by_function.items():
            ours = tuple(Bound(activation, entry, line) for entry, line in lines)
            self.by_function[function] = ours + self.by_function.get(function, ())
        ours = tuple(Bound(activation, entry, line) for entry, line in resolved.anywhere)
        self.anywhere = ours + self.anywhere

    def activations(self) -> Iterator[Any]:
        """From the innermost outwards."""
        stack: Stack | None = self
        while stack is not None and stack.activation is not None:
            yield stack.activation
            stack = stack.parent


SUSPENDED = Stack(None, None)
_stack: contextvars.ContextVar[Stack | None] = contextvars.ContextVar("pullback", default=None)
_here = threading.local()
_lock = threading.RLock()
_open_anywhere = 0
_hooks: list[tuple[Callable[[], None], Callable[[], None]]] = []
_checked = False


class Callback:
    """The op callback of a thread. It also carries the stack to replica threads, which copy the callbacks."""

    __slots__ = ("stack", "thread")
    on_op: Callable[..., Any]

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.thread = threading.get_ident()

    def __call__(
        self, op_type: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None
    ) -> Any:
        """Look at one op; hand back its outputs, changed or not."""
        stack = _stack.get()
        if stack is None:
            if threading.get_ident() == self.thread:
                return outputs
            stack = self.stack
        elif stack is SUSPENDED:
            return outputs
        if type(op_type) is bytes:
            op_type = op_type.decode()
        stack.activation.seen[op_type] = 1
        bounds = stack.by_type.get(op_type)
        if bounds is None:
            if not stack.anywhere:
                return outputs
            bounds = stack.anywhere
        elif stack.anywhere:
            bounds = bounds + stack.anywhere
        return on_match(stack, bounds, op_type, inputs, attrs, outputs, op_name, graph)


on_match: Callable[..., Any]  # put in by `intercept`, which needs this module


def current() -> Stack | None:
    """The stack that is in force here; `None` where nothing is overridden."""
    stack = _stack.get()
    if stack is None and _open_anywhere:
        stack = _inherited()
    return None if stack is SUSPENDED else stack


def _inherited() -> Stack | None:
    for callback in private.op_callbacks():
        if isinstance(callback, Callback) and callback.thread != threading.get_ident():
            return callback.stack
    return None


def enter(activation: Any) -> None:
    """Open an override in this context."""
    before = _stack.get()
    if before is None:
        before = _inherited()
    parent = None if before is SUSPENDED else before
    _push(Stack(parent, activation))
    _stack_parents(before)


def _push(stack: Stack) -> None:
    _install()
    for function, dispatch in stack.activation.override.resolved.held:
        calls_hold(function, dispatch)
    _stack.set(stack)
    _here.count = getattr(_here, "count", 0) + 1
    if _here.count == 1:
        private.set_op_callbacks([*private.op_callbacks(), Callback(stack)])
