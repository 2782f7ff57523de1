"""Private symbols of TensorFlow that the engine uses, each with the reason; `canary` proves that they are as expected.

Nothing outside of this folder imports from `tensorflow.python`, or reads private attributes of TensorFlow's objects.
"""
# Private symbols are what this folder is for, and TensorFlow makes its context only when it is first asked for.
# pyright: reportPrivateUsage=false, reportOptionalMemberAccess=false

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import operator
import sys
from collections.abc import Callable, Generator, Sequence
from typing import Any

import tensorflow as tf

# A part of an array replaced at a place that is known when the program runs, for XLA.
from tensorflow.compiler.tf2xla.ops.gen_xla_ops import (
    xla_dynamic_update_slice as xla_dynamic_update_slice,
)

# How an object is traced that is an argument of a tf.function: as itself, without being kept alive.
from tensorflow.core.function.trace_type.default_types import Weakref as Weakref
from tensorflow.python import pywrap_tfe as _tfe
from tensorflow.python.eager import context as _context
from tensorflow.python.eager import forwardprop_util as _forwardprop_util
from tensorflow.python.eager import imperative_grad as _imperative_grad
from tensorflow.python.eager import record as _record
from tensorflow.python.framework import func_graph as _func_graph
from tensorflow.python.framework import ops as _ops
from tensorflow.python.ops import cond_v2 as _cond
from tensorflow.python.ops import control_flow_util as _control_flow_util
from tensorflow.python.ops import control_flow_v2_func_graphs as _control_flow
from tensorflow.python.ops import gen_array_ops as _array_ops
from tensorflow.python.ops import gradients_util as _gradients_util
from tensorflow.python.ops import resource_variable_ops as _variable_ops
from tensorflow.python.ops import stateful_random_ops as _stateful_random_ops
from tensorflow.python.ops.parallel_for import pfor as _pfor

from pullback.extend import Setting

# An operation is recorded with a gradient of our own on every tape and accumulator, without running it twice.
record_operation = _record.record_operation
could_possibly_record = _record.could_possibly_record
stop_recording = _record.stop_recording
recording_is_stopped = _tfe.TFE_Py_TapeSetIsStopped
push_forwardprop_state = _forwardprop_util.push_forwardprop_state
# 0: nothing watches the tensors; 1: one tape or accumulator; 2: more, so a second derivative may be asked for.
possible_gradient_types = _tfe.TFE_Py_TapeSetPossibleGradientTypes
# Which variables a function reads, and telling tapes that one was read.
VariableWatcher = _record.VariableWatcher
variable_accessed = _variable_ops.variable_accessed
# As tf.executing_eagerly, without the cost of its wrapper: this is asked at every call.
executing_eagerly = _context.executing_eagerly
# Ops that run at once, also where eager execution has been disabled.
eager_mode = _context.eager_mode
WRAPPER = "cflow_gradient_wrapper"
# The class of concrete tensors: a type test is the fastest way to tell them from symbolic ones.
EagerTensor = _ops.EagerTensor
# The dtype of a concrete tensor as TensorFlow's number for it, without making a DType.
data_type = EagerTensor._datatype_enum
# The shape of a concrete tensor, without making a TensorShape.
concrete_shape = EagerTensor._shape_tuple
# The number of a concrete tensor, in the order of creation, and one above those of all tensors so far.
number_of = operator.attrgetter("_id")
next_number = _tfe.TFE_Py_UID
# The graph of a tf.function, and the rank of an op in the order of creation in its graph.
FuncGraph = _func_graph.FuncGraph
operation_number = number_of
# The gradient of an op in a graph is found by name in this registry; we take our entries out again.
gradient_registry = _ops.gradient_registry
# Which axes were broadcast, at run time.
broadcast_gradient_args = _array_ops.broadcast_gradient_args
# A batched tensor as tf.vectorized_map passes it on: the tensor, and whether it has a batch axis.
pfor_wrap = _pfor.wrap


