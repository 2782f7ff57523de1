"""Private symbols of TensorFlow and Keras that overriding uses, each with the reason.

Functions of these modules are replaced while an override is open. `execute` runs and records the ops that leave the
fast path. `imperative_grad` and `gradients_util` run gradient functions, for tapes and for tf.gradients. Other people's
`custom_gradient` hides what runs in it. `script_ops` runs a tf.py_function later, in another thread. `control_flow_ops`
turns ops into others, for tf.vectorized_map. `function_context` makes the key under which a tf.function keeps a trace.
"""
# Private symbols are what this folder is for, and TensorFlow makes its context only when it is first asked for.
# pyright: reportPrivateUsage=false, reportOptionalMemberAccess=false

from __future__ import annotations

import contextlib
import inspect
import logging
import sys
from collections.abc import Generator, Iterable
from typing import Any

import tensorflow as tf
from keras.src import api_export as _keras_api
from keras.src.backend.common import symbolic_scope as _symbolic_scope
from tensorflow.core.framework import function_pb2 as _function_pb2
from tensorflow.core.function.polymorphism import function_cache as _function_cache
from tensorflow.python import pywrap_tfe as _tfe
from tensorflow.python.autograph.core import ag_ctx as autograph_context
from tensorflow.python.autograph.impl import api as autograph_api
from tensorflow.python.autograph.impl import conversion as _conversion
from tensorflow.python.data.ops import structured_function as _structured_function
from tensorflow.python.eager import backprop as _backprop
from tensorflow.python.eager import execute as execute
from tensorflow.python.eager import forwardprop as _forwardprop
from tensorflow.python.eager import imperative_grad as imperative_grad
from tensorflow.python.eager.context import context as context
from tensorflow.python.eager.polymorphic_function import concrete_function as _concrete_function
from tensorflow.python.eager.polymorphic_function import function_context as function_context
from tensorflow.python.eager.polymorphic_function import polymorphic_function as _function
from tensorflow.python.eager.polymorphic_function import tf_method_target as _method_target
from tensorflow.python.framework import op_def_registry as op_def_registry
from tensorflow.python.framework import ops as ops
from tensorflow.python.ops import custom_gradient as custom_gradient
from tensorflow.python.ops import gradients_util as gradients_util
from tensorflow.python.ops import resource_variable_ops as _variable_ops
from tensorflow.python.ops import script_ops as script_ops
from tensorflow.python.ops.parallel_for import control_flow_ops as control_flow_ops
from tensorflow.python.saved_model import function_deserialization as _loading
from tensorflow.python.util import tf_export as _tf_export

from pullback.engines.tensorflow import tf_private as _private
from pullback.engines.tensorflow.tf_private import canary as _canary

_BRANCHES = frozenset(["If", "StatelessIf", "Case", "StatelessCase"])
check_override = _canary.require
# A long-lived tf.function must not keep the traces of every rule it ever met.
FunctionCache = _function_cache.FunctionCache
# Functions that have a graph but no Python source are copied when they are called.
ConcreteFunction = _concrete_function.ConcreteFunction
# What a tf.function is: one that hands out a concrete function in a block must not hand out the override.
Function = _function.Function
# A function of a tf.data pipeline, which runs by itself and whenever the pipeline does.
DataFunction = _structured_function.StructuredFunctionWrapper
# Whether Keras only works out the shapes of a model here, in a graph that it throws away.
in_keras_symbolic_scope = _symbolic_scope.in_symbolic_scope
# The name scope that is open, in eager code and in graphs.
name_scope = ops.get_name_scope
# Whether a loop body of pfor asks for its configuration.
takes_pfor_config = control_flow_ops._loop_fn_has_config
# An empty library of function definitions: these are copied and marked.
new_library: Any = vars(_function_pb2)["FunctionDefLibrary"]


