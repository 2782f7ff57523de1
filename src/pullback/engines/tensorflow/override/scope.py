"""Opening and closing overrides in TensorFlow: op callbacks, and the functions that are replaced meanwhile.

Replica threads of a distribution strategy inherit the stack of open overrides with the thread's op callbacks.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.override import patching
from pullback.engines.tensorflow.tf_private import overriding
from pullback.errors import PullbackError
from pullback.extend import SUSPENDED, Stack, resume, stack_here, suspend

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
        stack = stack_here.get()
        if stack is None:
            if threading.get_ident() == self.thread:
                return outputs
            stack = self.stack
        elif stack is SUSPENDED:
            return outputs
        if type(op_type) is bytes:
            op_type = op_type.decode()
        stack.activation.seen[op_type] = None
        bounds = stack.by_handle.get(op_type, ())
        if stack.anywhere:
            bounds = bounds + stack.anywhere
        elif not bounds and op_type not in stack.one_op_types:
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
    stack = stack_here.get()
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
    overriding.check_override()
    previous = stack_here.get()
    stack = Stack(_inherited() if previous is None else previous, activation)
    stack.before = (previous, private.op_callbacks())
    if not overriding.context().executing_eagerly() and overriding.in_batched_loop():
        stack.traits = BATCHED
    push(stack, [activation])


MODEL_WAS_BUILT = (
    "a Keras model was built here, and building runs nothing that could be differentiated. "
    "Build it outside, and apply the override to it: `pb.override({...})(model)`."
)
BATCHED = (
    "batched",
)  # opened in the body of a tf.vectorized_map, whose ops will be turned into others


def push(stack: Stack, activations: Sequence[Any]) -> None:
    """Put a stack in force here."""
    _install()
    for activation in activations:
        for function, dispatch in activation.override.resolved.patches:
            patching.acquire(function, dispatch)
    _here.count = getattr(_here, "count", 0) + 1
    private.set_op_callbacks([*_others(), Callback(stack)])
    stack_here.set(stack)


def leave(override: Any) -> Any:
    """Close the innermost override; it must be this one."""
    stack = stack_here.get()
    if stack is None or stack.activation is None or stack.activation.override is not override:
        raise PullbackError(
            f"{override!r} is closed here, but it is not the innermost override that is open here. Close overrides in "
            "the reverse order, in the thread and task that opened them."
        )
    pop(stack, [stack.activation])
    return stack.activation


def pop(stack: Stack, activations: Sequence[Any]) -> None:
    """Undo `push`."""
    previous, callbacks = stack.before
    stack_here.set(previous)
    _here.count -= 1
    _restore_callbacks(stack, callbacks)
    for activation in activations:
        for function, _ in activation.override.resolved.patches:
            patching.release(function)
    _uninstall()


@contextlib.contextmanager
def reactivate(stack: Stack) -> Iterator[None]:
    """What was in force when `stack` was read is in force in this block, also in another thread or later."""
    if current() is stack:
        yield
        return
    chain = stack.copied()
    chain.before = (stack_here.get(), private.op_callbacks())
    activations = list(stack.activations())
    push(chain, activations)
    try:
        yield
    finally:
        pop(chain, activations)


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


class Hook:
    """A function of TensorFlow or of this engine that is replaced while an override is open anywhere."""

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