# As tf.gradients, across graphs. Bound here: an override puts its own in the module while it is open.
_gradients_helper = _gradients_util._GradientsHelper
# What a tape runs; others may put their own in the place of both.
_tape_gradient = _imperative_grad.imperative_grad.__code__
# The ops at which the gradients that are now being built stop.
_stops = contextvars.ContextVar[frozenset[Any]]("pullback_stops", default=frozenset())


@contextlib.contextmanager
def recording_again() -> Generator[None]:
    """Let tapes record inside a block in which they were stopped: code of the user's may have tapes of its own."""
    stopped = recording_is_stopped()
    if stopped:
        _tfe.TFE_Py_TapeSetRestartOnThread()
    try:
        yield
    finally:
        if stopped:
            _tfe.TFE_Py_TapeSetStopOnThread()


def gradients_across(
    ys: Sequence[Any], xs: Sequence[Any], stops: Sequence[Any], graph: Any, upstream: Sequence[Any]
) -> list[Any]:
    """tf.gradients of what a graph holds, built in the current one: a backward pass has a graph of its own.

    No gradient goes on from one of the `xs` to another, nor through the `stops`.
    """
    stops = [*xs, *stops]
    token = _stops.set(frozenset(t.op for t in stops))
    try:
        return _gradients_helper(ys, xs, upstream, stop_gradients=stops, src_graph=graph)
    finally:
        _stops.reset(token)


def stop_at_calls() -> None:
    """Let gradients stop at the call of a function, too: TensorFlow goes on there, whatever it is told."""
    going_on = _gradients_util._SymGrad

    def gradients_of_call(operation: Any, upstream: list[Any]) -> Any:
        if operation in _stops.get():
            return [None] * len(operation.inputs)
        return going_on(operation, upstream)

    _gradients_util._SymGrad = gradients_of_call


