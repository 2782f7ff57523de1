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


def _in_this_thread() -> Callable[[], bool]:
    """Whether one is still in the thread in which this is called: classes and modules belong to all threads."""
    thread = threading.get_ident()
    return lambda: threading.get_ident() == thread


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Generator[None]:
    """Another value for an attribute while this is open."""
    own = name in vars(owner)  # and not inherited
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


def callbacks_on_slow_path() -> contextlib.AbstractContextManager[None]:
    """Let ops that leave the fast path call this thread's callbacks, unless an open override does so already."""
    if _execute.execute is not _execute.quick_execute:
        return contextlib.nullcontext()

    def execute(
        op_name: Any, num_outputs: int, inputs: Any, attrs: Any, ctx: Any, name: Any = None
    ) -> Any:
        outputs = _execute.quick_execute(op_name, num_outputs, inputs, attrs, ctx, name)
        for callback in ctx.op_callbacks:
            callback(op_name, tuple(inputs), attrs, outputs, name)
        return outputs

    return replaced(_execute, "execute", execute)


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
        replaced(_record, "record_operation", seen(_record.record_operation)),
        replaced(_private, "record_operation", seen(_private.record_operation)),
    ):
        yield


def _nothing(outputs: Any) -> None:
    del outputs


@contextlib.contextmanager
def functions_interpreted(run: Callable[..., list[Any]]) -> Generator[None]:
    """Functions that are called at once are handed to `run(function, inputs, count)` in place of the runtime."""
    select = _concrete.ConcreteFunction._select_forward_and_backward_functions
    call = _atomic.AtomicFunction.call_preflattened

    mine = _in_this_thread()

    def select_functions(self: Any, args: Any, kinds: Any, executing_eagerly: bool) -> Any:
        if not executing_eagerly or not mine():
            return select(self, args, kinds, executing_eagerly)
        count = len(self.function_type.flat_outputs)
        runner = types.SimpleNamespace(call_flat=lambda *a: run(self, a, count))
        return types.SimpleNamespace(forward=lambda: (runner, list(args)), record=_nothing)

    def call_preflattened(self: Any, args: Any) -> Any:
        if not _private.executing_eagerly() or not mine():
            return call(self, args)
        outputs = run(self, args, len(self.function_type.flat_outputs))
        return self.function_type.pack_output(outputs)

    owner = _concrete.ConcreteFunction
    with (
        replaced(owner, "_select_forward_and_backward_functions", select_functions),
        replaced(_atomic.AtomicFunction, "call_preflattened", call_preflattened),
    ):
        yield


class _Kept(dict[Any, Any]):
    """Entries that stay when they are taken."""

    def pop(self, key: Any, *default: Any) -> Any:
        return self.get(key, *default)


@contextlib.contextmanager
def python_functions_differentiable_twice() -> Generator[None]:
    """The tape of a tf.py_function serves more than one backward pass."""
    tape = functools.partial(tf.GradientTape, persistent=True)
    with (
        replaced(_script_ops, "tape_cache", _Kept()),
        replaced(_script_ops, "backprop", types.SimpleNamespace(GradientTape=tape)),
    ):
        yield


@contextlib.contextmanager
def layer_calls_seen(enter: Callable[[Any], None], leave: Callable[[], None]) -> Generator[None]:
    """Tell when a Keras layer begins to run, and when it ends."""
    call = keras.Layer.__call__
    mine = _in_this_thread()

    @functools.wraps(call)
    def seen(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not mine():
            return call(self, *args, **kwargs)
        enter(self)
        try:
            return call(self, *args, **kwargs)
        finally:
            leave()

    with replaced(keras.Layer, "__call__", seen):
        yield


@contextlib.contextmanager
def control_flow_seen(
    within: Callable[[str], contextlib.AbstractContextManager[None]],
) -> Generator[None]:
    """Let what loops and branches run at once run within a block that is told which step or branch it is."""
    loop, branch = _while_loop.while_loop, _cond._eager_cond_implementation
    mine = _in_this_thread()

    def while_loop(cond: Any, body: Any, *args: Any, **kwargs: Any) -> Any:
        if not _private.executing_eagerly() or not mine():
            return loop(cond, body, *args, **kwargs)
        steps = itertools.count(1)

        def step(*values: Any) -> Any:
            with within(f"while, step {next(steps)}"):
                return body(*values)

        return loop(cond, step, *args, **kwargs)

    def cond(pred: Any, true_fn: Any, false_fn: Any, strict: bool, name: Any) -> Any:
        if not mine():
            return branch(pred, true_fn, false_fn, strict, name)
        then, otherwise = named(true_fn, "then of cond"), named(false_fn, "else of cond")
        return branch(pred, then, otherwise, strict, name)

    def named(function: Any, where: str) -> Any:
        def run() -> Any:
            with within(where):
                return function()

        return run

    with (
        replaced(_while_loop, "while_loop", while_loop),
        replaced(_cond, "_eager_cond_implementation", cond),
    ):
        yield


@contextlib.contextmanager
def tapes_seen(opened: Callable[[Any], None], closed: Callable[[Any], None]) -> Generator[None]:
    """Tell when a GradientTape begins to record, and when it ends or pauses."""
    owner: Any = tf.GradientTape
    push, pop = owner._push_tape, owner._pop_tape

    mine = _in_this_thread()

    def push_tape(self: Any) -> None:
        push(self)
        if mine():
            opened(self)

    def pop_tape(self: Any) -> None:
        pop(self)
        if mine():
            closed(self)

    with (
        replaced(owner, "_push_tape", push_tape),
        replaced(owner, "_pop_tape", pop_tape),
    ):
        yield


@contextlib.contextmanager
def gradients_asked_seen(
    asked: Callable[[Any], Any], given: Callable[[Any, Any], None]
) -> Generator[None]:
    """Tell when a GradientTape is asked for a gradient, with the call's arguments, and what it gave."""
    gradient = tf.GradientTape.gradient
    signature = inspect.signature(gradient)
    mine = _in_this_thread()

    @functools.wraps(gradient)
    def seen(*args: Any, **kwargs: Any) -> Any:
        if not mine():
            return gradient(*args, **kwargs)
        mark = asked(signature.bind(*args, **kwargs).arguments)
        found = gradient(*args, **kwargs)
        given(mark, found)
        return found

    with replaced(tf.GradientTape, "gradient", seen):
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
            undo.enter_context(replaced(owner, "apply", seen(owner.apply)))
        yield


def calling_frame(depth: int) -> Any:
    """The frame so many calls further out."""
    return sys._getframe(depth + 1)
