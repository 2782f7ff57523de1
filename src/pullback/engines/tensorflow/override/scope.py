"""Which overrides are open here, and the hooks that are in TensorFlow while any is open anywhere.

The stack of open overrides belongs to the context (`contextvars`), so tasks of one event loop and
threads do not see each other's. Replica threads of a distribution strategy inherit it with the
thread's op callbacks. Rules, and TensorFlow's own backward pass, run with the stack suspended.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pullback._targets import Entry
from pullback.engines.tensorflow.override import calls
from pullback.engines.tensorflow.tf_private import overriding as private
from pullback.errors import PullbackError


class Bound:
    """A line of an open override, ready to be matched."""

    __slots__ = ("activation", "depth", "entry", "line", "mark", "rule")

    def __init__(self, activation: Any, entry: Entry, line: Any, depth: int) -> None:
        self.activation = activation
        self.entry = entry
        self.line = line
        self.depth = depth
        self.mark = (depth, entry.index)  # identifies the line among all open ones
        self.rule: Any = None  # the rule as a region runs it, made when first needed


class Stack:
    """The open overrides of a context, innermost first, indexed for matching."""

    __slots__ = (
        "activation", "anywhere", "batching", "before", "by_function", "by_type", "depth",
        "expectable", "key", "one_op", "parent", "plain", "tracks",
    )  # fmt: skip

    def __init__(self, previous: Stack | None, activation: Any) -> None:
        parent = None if previous is SUSPENDED else previous
        self.parent = parent
        self.before: tuple[Stack | None, list[Any]] = (previous, [])
        self.activation = activation
        self.batching = (
            parent.batching if parent else False
        )  # opened in the body of a tf.vectorized_map
        self.depth = parent.depth + 1 if parent else 0
        self.by_type: dict[str, tuple[Bound, ...]] = dict(parent.by_type) if parent else {}
        self.by_function: dict[Any, tuple[Bound, ...]] = dict(parent.by_function) if parent else {}
        self.anywhere: tuple[Bound, ...] = parent.anywhere if parent else ()
        self.key: tuple[Any, ...] = parent.key if parent else ()
        # Op types of which every op matches, whatever runs around it: the chain of rules is known beforehand.
        self.plain: dict[str, tuple[Bound, ...]] = {}
        self.one_op: dict[Any, tuple[Bound, ...]] = {}  # the same for functions that are one op
        self.expectable: frozenset[str] = parent.expectable if parent else frozenset()
        self.tracks: bool = (
            parent.tracks if parent else False
        )  # whether it matters which parts are running
        if activation is not None:
            self._add(activation)

    def _add(self, activation: Any) -> None:
        resolved = activation.override.resolved
        self.key = (*self.key, activation.override.key)
        for op_type, lines in resolved.by_type.items():
            self.by_type[op_type] = self._bind(lines) + self.by_type.get(op_type, ())
        for function, lines in resolved.by_function.items():
            self.by_function[function] = self._bind(lines) + self.by_function.get(function, ())
        self.anywhere = self._bind(resolved.anywhere) + self.anywhere
        self.expectable |= resolved.expectable
        self.tracks |= resolved.tracks
        self.one_op = {
            f: b for f, b in self.by_function.items() if _is_plain_op(b) and not self.tracks
        }
        self.plain = (
            {} if self.anywhere else {t: b for t, b in self.by_type.items() if _is_plain(b)}
        )

    def _bind(self, lines: Any) -> tuple[Bound, ...]:
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


def _is_plain(bounds: tuple[Bound, ...]) -> bool:
    return all(b.line.is_plain for b in bounds) and len({b.depth for b in bounds}) == len(bounds)


def _is_plain_op(bounds: tuple[Bound, ...]) -> bool:
    return bool(bounds) and bounds[0].line.is_one_op and _is_plain(bounds)


SUSPENDED: Any = None  # the stack of a context in which nothing is to be overridden
SUSPENDED = Stack(None, None)
_stack: contextvars.ContextVar[Stack | None] = contextvars.ContextVar("pullback", default=None)
_here = threading.local()
_lock = threading.RLock()
_open_anywhere = 0
_hooks: list[Hook] = []


class Callback:
    """The op callback of a thread. It also carries the stack to replica threads, which copy the callbacks."""

    __slots__ = ("stack", "thread")

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.thread = threading.get_ident()

    def __call__(
        self,
        op_type: Any,
        inputs: Any,
        attrs: Any,
        outputs: Any,
        op_name: Any = None,
        graph: Any = None,
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
        stack.activation.seen[op_type] = None
        bounds = stack.by_type.get(op_type, ())
        if stack.anywhere:
            bounds = bounds + stack.anywhere
        elif not bounds and op_type not in stack.expectable:
            return outputs
        return _on_op[0](stack, bounds, op_type, inputs, attrs, outputs, op_name, graph)


_on_op: list[Callable[..., Any]] = []  # put in by `intercept`, which needs this module


def handle_ops_with(handler: Callable[..., Any]) -> None:
    """Name the function that handles an op whose type is targeted."""
    _on_op[:] = [handler]


def current() -> Stack | None:
    """The stack that is in force here; `None` where nothing is overridden."""
    if not _open_anywhere:
        return None
    stack = _stack.get()
    if stack is None:
        return _inherited()
    return None if stack is SUSPENDED else stack


def _inherited() -> Stack | None:
    for callback in private.op_callbacks():
        if isinstance(callback, Callback) and callback.thread != threading.get_ident():
            return callback.stack
    return None


def enter(activation: Any) -> None:
    """Open an override in this context."""
    # Not earlier: the canary runs ops, and a strategy may have to be set up before any op runs.
    private.check_override()
    previous = _stack.get()
    stack = Stack(_inherited() if previous is None else previous, activation)
    stack.before = (previous, private.op_callbacks())
    stack.batching = not private.context().executing_eagerly() and private.in_batched_loop()
    reenter(stack)


def reenter(stack: Stack, activations: Sequence[Any] | None = None) -> None:
    """Put a stack in force here."""
    _install()
    for activation in activations or [stack.activation]:
        for function, dispatch in activation.override.resolved.held:
            calls.hold(function, dispatch)
    _here.count = getattr(_here, "count", 0) + 1
    private.set_op_callbacks([*_others(), Callback(stack)])
    _stack.set(stack)


def leave(override: Any) -> Any:
    """Close the innermost override; it must be this one."""
    stack = _stack.get()
    if stack is None or stack.activation is None or stack.activation.override is not override:
        raise PullbackError(
            f"{override!r} is closed here, but it is not the innermost override that is open here. Close overrides in "
            "the reverse order, in the thread and task that opened them."
        )
    withdraw(stack)
    return stack.activation


def withdraw(stack: Stack, activations: Sequence[Any] | None = None) -> None:
    """Undo `reenter`."""
    previous, callbacks = stack.before
    _stack.set(previous)
    _here.count -= 1
    _restore_callbacks(stack, callbacks)
    for activation in activations or [stack.activation]:
        for function, _ in activation.override.resolved.held:
            calls.release(function)
    _uninstall()


def _restore_callbacks(stack: Stack, callbacks: list[Any]) -> None:
    """Put the list of before back: the very list, because an op that is running may still hold it."""
    mine = any(isinstance(c, Callback) and c.stack is stack for c in private.op_callbacks())
    stale = not _here.count and any(_is_of_this_thread(c) for c in callbacks)
    if mine and not stale:
        private.set_op_callbacks(callbacks)
    elif not _here.count:
        # Tasks of one event loop share the thread, and may close their blocks in any order.
        private.set_op_callbacks([c for c in private.op_callbacks() if not _is_of_this_thread(c)])


def _is_of_this_thread(callback: Any) -> bool:
    return isinstance(callback, Callback) and callback.thread == threading.get_ident()


def _others() -> list[Any]:
    return [c for c in private.op_callbacks() if not isinstance(c, Callback)]


@contextlib.contextmanager
def suspended() -> Iterator[None]:
    """Nothing is overridden in this block."""
    token = suspend()
    try:
        yield
    finally:
        resume(token)


@contextlib.contextmanager
def without_callback() -> Iterator[None]:
    """Nothing is overridden in this block, and ops that run in it do not call us."""
    callbacks = private.op_callbacks()
    token = suspend()
    private.set_op_callbacks(_others())
    try:
        yield
    finally:
        private.set_op_callbacks(callbacks)
        resume(token)


def suspend() -> Any:
    """Override nothing from here on; give the result to `resume`. Faster than a block."""
    return _stack.set(SUSPENDED)


def resume(token: Any) -> None:
    """Undo `suspend`."""
    _stack.reset(token)


@contextlib.contextmanager
def set_for(variable: contextvars.ContextVar[Any], value: Any) -> Iterator[None]:
    """A context variable has this value in the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextlib.contextmanager
