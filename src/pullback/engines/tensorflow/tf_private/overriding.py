"""Every private symbol of TensorFlow that overriding uses, each with the reason, and a canary."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import sys
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

# The public name of a Keras function, for messages.
from keras.src.api_export import get_name_from_symbol as keras_name

# A Keras model that is being built runs its layers once, symbolically, to learn their shapes.
from keras.src.backend.common.symbolic_scope import in_symbolic_scope as in_symbolic_scope

# Function definitions are copied and marked.
from tensorflow.core.framework import function_pb2

# A long-lived tf.function must not keep the traces of every rule it ever met.
from tensorflow.core.function.polymorphism.function_cache import FunctionCache as FunctionCache

# What watches a tensor, whether recording is stopped, and the forward-mode dispatcher.
from tensorflow.python import pywrap_tfe as _tfe

# Whether AutoGraph converts what runs here, how, and which functions it was told to leave alone.
from tensorflow.python.autograph.core import ag_ctx as autograph_context
from tensorflow.python.autograph.impl import api as autograph_api
from tensorflow.python.autograph.impl import conversion as autograph_conversion

# What TensorFlow hands its gradient functions in eager code.
from tensorflow.python.eager import backprop as backprop

# Ops that leave the fast path run and are recorded through functions of this module.
from tensorflow.python.eager import execute as execute

# Where tapes and forward mode run TensorFlow's own gradient functions.
from tensorflow.python.eager import forwardprop as forwardprop
from tensorflow.python.eager import imperative_grad as imperative_grad

# The thread's op callbacks, called with every op that runs or is created.
from tensorflow.python.eager.context import context as context

# Functions that have a graph but no Python source are copied when they are called.
from tensorflow.python.eager.polymorphic_function import concrete_function as concrete_function

# What makes a tf.function trace again: the key of its cache.
from tensorflow.python.eager.polymorphic_function import function_context as function_context

# A tf.function, of which an overridden twin is made.
from tensorflow.python.eager.polymorphic_function.polymorphic_function import (
    Function as PolymorphicFunction,
)

# The definitions of all ops, the gradient registry, graphs of functions, concrete tensors.
from tensorflow.python.framework import op_def_registry as op_def_registry
from tensorflow.python.framework import ops as ops

# Other people's custom gradients hide what runs in them.
from tensorflow.python.ops import custom_gradient as custom_gradient

# Where tf.gradients runs TensorFlow's own gradient functions.
from tensorflow.python.ops import gradients_util as gradients_util

# tf.py_function runs later, in another thread.
from tensorflow.python.ops import script_ops as script_ops

# tf.vectorized_map turns ops into other ops.
from tensorflow.python.ops.parallel_for import control_flow_ops as control_flow_ops

# Loading function definitions as functions, and recognising functions that were loaded.
from tensorflow.python.saved_model.function_deserialization import (
    RestoredFunction as RestoredFunction,
)
from tensorflow.python.saved_model.function_deserialization import (
    load_function_def_library as load_function_def_library,
)

# The public name of a TensorFlow function, for messages.
from tensorflow.python.util import tf_export as tf_export

from pullback.engines.tensorflow import tf_private as _private
from pullback.engines.tensorflow.tf_private import transposing as _transposing
from pullback.engines.tensorflow.versions import SUPPORTED


def is_layer_call(frame: Any) -> bool:
    """Whether a Keras layer is called in this frame."""
    return (
        frame.f_code.co_name == "__call__"
        and frame.f_globals.get("__name__") == "keras.src.layers.layer"
    )


def is_generated(filename: str) -> bool:
    """Whether AutoGraph wrote the file."""
    return "__autograph_generated_file" in filename


def forget_unconverted(function: Any) -> None:
    """Let AutoGraph decide anew whether to convert a function."""
    autograph_conversion._ALLOWLIST_CACHE._cache.pop(function, None)


def name_scope() -> str:
    """The name scope that is open, in eager code and in graphs."""
    return ops.get_name_scope()


def mock_operation(op_type: str, attrs: Any, inputs: Any, outputs: Any) -> Any:
    """What TensorFlow hands its gradient functions in eager code."""
    return backprop._MockOp(attrs, inputs, outputs, op_type, ())


ConcreteFunction = concrete_function.ConcreteFunction


class _Jvp:
    """TensorFlow keeps its forward-mode dispatcher in C++; assigning `dispatch` here replaces it there."""

    def __init__(self) -> None:
        self._now = forwardprop._jvp_dispatch

    @property
    def dispatch(self) -> Any:
        """The function that forward mode calls for each op."""
        return self._now

    @dispatch.setter
    def dispatch(self, function: Any) -> None:
        self._now = function
        _tfe.TFE_Py_RegisterJVPFunction(function)


Jvp = _Jvp()


def in_keras_symbolic_scope() -> bool:
    """Whether Keras only works out shapes here, in a graph that it throws away."""
    return in_symbolic_scope()


def exported_names(function: Any) -> list[str]:
    """The public names of a function of TensorFlow or Keras."""
    try:
        names = [f"tf.{name}" for name in tf_export.get_v2_names(function)]
        path = keras_name(function)
    except (TypeError, AttributeError):
        return []
    return names or ([path] if path else [])


def contexts_in(cache: Any) -> list[Any]:
    """The contexts in which a tf.function was traced, oldest first."""
    return list(dict.fromkeys(key[0] for key in cache._primary))


def drop_context(cache: Any, function_context: Any) -> None:
    """Forget all traces that a tf.function made in one context."""
    for key in [k for k in cache._primary if k[0] == function_context]:
        del cache._primary[key]
    cache._dispatch_dict.pop(function_context, None)


def recompute_role(function: Any) -> str | None:
    """Which of the two functions of tf.recompute_grad this is, if it is one."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_filename != custom_gradient.recompute_grad.__code__.co_filename:
        return None
    return {"inner": "forward", "inner_recompute_grad": "backward"}.get(code.co_name)


