"""Opening and closing overrides in TensorFlow: op callbacks, and the functions that are replaced meanwhile.

Replica threads of a distribution strategy inherit the stack of open overrides with the thread's op callbacks.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach.as_argument import traced_as_itself
from pullback.engines.tensorflow.override.intercept import BATCHED, on_op
from pullback.engines.tensorflow.override.op_names import is_library, names_inside, public_name
from pullback.engines.tensorflow.tf_private import overriding
from pullback.extend import SUSPENDED, Replacement, Stack, Together, stack_here, suspended
from pullback.extend import PatchedFunction as CorePatchedFunction

_F = TypeVar("_F", bound=Callable[..., Any])
_here = threading.local()  # with the count of stacks in force in this thread
while_open = Together()  # what is replaced while an override is open anywhere


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
        if type(outputs) is tuple:
            outputs = list(outputs)  # TensorFlow hands callbacks a tuple, where ops give a list
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
        return on_op(stack, bounds, op_type, inputs, attrs, outputs, op_name, graph)


def current() -> Stack | None:
    """The stack that is in force here; `None` where nothing is overridden."""
    if not while_open.users:
        return None
    stack = stack_here.get()
    if stack is None:
        return _inherited()
    return None if stack is SUSPENDED else stack


def is_tracing() -> bool:
    """Whether ops are put into a graph here."""
    return not private.executing_eagerly()


def _inherited() -> Stack | None:
    for callback in private.op_callbacks():
        if isinstance(callback, Callback) and not _is_of_this_thread(callback):
            return callback.stack
    return None


def intercept(stack: Stack, undo: contextlib.ExitStack) -> None:
    """Have the ops of this thread matched with a stack, until `undo` is closed."""
    # Not earlier: the canary runs ops, and a strategy may have to be set up before any op runs.
    overriding.check_override()
    stack.activation.is_rehearsal = overriding.in_keras_symbolic_scope()
    if not private.executing_eagerly() and overriding.in_batched_loop():
        stack.traits = BATCHED
    undo.enter_context(while_open)
    undo.callback(_restore_callbacks, stack, private.op_callbacks())
    _here.count = getattr(_here, "count", 0) + 1
    private.set_op_callbacks(_with(Callback(stack)))


def _with(callback: Callback) -> list[Any]:
    """The callbacks with this one in the place of ours, so that others still see what ours hands on, or at the end."""
    callbacks, others = private.op_callbacks(), _others()
    ours = (i for i, c in enumerate(callbacks) if isinstance(c, Callback))
    place = next(ours, len(others))
    return [*others[:place], callback, *others[place:]]


def _restore_callbacks(stack: Stack, callbacks: list[Any]) -> None:
    """Put the list of before back: the very list, because an op that is running may still hold it."""
    _here.count -= 1
    mine = any(isinstance(c, Callback) and c.stack is stack for c in private.op_callbacks())
    stale = not _here.count and any(map(_is_of_this_thread, callbacks))
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
def without_callback() -> Generator[None]:
    """Nothing is overridden in this block, and ops that run in it do not call us."""
    with private.with_op_callbacks(_others()), suspended():
        yield


def hook(owner: Any, name: str) -> Callable[[_F], _F]:
    """Decorator: call this instead of a function of TensorFlow, Keras or this engine where a stack is in force.

    It gets the stack and the original function before the arguments.
    """

    def register(function: _F) -> _F:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def hooked(*args: Any, **kwargs: Any) -> Any:
                stack = current()
                if stack is None:
                    return original(*args, **kwargs)
                return function(stack, original, *args, **kwargs)

            return hooked

        while_open.add(Replacement(owner, name, make))
        return function

    return register


class PatchedFunction(CorePatchedFunction):
    """A function whose calls are handed to `dispatch` with the stack in force; tf.function does not notice."""

    @functools.cached_property
    def title(self) -> str:
        """How it reads in messages: by its public name, if it has one."""
        return public_name(self.function) or self.function.__name__

    @functools.cached_property
    def names_inside(self) -> frozenset[str]:
        """By which names TensorFlow may call it for itself."""
        return names_inside(self.function)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the trampoline calls."""
        stack = current()
        if stack is None:
            return self.run(*args, **kwargs)
        return self.dispatch(stack, self, args, kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as if it were not patched, converted by AutoGraph where it would be."""
        twin = self.twin if is_library(self.function) else overriding.converted(self.twin)
        return twin(*args, **kwargs)

    def install(self) -> None:
        """Put the trampoline in; tf.function still traces the function as itself, not as what it wraps."""
        if hasattr(self.function, "__wrapped__"):
            self.function.__dict__["__tf_tracing_type__"] = traced_as_itself(self.function)
        super().install()

    def remove(self) -> None:
        """Put the original code back."""
        super().remove()
        self.function.__dict__.pop("__tf_tracing_type__", None)
        # AutoGraph has noted that it shall not convert this function: true of the trampoline only.
        overriding.forget_unconverted(self.function)
