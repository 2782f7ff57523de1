"""Private symbols of TensorFlow by which a loop is differentiated as one operation, each with the reason.

A loop is made again in a graph of its own (`create_op`), for differentiating one adds results to it. Its functions are
read from their definitions (`get_func_graph`), which do not say what handles and lists hold: that is copied.
"""
# Private symbols are what this folder is for.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import atomic_function as _atomic
from tensorflow.python.framework import ops as _ops
from tensorflow.python.ops import control_flow_util_v2 as _control_flow
from tensorflow.python.ops import handle_data_util as _handle_data

from pullback.engines.tensorflow.tf_private import explaining

_GRAPHS = (("cond", "_cond_graph"), ("body", "_body_graph"))


def made_again(operation: Any, inputs: Sequence[Any]) -> Any:
    """A loop in the current graph, on other tensors."""
    graph: Any = tf.compat.v1.get_default_graph()
    types = [t.dtype for t in operation.outputs]
    made = graph._create_op_internal(
        operation.type, list(inputs), types, attrs=dict(operation.node_def.attr)
    )
    shapes = [tf.TensorShape(s) for s in made.get_attr("output_shapes")]
    for attribute, attached in _GRAPHS:
        inner = _control_flow.get_func_graph(made, shapes, made.get_attr(attribute).name)
        for given, tensor in zip(inputs, inner.inputs, strict=True):
            _handle_data.copy_handle_data(given, tensor)
        setattr(made, attached, inner)
    for given, tensor in zip(operation.outputs, made.outputs, strict=True):
        _handle_data.copy_handle_data(given, tensor)
    return made


def placeholder_like(tensor: Any) -> Any:
    """An input of the current graph that holds what a tensor of another one holds."""
    made = explaining.new_placeholder(tensor.dtype, tensor.shape)
    _handle_data.copy_handle_data(tensor, made)
    return made


def function_of(graph: Any) -> Callable[..., Sequence[Any]]:
    """A graph as a function that no tape sees."""
    return _atomic.from_func_graph(f"__{graph.name}_{_ops.uid()}", graph, {}).call_flat