def again(stack: Stack) -> Iterator[None]:
    """What was in force when `stack` was read is in force in this block, also in another thread or later."""
    if current() is stack:
        yield
        return
    chain = _copied(stack)
    chain.before = (_stack.get(), private.op_callbacks())
    activations = list(stack.activations())
    reenter(chain, activations)
    try:
        yield
    finally:
        withdraw(chain, activations)


def _copied(stack: Stack) -> Stack:
    copy = Stack.__new__(Stack)
    for name in Stack.__slots__:
        setattr(copy, name, getattr(stack, name))
    return copy


class Hook:
    """A function of TensorFlow that is replaced while an override is open anywhere."""

    def __init__(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        self.owner = owner
        self.name = name
        self.make = make
        self.original: Any = None

    def install(self) -> None:
        """Put ours in its place."""
        self.original = getattr(self.owner, self.name)
        setattr(self.owner, self.name, self.make(self.original))

    def uninstall(self) -> None:
        """Put the original back."""
        setattr(self.owner, self.name, self.original)


def hook(owner: Any, name: str) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Decorator: replace a function while an override is open; the decorated one makes the replacement."""

    def register(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        _hooks.append(Hook(owner, name, make))
        return make

    return register


def _install() -> None:
    global _open_anywhere
    with _lock:
        if not _open_anywhere:
            for each in _hooks:
                each.install()
        _open_anywhere += 1


def _uninstall() -> None:
    global _open_anywhere
    with _lock:
        _open_anywhere -= 1
        if not _open_anywhere:
            for each in reversed(_hooks):
                each.uninstall()


def open_blocks() -> int:
    """How many overrides are open in the process."""
    return _open_anywhere
