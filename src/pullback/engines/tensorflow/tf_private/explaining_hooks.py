"""What of TensorFlow and Keras is replaced while a run is recorded, so that all that happens is seen."""
# Private symbols are what this folder is for, and TensorFlow makes its context only when it is first asked for.
# pyright: reportPrivateUsage=false, reportOptionalMemberAccess=false

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import sys
import threading
import types
from collections.abc import Callable, Generator
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.eager import execute as _execute
from tensorflow.python.eager import record as _record
from tensorflow.python.eager.polymorphic_function import atomic_function as _atomic
from tensorflow.python.eager.polymorphic_function import concrete_function as _concrete
from tensorflow.python.ops import cond as _cond
from tensorflow.python.ops import script_ops as _script_ops
from tensorflow.python.ops import while_loop as _while_loop

from pullback.engines.tensorflow import tf_private as _private
from pullback.extend import Replacement, Together


def _in_this_thread() -> Callable[[], bool]:
    """Whether one is still in the thread in which this is called: classes and modules belong to all threads."""
    thread = threading.get_ident()
    return lambda: threading.get_ident() == thread


def calling_callbacks(original: Any) -> Callable[..., Any]:
    """What runs ops that leave the fast path, with a call of this thread's callbacks after each.

    TensorFlow switches this by assigning the function, for all threads at once.
    """
    del original

    def execute(
        op_name: Any, num_outputs: int, inputs: Any, attrs: Any, ctx: Any, name: Any = None
    ) -> Any:
        outputs = _execute.quick_execute(op_name, num_outputs, inputs, attrs, ctx, name)
        for callback in ctx.op_callbacks:
            callback(op_name, tuple(inputs), attrs, outputs, name)
        return outputs

    return execute


def callbacks_on_slow_path() -> contextlib.AbstractContextManager[Any]:
    """Let ops that leave the fast path call the callbacks of their threads."""
    return Replacement(_execute, "execute", calling_callbacks)


@contextlib.contextmanager
def records_seen(see: Callable[..., None]) -> Generator[None]:
    """Tell of every operation that is recorded with a backward function: TensorFlow's way and ours."""
    mine = _in_this_thread()

    def seen(original: Callable[..., None]) -> Callable[..., None]:
        def record_operation(
            op_type: Any,
            output_tensors: Any,
            input_tensors: Any,
            backward_function: Any,
            forward_function: Any = None,
        ) -> None:
            original(op_type, output_tensors, input_tensors, backward_function, forward_function)
            if mine():
                see(op_type, output_tensors, input_tensors, backward_function)

        return record_operation

    with (
        Replacement(_record, "record_operation", seen),
        Replacement(_private, "record_operation", seen),
    ):
        yield