def layer_called(frame: Any) -> Any:
    """The Keras layer that is called in this frame, if one is; what stands for Keras' function has other locals."""
    name, module = frame.f_code.co_name, frame.f_globals.get("__name__")
    if name != "__call__" or module != "keras.src.layers.layer":
        return None
    known = frame.f_locals
    return known["self"] if "self" in known else known["args"][0]


# Where TensorFlow, and this engine, trace, run and differentiate programs, and call functions of TensorFlow to do so.
# The calls of other modules, which compute, are part of what the user wanted computed.
_MACHINERY = (
    "pullback.engines.",
    *(
        f"tensorflow.python.{name}"
        for name in (
            *(
                "framework.",
                "eager.",
                "autograph.operators.",
                "autograph.lang.",
                "distribute.",
                "data.",
            ),
            *("saved_model.", "checkpoint.", "trackable.", "training.", "module.", "compiler."),
            *(
                "ops.cond",
                "ops.while_",
                "ops.switch_case",
                "ops.control_flow_",
                "ops.functional_ops",
            ),
            *("ops.map_fn", "ops.tensor_array_ops", "ops.list_ops", "ops.resource_variable_ops"),
            *("ops.variable", "ops.state_ops", "ops.custom_gradient", "ops.gradients_"),
            *("ops.script_ops", "ops.handle_data_util", "ops.parallel_for."),
        )
    ),
)
# What is wrapped around exported functions.
_WRAPPERS = ("tensorflow.python.util.", "tensorflow.python.ops.weak_tensor_ops")


def is_called_by_machinery(names: frozenset[str], trampoline: Any) -> bool:
    """Whether TensorFlow calls a patched function by one of its names, to trace or run a program."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code is not trampoline:
        frame = frame.f_back
    return frame is not None and is_call_of_machinery(names, frame)


def is_call_of_machinery(names: frozenset[str], frame: Any) -> bool:
    """Whether the call in a frame is one that TensorFlow makes for itself, by name: nobody handed the function over."""
    frame = frame.f_back
    while frame is not None and _module_of(frame).startswith(_WRAPPERS):
        frame = frame.f_back
    return (
        frame is not None
        and _module_of(frame).startswith(_MACHINERY)
        and not names.isdisjoint(frame.f_code.co_names)
    )


def _module_of(frame: Any) -> str:
    return frame.f_globals.get("__name__") or ""


def forget_unconverted(function: Any) -> None:
    """Let AutoGraph decide again whether to convert a function."""
    _conversion._ALLOWLIST_CACHE._cache.pop(function, None)


def mock_operation(op_type: str, attrs: Any, inputs: Any, outputs: Any) -> Any:
    """What TensorFlow hands its gradient functions in eager code."""
    return _backprop._MockOp(attrs, inputs, outputs, op_type, ())


class _Jvp:
    """TensorFlow keeps its forward-mode dispatcher in C++; assigning `dispatch` here replaces it there."""

    dispatch = staticmethod(_forwardprop._jvp_dispatch)

    def __setattr__(self, name: str, function: Any) -> None:
        super().__setattr__(name, function)
        _tfe.TFE_Py_RegisterJVPFunction(function)


Jvp = _Jvp()


def exported_names(function: Any) -> list[str]:
    """The public names of a function of TensorFlow or Keras."""
    try:
        names = [f"tf.{name}" for name in _tf_export.get_v2_names(function)]
        path = _keras_api.get_name_from_symbol(function)
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
    if code is None or code.co_filename != custom_gradient.__file__:
        return None
    return {"inner": "forward", "inner_recompute_grad": "backward"}.get(code.co_name)


def python_function_of(function: Any) -> Any:
    """The Python function behind a tf.function that can be traced again; `None` for anything else."""
    restored = isinstance(function, _loading.RestoredFunction)
    traced = isinstance(function, _function.Function) and not restored
    return function.python_function if traced else None


def has_lost_its_object(function: Any) -> bool:
    """Whether a tf.function is a method of an object that is gone; TensorFlow does not keep it alive."""
    target = getattr(inspect.unwrap(function.python_function), "__self__", None)
    return isinstance(target, _method_target.TfMethodTarget) and target.target is None


def function_like(function: Any, python_function: Any) -> Any:
    """A tf.function with the same settings around another Python function."""
    return function._clone(python_function)


def converted(function: Any, *, body: bool = False) -> Any:
    """A callable as the user's own code would run it here: converted by AutoGraph where that is on.

    Our code is never converted, so each place in it that calls the user's goes through this. The body of a function
    with its own gradient is converted in every graph: that Keras switches AutoGraph off around `fit` is no reason to
    mean something else there. Not a lambda, whose source is often not to be found, and which holds no statements.
    """
    if (getattr(function, "__module__", None) or "").startswith("tensorflow."):
        return function  # AutoGraph leaves TensorFlow's own code as it is
    status = autograph_context.Status
    here: Any = autograph_context.control_status_ctx()
    written = inspect.isfunction(function) or inspect.ismethod(function)
    if body and written and function.__name__ != "<lambda>":
        here = autograph_context.ControlStatusCtx(status.ENABLED, here.options)
    if here.status is status.ENABLED or (body and here.status is status.UNSPECIFIED):
        # Not `tf_convert`, which rewrites the decorators of a tf.function in place.
        convert = autograph_api.convert(recursive=True, user_requested=False, conversion_ctx=here)
        return convert(function)
    return function


def codes_that_call_f() -> frozenset[Any]:
    """Code that is given a function of the user's as `f`, and calls it or a copy: AutoGraph's and custom gradients'."""
    eager, graph = custom_gradient._eager_mode_decorator, custom_gradient._graph_mode_decorator
    functions = map(inspect.unwrap, (autograph_api.converted_call, eager, graph))
    return frozenset(function.__code__ for function in functions)


