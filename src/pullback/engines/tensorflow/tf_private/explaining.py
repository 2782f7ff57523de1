"""Private symbols of TensorFlow that explaining a gradient uses, each with the reason.

A run is seen op by op, so graphs are executed an op at a time (`execute`), functions are called through what would call
them (`AtomicFunction`, `ConcreteFunction`), and the backward pass is run by the same functions that a tape runs
(`backprop`). `script_ops` keeps the tape of a tf.py_function for one gradient only; two are taken here.
"""
# Private symbols are what this folder is for, and TensorFlow makes its context only when it is first asked for.
# pyright: reportPrivateUsage=false, reportOptionalMemberAccess=false

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import backprop as _backprop
from tensorflow.python.eager import context as _context
from tensorflow.python.eager import execute as _execute
from tensorflow.python.eager import record as _record
from tensorflow.python.framework import func_graph as _func_graph
from tensorflow.python.framework import function_def_to_graph as _to_graph
from tensorflow.python.framework import op_def_registry as _op_defs
from tensorflow.python.ops import gen_resource_variable_ops as _variable_ops
from tensorflow.python.saved_model import function_deserialization as _loading

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
    for graph in _graphs_around(operation.graph):
        if function := graph._functions.get(name):
            return getattr(function, "graph", None) or _of_definition(function, graph)
    return _rebuilt(name)


def _graphs_around(graph: Any) -> Iterator[Any]:
    while isinstance(graph, _func_graph.FuncGraph):
        yield graph
        graph = graph.outer_graph


def _of_definition(function: Any, graph: Any) -> Any:
    """The graph of what a graph that was made from a definition calls, itself known by its definition only."""
    with graph.as_default():
        return _to_graph.function_def_to_graph(function.cached_definition)


@functools.lru_cache(maxsize=256)
def _rebuilt(name: str) -> Any:
    definition = _context.context().get_function_def(name)
    with tf.Graph().as_default():
        return _to_graph.function_def_to_graph(definition)


def name_of_loaded(function: Any) -> str:
    """The name that a function out of a file had; empty for any other."""
    if not isinstance(function, _loading.RestoredFunction) or not function.concrete_functions:
        return ""
    return tf.compat.as_str(function.concrete_functions[0].name)


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
    if _op_defs.get(name) is not None:
        return False
    return any(name in one._functions for one in _graphs_around(graph))


def new_graph_inside(graph: Any, name: str) -> Any:
    """A graph whose outer graph is a given one."""
    with graph.as_default():
        return _func_graph.FuncGraph(name)


def new_placeholder(dtype: Any, shape: Any) -> Any:
    """An input of the current graph."""
    return tf.compat.v1.placeholder(dtype, shape)
