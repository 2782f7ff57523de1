"""Every private symbol of TensorFlow that the engine uses, each with the reason, and a canary.

Nothing else in pullback imports from `tensorflow.python`.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

# How an object is traced that is an argument of a tf.function: as itself, without being kept alive.
from tensorflow.core.function.trace_type.default_types import Weakref as Weakref

# Recording an operation with a gradient of our own on every tape and accumulator, without running it twice.
from tensorflow.python import pywrap_tfe as _tfe

# Which modules AutoGraph leaves as they are: ours, whose functions it would else convert one by one.
from tensorflow.python.autograph.core import config as _autograph_config
from tensorflow.python.autograph.impl import conversion as _conversion

# Which line of the user a generated line stands for: messages name the user's.
from tensorflow.python.autograph.impl.api import _TRANSPILER
from tensorflow.python.eager import context as _context
from tensorflow.python.eager.context import executing_eagerly as executing_eagerly
from tensorflow.python.eager.forwardprop_util import (
    push_forwardprop_state as push_forwardprop_state,
)
from tensorflow.python.eager.record import VariableWatcher as VariableWatcher
from tensorflow.python.eager.record import could_possibly_record as could_possibly_record
from tensorflow.python.eager.record import record_operation as record_operation
from tensorflow.python.eager.record import stop_recording as stop_recording
from tensorflow.python.framework.func_graph import FuncGraph as FuncGraph

# The class of concrete tensors: a type test is the fastest way to tell them from symbolic ones.
from tensorflow.python.framework.ops import EagerTensor as EagerTensor

# The gradient of an op in a graph is found by name in this registry; we take our entries out again.
from tensorflow.python.framework.ops import gradient_registry as gradient_registry

# The graphs of branches and loop bodies, whose gradients TensorFlow builds in a way of its own.
from tensorflow.python.ops.cond_v2 import _CondGradFuncGraph as _BranchGradient
from tensorflow.python.ops.control_flow_v2_func_graphs import CondBranchFuncGraph as _Branch
from tensorflow.python.ops.control_flow_v2_func_graphs import WhileBodyFuncGraph as _LoopBody

# Which axes were broadcast, at run time.
from tensorflow.python.ops.gen_array_ops import broadcast_gradient_args as broadcast_gradient_args

# tf.gradients across graphs (a function's backward pass is built in another graph than its forward pass).
from tensorflow.python.ops.gradients_util import _GradientsHelper as _gradients_helper

# tf.vectorized_map turns IdentityN into a plain identity and so drops its gradient; we put in our converter.
from tensorflow.python.ops.parallel_for import pfor as pfor
from tensorflow.python.ops.resource_variable_ops import variable_accessed as variable_accessed

from pullback.engines.tensorflow.tf_private import transposing

_GENERATED = "__autograph_generated_file"
gradients_across = _gradients_helper

recording_is_stopped = _tfe.TFE_Py_TapeSetIsStopped
# 0: nothing watches the tensors; 1: one tape or accumulator; 2: more, so a second derivative may be asked for.
possible_gradient_types = _tfe.TFE_Py_TapeSetPossibleGradientTypes


def leave_unconverted(package: str) -> None:
    """Let AutoGraph call the functions of a package as they are; what they call is still the caller's to convert."""
    rule = _autograph_config.DoNotConvert(package)
    _autograph_config.CONVERSION_RULES = (rule, *_autograph_config.CONVERSION_RULES)


def origin_of_line(file: str, line: int) -> tuple[str, int]:
    """Where the user wrote a line that AutoGraph has generated; any other line as it is."""
    if _GENERATED not in file:
        return file, line
    factories = [f for found in _TRANSPILER._cache._cache.values() for f in found.values()]
    # A decorated function begins at a line that the map leaves out.
    for key in ((file, line + further) for further in range(4)):
        for factory in factories:
            if key in factory.source_map:
                place = factory.source_map[key].loc
                return origin_of_line(place.filename, place.lineno)
    return file, line


def detached(tensor: Any) -> Any:
    """Another handle on the same buffer, unknown to all tapes: a fifth of the cost of an identity op."""
    return tensor._copy_to_device(tensor.device)


def op_callbacks() -> list[Any]:
    """The functions that see every op of this thread."""
    return _context.context().op_callbacks


def set_op_callbacks(callbacks: list[Any]) -> None:
    """Replace them; the public way would slow down every thread for as long as the process lives."""
    _context.context()._thread_local_data.op_callbacks = callbacks


def next_number() -> int:
    """A number above those of all concrete tensors so far."""
    return _tfe.TFE_Py_UID()


def number_of(tensor: Any) -> int:
    """The number of a concrete tensor, in the order of their making."""
    return tensor._id