def in_batched_loop() -> bool:
    """Whether the body of a tf.vectorized_map is being traced here."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__")
        if frame.f_code.co_name == "_pfor_impl" and module == control_flow_ops.__name__:
            return True
        frame = frame.f_back
    return False


def import_graph_def() -> Any:
    """The function behind `tf.graph_util.import_graph_def`."""
    return inspect.unwrap(tf.graph_util.import_graph_def)


def wrap_function() -> Any:
    """The function behind `tf.compat.v1.wrap_function`."""
    return inspect.unwrap(tf.compat.v1.wrap_function)


def load_library(library: Any) -> dict[str, Any]:
    """Concrete functions of all definitions, under new names."""
    # TensorFlow warns of gradients that were not saved; ours are registered in this process.
    logger = logging.getLogger("absl")
    logger.addFilter(_is_not_about_gradients)
    try:
        return _loading.load_function_def_library(library)
    finally:
        logger.removeFilter(_is_not_about_gradients)


def _is_not_about_gradients(record: logging.LogRecord) -> bool:
    return "unsaved custom gradients" not in str(record.msg)


def concrete_from(graph: Any, like: Any) -> Any:
    """A concrete function of this graph with the signature and the captured inputs of another one."""
    made = ConcreteFunction.from_func_graph(graph, like.function_type, like._attrs)
    made._captured_inputs = like._captured_inputs
    graph.variables = like.graph.variables  # tapes watch these when the function is called
    made._arg_keywords = like._arg_keywords
    made._num_positional_args = like._num_positional_args
    return made


def functions_called(operation: Any) -> list[Any]:
    """The definitions of the functions that an op of a graph runs."""
    return _definitions(_names_called(operation.node_def), operation.graph._functions)


def data_types_of(node: Any) -> tuple[list[int], list[int]]:
    """The dtypes of the inputs and of the outputs of a node without its graph, as TensorFlow's numbers for them."""
    definition = op_def_registry.get(node.op)
    defaults = {a.name: a.default_value for a in definition.attr}

    def of(argument: Any) -> list[int]:
        name = argument.type_attr or argument.type_list_attr
        if not name:
            return [argument.type]
        value = node.attr[name] if name in node.attr else defaults[name]
        return [value.type] if argument.type_attr else list(value.list.type)

    inputs, outputs = definition.input_arg, definition.output_arg
    return [t for a in inputs for t in of(a)], [t for a in outputs for t in of(a)]