def numbers_asked_for() -> frozenset[int]:
    """The numbers of the tensors that the tape which runs a gradient function was asked for; none outside of one."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code is not _tape_gradient:
        frame = frame.f_back
    sources = () if frame is None else frame.f_locals["sources"]
    return frozenset(number_of(s) for s in sources if isinstance(s, EagerTensor))


def detached(tensor: Any) -> Any:
    """Another handle on the same buffer, unknown to all tapes: a fifth of the cost of an identity op."""
    return tensor._copy_to_device(tensor.device)


def op_callbacks() -> list[Any]:
    """The functions that see every op of this thread."""
    return _context.context().op_callbacks


def set_op_callbacks(callbacks: list[Any]) -> None:
    """Replace them; the public way would slow down every thread for as long as the process lives."""
    _context.context()._thread_local_data.op_callbacks = callbacks


@contextlib.contextmanager
def with_op_callbacks(callbacks: list[Any]) -> Generator[None]:
    """These see every op of the block; then the very list of before does: an op that is running may still hold it."""
    before = op_callbacks()
    set_op_callbacks(callbacks)
    try:
        yield
    finally:
        set_op_callbacks(before)


def ops_seen_by(
    see: Callable[..., Any], *, first: bool = False
) -> contextlib.AbstractContextManager[None]:
    """A function sees every op of the block, before or after those that do already; it may give other outputs."""

    def passing_on(
        kind: Any, inputs: Any, attrs: Any, outputs: Any, *more: Any, **named: Any
    ) -> Any:
        # TensorFlow hands the next callback what this one returns, also where that is None
        given = see(kind, inputs, attrs, outputs, *more, **named)
        return outputs if given is None else given

    return with_op_callbacks(
        [passing_on, *op_callbacks()] if first else [*op_callbacks(), passing_on]
    )


def value_of(variable: Any) -> Any:
    """The TensorFlow variable inside a Keras one, also while Keras shows another in its place."""
    return getattr(variable, "_value", variable)


def is_custom_gradient(value: Any) -> bool:
    """Whether a function was made by `tf.custom_gradient`, which leaves no other mark on it."""
    decorator = getattr(value, "_tf_decorator", None)
    return getattr(decorator, "decorator_name", None) == "custom_gradient"


def identity_with_gradient(graph: Any, tensors: Sequence[Any], name: str) -> Sequence[Any]:
    """An IdentityN whose gradient has this name; made directly, at a third of the cost of tf.identity_n."""
    types = [tensor.dtype for tensor in tensors]
    listed = tf.compat.v1.AttrValue.ListValue(type=[t.as_datatype_enum for t in types])
    attributes = {
        "T": tf.compat.v1.AttrValue(list=listed),
        "_gradient_op_type": tf.compat.v1.AttrValue(s=name.encode()),
    }
    return graph._create_op_internal("IdentityN", list(tensors), types, attrs=attributes).outputs


def set_gradient_name(operation: Any, name: str) -> None:
    """Mark an op so that its gradient is looked up under another name than its type."""
    operation._set_attr("_gradient_op_type", tf.compat.v1.AttrValue(s=name.encode()))
    operation._gradient_function = None  # which would come before the name


def own_gradient(operation: Any) -> Any:
    """The gradient function that an op of a graph has been given in place of that of its type, if it has."""
    if operation._gradient_function is not None:
        return operation._gradient_function
    name = operation.graph._gradient_override_map.get(operation.type) or gradient_name_of(operation)
    return registered_gradient(name) if name else None


def gradient_name_of(operation: Any) -> str:
    """The name under which the gradient of an op is looked up, if it is marked with one."""
    try:
        return operation.get_attr("_gradient_op_type").decode()
    except ValueError:
        return ""


def remember_gradient(name: str, function: Any) -> None:
    """Put a function into the gradient registry; its own way walks the stack each time, to tell of name clashes."""
    gradient_registry._registry[name] = {"type": function, "location": None}


def forget_gradient(name: str) -> None:
    """Take a name out of the gradient registry, which has no public way to do so."""
    gradient_registry._registry.pop(name, None)


def registered_gradient(name: str) -> Any:
    """The gradient function of an op type, or of a name; `None` where there is none."""
    found = gradient_registry._registry.get(name)
    return None if found is None else found["type"]


def _seeds() -> dict[str, Any]:
    found = vars(_context.context())
    return {name: found[name] for name in ("_seed", "_rng") if name in found}


functions_run_eagerly = Setting(tf.config.functions_run_eagerly, tf.config.run_functions_eagerly)
_global_seed = Setting(_seeds, lambda seeds: vars(_context.context()).update(seeds))


@contextlib.contextmanager
def global_seed_kept(meanwhile: Any = None) -> Generator[None]:
    """Give back what tf.random.set_seed replaces: it can be set in public, but not read.

    Ops draw their seeds from `meanwhile`, if it is given, so that those that follow are drawn as if nothing had run.
    """
    with _global_seed.kept():
        vars(_context.context()).update(
            {"_rng": meanwhile} if meanwhile and "_rng" in _seeds() else {}
        )
        yield


def global_generator_state() -> list[Any]:
    """The variable of the global random generator, if there is one: asking for it in public makes one."""
    generator = _stateful_random_ops.global_generator
    return [] if generator is None else [generator.state]


@contextlib.contextmanager
def capturing(graph: Any, translate: Callable[[Any], Any]) -> Generator[None]:
    """While this is open, the graph captures in place of a tensor from outside what it is translated to."""
    capture = graph.capture
    nested = not inspect.ismethod(capture)  # replaced already, further out

    def capture_translated(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        other = translate(tensor)
        inside = not isinstance(other, EagerTensor) and other.graph is graph
        captured = other if inside else capture(other, *args, **kwargs)
        if other is not tensor and tensor.dtype == tf.resource:
            captured._record_tape(tensor)  # tapes know a variable by its own handle
        return captured

    graph.capture = capture_translated
    try:
        yield
    finally:
        if nested:
            graph.capture = capture
        else:
            del graph.capture


def is_control_flow(graph: Any) -> bool:
    """Whether a graph is a branch of a tf.cond or the body of a tf.while_loop."""
    return isinstance(graph, (_control_flow.CondBranchFuncGraph, _control_flow.WhileBodyFuncGraph))


def is_compiled_by_xla(graph: Any) -> bool:
    """Whether what is traced into a graph is meant for XLA, as far as the trace knows."""
    return _control_flow_util.GraphOrParentsInXlaContext(graph)


def is_in_control_flow(graph: Any) -> bool:
    """Whether a graph is in a branch of a tf.cond or in the body of a tf.while_loop, however deep."""
    while graph is not None and not is_control_flow(graph):
        graph = getattr(graph, "outer_graph", None)
    return graph is not None


def unwrapped(graph: Any) -> Any:
    """The graph that an op is meant for: TensorFlow makes a function of a loop that more than one tape sees."""
    return graph.outer_graph if getattr(graph, "name", "") == WRAPPER else graph


def is_cond_gradient(graph: Any) -> bool:
    """Whether a graph is the gradient of a branch of a tf.cond."""
    return isinstance(graph, _cond._CondGradFuncGraph)


def forward_graph_of(graph: Any) -> Any:
    """The graph of the branch or loop body whose gradient a graph is, if it is one."""
    return getattr(graph, "_forward_graph", None)


def newest_operation(graph: Any) -> int:
    """The number of the op that was made last in a graph."""
    return graph.version + _numbers_before_the_first()


@functools.cache
def _numbers_before_the_first() -> int:
    """TensorFlow numbers the source and the sink of a graph as well, and does not count them in its version."""
    with with_op_callbacks([]), tf.Graph().as_default() as graph:
        return operation_number(tf.constant(0.0).op) - graph.version


def pfor_converters() -> dict[str, Any]:
    """The converters of tf.vectorized_map by op type."""
    return _pfor._pfor_converter_registry


def pfor_value(loop: Any, body: Any, tensor: Any) -> tuple[Any, bool]:
    """A tensor of a loop body as tf.vectorized_map has batched it, and whether it has a batch axis."""
    if isinstance(tensor, EagerTensor) or tensor.graph is not body:
        return tensor, False
    wrapped = loop._convert_helper(tensor)
    return wrapped.t, wrapped.is_stacked


def call_with_captures(function: Any, arguments: list[Any], captures: list[Any]) -> Any:
    """Call a concrete function with other values for what it captured."""
    return function._call_flat(arguments, captured_inputs=captures)


def outside_of(tensor: Any) -> Any:
    """The tensor itself that graphs have captured, however far out."""
    while not isinstance(tensor, EagerTensor) and isinstance(tensor.graph, FuncGraph):
        captures = {id(inside): outside for outside, inside in tensor.graph.captures}
        if id(tensor) not in captures:
            break
        tensor = captures[id(tensor)]
    return tensor


def dtype_of_handle(handle: Any) -> Any:
    """The dtype of the variable behind a resource."""
    return tf.as_dtype(handle._handle_data.shape_and_type[0].dtype)


def set_input(operation: Any, index: int, tensor: Any) -> None:
    """Let an op of a graph read another tensor."""
    operation._update_input(index, tensor)


def types_in_function(name: str, wanted: frozenset[str]) -> list[str]:
    """Which of these op types a function runs, or one that it calls."""
    seen: set[str] = set()
    found: set[str] = set()
    left = [name]
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            body = _context.context().get_function_def(name)
        except tf.errors.NotFoundError:
            continue
        for node in body.node_def:
            found |= {node.op} & wanted
            left += [a.func.name for a in node.attr.values() if a.func.name]
    return sorted(found)
