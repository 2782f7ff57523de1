"""Private symbols of TensorFlow that explaining a gradient uses, each with the reason.

A run is seen op by op, so graphs are executed an op at a time (`execute`), functions are called through what would call
them (`AtomicFunction`, `ConcreteFunction`), and the backward pass is run by the same functions that a tape runs
(`backprop`). `script_ops` keeps the tape of a tf.py_function for one gradient only; two are taken here.
"""
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
from collections.abc import Callable, Generator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.eager import backprop as _backprop
from tensorflow.python.eager import context as _context
from tensorflow.python.eager import execute as _execute
from tensorflow.python.eager import record as _record
from tensorflow.python.eager.polymorphic_function import atomic_function as _atomic
from tensorflow.python.eager.polymorphic_function import concrete_function as _concrete
from tensorflow.python.framework import func_graph as _func_graph
from tensorflow.python.framework import function_def_to_graph as _to_graph
from tensorflow.python.framework import op_def_registry as _op_defs
from tensorflow.python.ops import cond as _cond
from tensorflow.python.ops import gen_resource_variable_ops as _variable_ops
from tensorflow.python.ops import script_ops as _script_ops
from tensorflow.python.ops import while_loop as _while_loop

from pullback.engines.tensorflow import tf_private as _private

# How a tape sums what arrives at a tensor.
sum_of = _backprop._aggregate_grads
# For these outputs a gradient function takes `None`; all others get zeros if nothing arrives (eager/tape.h).
_NONE_IS_FINE = {
    "SoftmaxCrossEntropyWithLogits": {1},
    "SparseSoftmaxCrossEntropyWithLogits": {1},
    "FusedBatchNorm": {1, 2, 3, 4},
    "FusedBatchNormV2": {1, 2, 3, 4},
    "FusedBatchNormV3": {1, 2, 3, 4, 5},
}

_COMPILED = "_XlaMustCompile"  # the attribute of what is compiled


def numbers(tensor: Any) -> Any:
    """The buffer of a concrete tensor as an array, not a copy."""
    return tensor._numpy()


def address(tensor: Any) -> int:
    """Where the numbers of a concrete tensor lie in memory; 0 where that cannot be told."""
    try:
        array = np.asarray(memoryview(tensor))
    except (TypeError, ValueError):  # a dtype that is not Python's
        array = tensor._numpy()
    return array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else 0


def value_behind(handle: Any, dtype: Any) -> Any:
    """The tensor that a variable's handle stands for, unseen by tapes."""
    with _record.stop_recording():
        return _variable_ops.read_variable_op(handle, dtype)


def zeros_where_missing(op_type: str, outputs: Sequence[Any], upstream: list[Any]) -> list[Any]:
    """What a tape hands a gradient function where nothing arrived at an output."""
    fine = _NONE_IS_FINE.get(op_type, ())
    return [
        _zeros_like(y) if dy is None and k not in fine else dy
        for k, (y, dy) in enumerate(zip(outputs, upstream, strict=True))
    ]


def _zeros_like(tensor: Any) -> Any:
    if tensor.dtype == tf.variant:
        return tf.zeros_like(tensor)
    return _backprop._zeros(_private.concrete_shape(tensor), tensor.dtype)


# one op at a time


def run_op(op_type: str, count: int, inputs: Sequence[Any], attrs: tuple[Any, ...]) -> list[Any]:
    """Run an op at once, unseen by callbacks and tapes."""
    found = _execute.quick_execute(op_type, count, list(inputs), attrs, _context.context())
    return list(found) if isinstance(found, (list, tuple)) else [] if found is None else [found]


def record_gradient(op_type: str, inputs: Any, attrs: Any, outputs: Any) -> None:
    """Record an op on all tapes with the gradient of its type."""
    if outputs and _execute.must_record_gradient():
        _execute.record_gradient(op_type, list(inputs), attrs, list(outputs))


def attributes_of(operation: Any) -> tuple[Any, ...]:
    """The attributes of an op of a graph, as eager execution takes them: names and values in turns."""
    found: list[Any] = []
    for attribute in operation.op_def.attr:
        value = operation.get_attr(attribute.name)
        found += [attribute.name, _as_eager(attribute.type, value)]
    return tuple(found)


def _as_eager(kind: str, value: Any) -> Any:
    if kind.startswith("list("):
        return [_as_eager(kind[5:-1], one) for one in value]
    if kind == "func":
        return value.name
    if kind == "type":
        return tf.as_dtype(value).as_datatype_enum
    if kind == "shape":
        return tf.TensorShape(value)
    return value.SerializeToString() if kind == "tensor" else value


# graphs of functions


def graph_of(operation: Any, name: str) -> Any:
    """The graph of a function that an op of a graph calls."""
    graph: Any = operation.graph
    while isinstance(graph, _func_graph.FuncGraph):
        if name in graph._functions:
            return graph._functions[name].graph
        graph = graph.outer_graph
    return _rebuilt(name)


@functools.lru_cache(maxsize=256)
def _rebuilt(name: str) -> Any:
    definition = _context.context().get_function_def(name)
    with tf.Graph().as_default():
        return _to_graph.function_def_to_graph(definition)


def is_compiled(function: Any) -> bool:
    """Whether a function is compiled by XLA."""
    inner = getattr(function, "_inference_function", function)
    return bool(inner.cached_definition.attr[_COMPILED].b)


def asks_to_compile(operation: Any) -> bool:
    """Whether an op of a graph calls a function that is compiled by XLA."""
    try:
        return bool(operation.get_attr(_COMPILED))
    except ValueError:
        return False


def attached_graph(operation: Any, name: str) -> Any:
    """The very graph that a branch or loop was made of, if the op still has it."""
    return getattr(operation, name, None)


def is_function_of(graph: Any, name: str) -> bool:
    """Whether an op type is the name of a function: an old way to call it."""
    return _op_defs.get(name) is None and name in graph._functions


def new_graph_inside(graph: Any, name: str) -> Any:
    """A graph whose outer graph is a given one."""
    with graph.as_default():
        return _func_graph.FuncGraph(name)


def new_placeholder(dtype: Any, shape: Any) -> Any:
    """An input of the current graph."""
    return tf.compat.v1.placeholder(dtype, shape)


# what is replaced while a run is recorded


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