def reachable_definitions(function: Any) -> list[Any]:
    """The definition of a function and of all functions that it calls."""
    library = {f.cached_definition.signature.name: f for f in _children(function)}
    found: dict[str, Any] = {}
    todo = [function.function_def]
    while todo:
        definition = todo.pop()
        found[definition.signature.name] = definition
        names = set[str]().union(*map(_names_called, definition.node_def))
        todo += _definitions(names - found.keys(), library)
    return list(found.values())


def graphs_by_name(function: Any) -> dict[str, Any]:
    """The graphs of the functions that a function calls, and its own under an empty name."""
    called = {f.cached_definition.signature.name: f.graph for f in _children(function)}
    return {**called, "": function.graph}


def describe_resources(library: Any, function: Any) -> None:
    """Write what the variables hold that a function was given into its definition and those it calls.

    TensorFlow leaves it out of definitions, and gives no gradient of a variable in a loop or branch without it.
    """
    definitions = {definition.signature.name: definition for definition in library.function}
    known = [_handle_data(tensor) for tensor in function.graph.inputs]
    todo = [(function.function_def.signature.name, known)]
    while todo:
        name, known = todo.pop()
        definition = definitions[name]
        by_name: dict[str, Any] = {}
        for argument, data in zip(definition.signature.input_arg, known, strict=True):
            if data is not None and data.is_set and not argument.handle_data:
                held = data.shape_and_type[0]
                argument.handle_data.add(dtype=held.dtype, shape=held.shape)
            by_name[argument.name] = data
        for node in definition.node_def:
            callees = sorted(_names_called(node) & definitions.keys())
            given = [by_name.get(tensor) for tensor in node.input if not tensor.startswith("^")]
            # the first input of a branch is what decides which one it is
            given = given[1:] if node.op in _BRANCHES else given
            todo += [(callee, given) for callee in callees if any(d is not None for d in given)]


def _handle_data(tensor: Any) -> Any:
    """What the variable holds that a tensor is the handle of; `None` for any other tensor."""
    if tensor.dtype != tf.resource:
        return None
    return _variable_ops.get_eager_safe_handle_data(tensor)


def _children(function: Any) -> list[Any]:
    todo, found = list(function.graph._functions.values()), []
    while todo:
        each = todo.pop()
        found.append(each)
        todo += list(getattr(each, "children", None) or ())
    return found


def _definitions(names: Iterable[str], library: Any) -> list[Any]:
    """The definitions that a library or TensorFlow's context has under these names."""
    here = context()
    found = {n: library[n].cached_definition for n in names if n in library}
    elsewhere = [n for n in names if n not in library and here.has_function(n)]
    found |= {n: here.get_function_def(n) for n in elsewhere}
    return [found[name] for name in sorted(found)]


def _names_called(node: Any) -> set[str]:
    names = {node.op}
    for value in node.attr.values():
        kind = value.WhichOneof("value")
        if kind == "func":
            names.add(value.func.name)
        elif kind == "list":
            names |= {f.name for f in value.list.func}
    return {n for n in names if op_def_registry.get(n) is None}


@contextlib.contextmanager
def capturing_from_copy(original: Any, copy: Any) -> Generator[None]:
    """While a gradient is built here, tensors of the original graph mean those of the copy with the same names."""

    def of_copy(tensor: Any) -> Any:
        symbolic = not isinstance(tensor, _private.EagerTensor)
        if symbolic and getattr(tensor, "graph", None) is original:
            return copy.get_tensor_by_name(tensor.name)
        return tensor

    with _private.capturing(ops.get_default_graph(), of_copy):
        yield