# The dtype of a concrete tensor as TensorFlow's number for it, without making a DType.
data_type = EagerTensor._datatype_enum
# The shape of a concrete tensor, without making a TensorShape.
concrete_shape = EagerTensor._shape_tuple


def value_of(variable: Any) -> Any:
    """The TensorFlow variable inside a Keras one, also while Keras shows another in its place."""
    return getattr(variable, "_value", variable)


def traced_operations(function: Any, args: Any) -> list[Any]:
    """The ops of the graph into which a call is traced."""
    return (
        tf.function(function, autograph=False).get_concrete_function(*args).graph.get_operations()
    )


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
    attribute = tf.compat.v1.AttrValue(s=name.encode())
    operation._set_attr("_gradient_op_type", attribute)


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


@contextlib.contextmanager
def global_seed_kept() -> Iterator[None]:
    """Give back what tf.random.set_seed replaces: it can be set in public, but not read."""
    held = _context.context()
    before = {name: vars(held)[name] for name in ("_seed", "_rng") if name in vars(held)}
    try:
        yield
    finally:
        vars(held).update(before)


def registered_gradient(name: str) -> Any:
    """The gradient function of an op type, or of a name; `None` where there is none."""
    found = gradient_registry._registry.get(name)
    return None if found is None else found["type"]


@contextlib.contextmanager
def capturing(graph: Any, translate: Callable[[Any], Any]) -> Iterator[None]:
    """While this is open, the graph captures in place of a tensor from outside what it is translated to."""
    capture = graph.capture
    nested = not inspect.ismethod(capture)  # replaced already, further out

    def capture_translated(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        tensor = translate(tensor)
        if not isinstance(tensor, EagerTensor) and tensor.graph is graph:
            return tensor
        return capture(tensor, *args, **kwargs)

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
    return isinstance(graph, (_Branch, _LoopBody))


def is_cond_gradient(graph: Any) -> bool:
    """Whether a graph is the gradient of a branch of a tf.cond."""
    return isinstance(graph, _BranchGradient)


def forward_graph_of(graph: Any) -> Any:
    """The graph of the branch or loop body whose gradient a graph is, if it is one."""
    return getattr(graph, "_forward_graph", None)


def operation_number(operation: Any) -> int:
    """The rank of an op in the order of creation in its graph."""
    return operation._id


def newest_operation(graph: Any) -> int:
    """The number of the op that was made last in a graph."""
    return graph.version + _numbers_before_the_first()


@functools.cache
def _numbers_before_the_first() -> int:
    """TensorFlow numbers the source and the sink of a graph as well, and does not count them in its version."""
    with tf.Graph().as_default() as graph:
        return operation_number(tf.constant(0.0).op) - graph.version


def pfor_converters() -> dict[str, Any]:
    """The converters of tf.vectorized_map by op type."""
    return pfor._pfor_converter_registry


def pfor_value(loop: Any, body: Any, tensor: Any) -> tuple[Any, bool]:
    """A tensor of a loop body as tf.vectorized_map has batched it, and whether it has a batch axis."""
    if isinstance(tensor, EagerTensor) or tensor.graph is not body:
        return tensor, False
    wrapped = loop._convert_helper(tensor)
    return wrapped.t, wrapped.is_stacked


def pfor_wrap(tensor: Any, stacked: bool) -> Any:
    """A batched tensor as tf.vectorized_map passes it on."""
    return pfor.wrap(tensor, stacked)


def call_with_captures(function: Any, arguments: list[Any], captures: list[Any]) -> Any:
    """Call a concrete function with other values for what it captured."""
    return function._call_flat(arguments, captured_inputs=captures)


def canary() -> None:
    """Prove in a few operations that the private parts still do what the engine builds on."""
    # A thread of its own has neither the caller's tapes nor the graph that the caller may be building.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        thread.submit(_sing).result()


def _sing() -> None:
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        seen = possible_gradient_types([x])
        y = detached(x)
        record_operation("canary", [y], [x], _canary_pullback, None)
    gradient = tape.gradient(y, x)
    found = (seen, gradient.numpy().tolist(), concrete_shape(x), data_type(x))
    wanted = (1, [7.0, 7.0], (2,), tf.float32.as_datatype_enum)
    if found != wanted:
        raise AttributeError(f"recording gave {found}, wanted {wanted}")
    if not _conversion.is_allowlisted(canary):
        raise AttributeError("AutoGraph converts pullback's own code")
    if transposing.changed():
        raise AttributeError(f"forward mode lacks {', '.join(transposing.changed())}")


def _canary_pullback(upstream: Any) -> list[Any]:
    return [7.0 * upstream]