def takes_pfor_config(loop_function: Any) -> bool:
    """Whether a loop body of pfor asks for its configuration."""
    return control_flow_ops._loop_fn_has_config(loop_function)


def python_function_of(function: Any) -> Any:
    """The Python function behind a tf.function that can be traced anew; `None` for anything else."""
    if isinstance(function, PolymorphicFunction) and not isinstance(function, RestoredFunction):
        return function.python_function
    return None


def function_like(function: Any, python_function: Any) -> Any:
    """A tf.function with the same settings around another Python function."""
    return function._clone(python_function)


def converted(function: Any, *, body: bool = False) -> Any:
    """A callable as the user's own code would run it here: converted by AutoGraph where that is on.

    Our code is never converted, so each place in it that calls the user's goes through this. The body of a function
    with its own gradient is converted in every graph: that Keras switches AutoGraph off around `fit` is no reason to
    mean something else there. Not a lambda, whose source is often not to be found, and which holds no statements.
    """
    here, status = autograph_context.control_status_ctx(), autograph_context.Status
    written = inspect.isfunction(function) or inspect.ismethod(function)
    if body and written and function.__name__ != "<lambda>":
        here = autograph_context.ControlStatusCtx(status.ENABLED, here.options)
    if here.status is status.ENABLED or (body and here.status is status.UNSPECIFIED):
        # Not `tf_convert`, which rewrites the decorators of a tf.function in place.
        convert = autograph_api.convert(recursive=True, user_requested=False, conversion_ctx=here)
        return convert(function)
    return function