def numbers_asked_for(numbers: Any) -> contextlib.AbstractContextManager[Any]:
    """In this thread, gradients are asked for of the tensors with these numbers, as a tape would tell."""
    mine = _in_this_thread()

    def told(original: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: numbers if mine() else original()

    return Replacement(_private, "numbers_asked_for", told)


def _nothing(outputs: Any) -> None:
    del outputs


@contextlib.contextmanager
def functions_interpreted(run: Callable[..., list[Any]]) -> Generator[None]:
    """Functions that are called at once are handed to `run(function, inputs, count)` in place of the runtime."""
    mine = _in_this_thread()

    def selecting(select: Callable[..., Any]) -> Callable[..., Any]:
        def select_functions(self: Any, args: Any, kinds: Any, executing_eagerly: bool) -> Any:
            if not executing_eagerly or not mine():
                return select(self, args, kinds, executing_eagerly)
            count = len(self.function_type.flat_outputs)
            runner = types.SimpleNamespace(call_flat=lambda *a: run(self, a, count))
            return types.SimpleNamespace(forward=lambda: (runner, list(args)), record=_nothing)

        return select_functions

    def calling(call: Callable[..., Any]) -> Callable[..., Any]:
        def call_preflattened(self: Any, args: Any) -> Any:
            if not _private.executing_eagerly() or not mine():
                return call(self, args)
            outputs = run(self, args, len(self.function_type.flat_outputs))
            return self.function_type.pack_output(outputs)

        return call_preflattened

    owner = _concrete.ConcreteFunction
    with (
        Replacement(owner, "_select_forward_and_backward_functions", selecting),
        Replacement(_atomic.AtomicFunction, "call_preflattened", calling),
    ):
        yield


def calls_seen(see: Callable[..., None]) -> contextlib.AbstractContextManager[Any]:
    """Tell of every traced function that has been called at once: function, inputs, outputs."""
    mine = _in_this_thread()

    def telling(call: Callable[..., Any]) -> Callable[..., Any]:
        def call_flat(self: Any, *args: Any) -> Any:
            outputs = call(self, *args)
            if _private.executing_eagerly() and mine():
                see(self, args, outputs)
            return outputs

        return call_flat

    return Replacement(_atomic.AtomicFunction, "call_flat", telling)


class _Kept(dict[Any, Any]):
    """Stands for another dict, whose entries stay when they are taken, until the end."""

    def __init__(self, entries: dict[Any, Any]) -> None:
        super().__init__()
        self.entries, self.taken = entries, set[Any]()

    def __setitem__(self, key: Any, value: Any) -> None:
        self.entries[key] = value

    def pop(self, key: Any, *default: Any) -> Any:
        self.taken.add(key)
        return self.entries.get(key, *default)


class _TapesKept(Replacement):
    """The tapes of functions of Python that run in TensorFlow, in whichever of its threads."""

    def remove(self) -> None:
        kept: Any = _script_ops.tape_cache
        super().remove()
        for key in kept.taken:
            kept.entries.pop(key, None)


def _persistent(original: Any) -> Any:
    del original
    return types.SimpleNamespace(GradientTape=functools.partial(tf.GradientTape, persistent=True))


# One for all runs: the tape of a function may be asked for in a thread of TensorFlow's own.
_differentiable_twice = Together()
_differentiable_twice.add(_TapesKept(_script_ops, "tape_cache", _Kept))
_differentiable_twice.add(Replacement(_script_ops, "backprop", _persistent))


def python_functions_differentiable_twice() -> contextlib.AbstractContextManager[Any]:
    """The tape of a tf.py_function serves more than one backward pass."""
    return _differentiable_twice


@contextlib.contextmanager
def layer_calls_seen(enter: Callable[[Any], None], leave: Callable[[], None]) -> Generator[None]:
    """Tell when a Keras layer begins to run, and when it ends."""
    mine = _in_this_thread()

    def telling(call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def seen(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not mine():
                return call(self, *args, **kwargs)
            enter(self)
            try:
                return call(self, *args, **kwargs)
            finally:
                leave()

        return seen

    with Replacement(keras.Layer, "__call__", telling):
        yield


@contextlib.contextmanager
def control_flow_seen(
    within: Callable[[str], contextlib.AbstractContextManager[None]],
) -> Generator[None]:
    """Let what loops and branches run at once run within a block that is told which step or branch it is."""
    mine = _in_this_thread()

    def stepping(loop: Callable[..., Any]) -> Callable[..., Any]:
        def while_loop(cond: Any, body: Any, *args: Any, **kwargs: Any) -> Any:
            if not _private.executing_eagerly() or not mine():
                return loop(cond, body, *args, **kwargs)
            steps = itertools.count(1)

            def step(*values: Any) -> Any:
                with within(f"while, step {next(steps)}"):
                    return body(*values)

            return loop(cond, step, *args, **kwargs)

        return while_loop

    def choosing(branch: Callable[..., Any]) -> Callable[..., Any]:
        def cond(pred: Any, true_fn: Any, false_fn: Any, strict: bool, name: Any) -> Any:
            if not mine():
                return branch(pred, true_fn, false_fn, strict, name)
            then, otherwise = named(true_fn, "then of cond"), named(false_fn, "else of cond")
            return branch(pred, then, otherwise, strict, name)

        return cond

    def named(function: Any, where: str) -> Any:
        def run() -> Any:
            with within(where):
                return function()

        return run

    with (
        Replacement(_while_loop, "while_loop", stepping),
        Replacement(_cond, "_eager_cond_implementation", choosing),
    ):
        yield


@contextlib.contextmanager
def tapes_seen(opened: Callable[[Any], None], closed: Callable[[Any], None]) -> Generator[None]:
    """Tell when a GradientTape begins to record, and when it ends or pauses."""
    mine = _in_this_thread()

    def telling(change: Callable[..., None], tell: Callable[[Any], None]) -> Callable[..., None]:
        def changed(self: Any) -> None:
            change(self)
            if mine():
                tell(self)

        return changed

    with (
        Replacement(tf.GradientTape, "_push_tape", lambda push: telling(push, opened)),
        Replacement(tf.GradientTape, "_pop_tape", lambda pop: telling(pop, closed)),
    ):
        yield


@contextlib.contextmanager
def gradients_asked_seen(
    asked: Callable[[Any], Any], given: Callable[[Any, Any], None]
) -> Generator[None]:
    """Tell when a GradientTape is asked for a gradient, with the call's arguments, and what it gave."""
    mine = _in_this_thread()

    def telling(gradient: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(gradient)

        @functools.wraps(gradient)
        def seen(*args: Any, **kwargs: Any) -> Any:
            if not mine():
                return gradient(*args, **kwargs)
            mark = asked(signature.bind(*args, **kwargs).arguments)
            found = gradient(*args, **kwargs)
            given(mark, found)
            return found

        return seen

    with Replacement(tf.GradientTape, "gradient", telling):
        yield


@contextlib.contextmanager
def gradients_applied(see: Callable[[], None]) -> Generator[None]:
    """Tell when a Keras optimizer is given gradients; one without state is not given any, or that would be made."""
    mine = _in_this_thread()

    def seen(apply: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(apply)
        def applied(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not mine():
                return apply(self, *args, **kwargs)
            see()
            return apply(self, *args, **kwargs) if self.built else None

        return applied

    with contextlib.ExitStack() as undo:
        for owner in (keras.Optimizer, keras.optimizers.LossScaleOptimizer):
            undo.enter_context(Replacement(owner, "apply", seen))
        yield


def calling_frame(depth: int) -> Any:
    """The frame so many calls further out."""
    return sys._getframe(depth + 1)