def in_batched_loop() -> bool:
    """Whether the body of a tf.vectorized_map is being traced here."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if (
            frame.f_code.co_name == "_pfor_impl"
            and frame.f_globals.get("__name__") == control_flow_ops.__name__
        ):
            return True
        frame = frame.f_back
    return False


def import_graph_def() -> Any:
    """The function behind `tf.graph_util.import_graph_def`."""
    return inspect.unwrap(tf.graph_util.import_graph_def)


def functions_called(operation: Any) -> list[Any]:
    """The definitions of the functions that an op of a graph runs."""
    library = dict(operation.graph._functions)
    names = _called_by_node(operation.node_def)
    return [d for d in (_definition(n, library) for n in sorted(names)) if d is not None]


def new_library() -> Any:
    """An empty library of function definitions."""
    return function_pb2.FunctionDefLibrary()


def load_library(library: Any) -> dict[str, Any]:
    """Concrete functions of all definitions, under new names."""
    # TensorFlow warns of gradients that were not saved; ours are registered in this process.
    logger = logging.getLogger("absl")
    logger.addFilter(_about_anything_else)
    try:
        return load_function_def_library(library)
    finally:
        logger.removeFilter(_about_anything_else)


def _about_anything_else(record: logging.LogRecord) -> bool:
    return "unsaved custom gradients" not in str(record.msg)


def concrete_from(graph: Any, like: Any) -> Any:
    """A concrete function of this graph with the signature and the captured inputs of another one."""
    made = ConcreteFunction.from_func_graph(graph, like.function_type, like._attrs)
    made._captured_inputs = like._captured_inputs
    graph.variables = like.graph.variables  # tapes watch these when the function is called
    made._arg_keywords = like._arg_keywords
    made._num_positional_args = like._num_positional_args
    return made


def reachable_definitions(function: Any) -> list[Any]:
    """The definition of a function and of all functions that it calls."""
    root = function.function_def
    found = {root.signature.name: root}
    todo = [root]
    library = {f.cached_definition.signature.name: f for f in _children(function)}
    while todo:
        for name in _called_by(todo.pop()):
            if name not in found:
                definition = _definition(name, library)
                if definition is not None:
                    found[name] = definition
                    todo.append(definition)
    return list(found.values())


def _children(function: Any) -> list[Any]:
    todo, found = list(function.graph._functions.values()), []
    while todo:
        each = todo.pop()
        found.append(each)
        todo += list(getattr(each, "children", None) or ())
    return found


def _definition(name: str, library: dict[str, Any]) -> Any:
    if name in library:
        return library[name].cached_definition
    return context().get_function_def(name) if context().has_function(name) else None


def _called_by(definition: Any) -> set[str]:
    return set().union(*(_called_by_node(node) for node in definition.node_def))


def _called_by_node(node: Any) -> set[str]:
    names = {node.op}
    for value in node.attr.values():
        kind = value.WhichOneof("value")
        if kind == "func":
            names.add(value.func.name)
        elif kind == "list":
            names |= {f.name for f in value.list.func}
    return {n for n in names if op_def_registry.get(n) is None}


@contextlib.contextmanager
def capturing_from_copy(original: Any, copy: Any) -> Iterator[None]:
    """While a gradient is built here, tensors of the original graph mean those of the copy with the same names."""

    def of_copy(tensor: Any) -> Any:
        if getattr(tensor, "graph", None) is original and not isinstance(
            tensor, _private.EagerTensor
        ):
            return copy.get_tensor_by_name(tensor.name)
        return tensor

    with _private.capturing(ops.get_default_graph(), of_copy):
        yield


@functools.cache
def check_override() -> None:
    """Prove that the private parts still do what overriding builds on."""
    seen: list[str] = []

    def callback(op_type: Any, _: Any, __: Any, outputs: Any, *___: Any, **____: Any) -> Any:
        seen.append(op_type if isinstance(op_type, str) else op_type.decode())
        if isinstance(outputs, list):
            outputs[0] = outputs[0]._copy_nograd()
        return outputs

    with tf.init_scope():
        x = tf.constant([1.0, -1.0])
        before = _private.op_callbacks()
        _private.set_op_callbacks([*before, callback])
        try:
            y = tf.nn.relu(x)
        finally:
            _private.set_op_callbacks(before)
    kept = callable(backprop.record_gradient) and execute.record_gradient is not None
    kept = kept and not _transposing.changed()
    if "Relu" not in seen or y.numpy().tolist() != [1.0, 0.0] or not kept:
        from pullback.errors import EngineError

        raise EngineError(
            f"overriding gradients relies on parts of TensorFlow that {tf.__version__} does not have; "
            f"it works with TensorFlow {SUPPORTED}."
        )
