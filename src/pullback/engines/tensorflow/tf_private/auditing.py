"""Private symbols that an audit needs: the gradient registry as a list, and the definitions of ops."""

# Private symbols are what this folder is for.
# pyright: reportPrivateUsage=false

from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_registry as _op_defs
from tensorflow.python.framework import ops as _ops

_FLOATING = frozenset({"float32", "float64", "float16", "bfloat16", "complex64", "complex128"})


def registered_ops() -> list[str]:
    """The types in the gradient registry, those registered as not differentiable too."""
    return list(_ops.gradient_registry.list())


def op_definition(name: str) -> Any:
    """Inputs, outputs and attributes of a type of op."""
    return _op_defs.get(name)


def has_numbers(name: str) -> bool:
    """Whether a type of op may take floating-point numbers and give some."""
    definition = op_definition(name)
    return definition is not None and all(
        any(is_floating(arg, definition) for arg in args)
        for args in (definition.input_arg, definition.output_arg)
    )


def is_floating(arg: Any, definition: Any) -> bool:
    """Whether an input or output of an op may hold floating-point numbers."""
    if arg.type:
        return tf.as_dtype(arg.type).name in _FLOATING
    named = arg.type_attr or arg.type_list_attr
    attr = next(a for a in definition.attr if a.name == named)
    allowed = [tf.as_dtype(t).name for t in attr.allowed_values.list.type]
    return not allowed or bool(_FLOATING.intersection(allowed))


def all_operations(graph: Any) -> list[Any]:
    """The operations of a traced function, those of the functions that it calls too."""
    inside = [f.graph for f in graph._functions.values() if hasattr(f, "graph")]
    return [op for one in (graph, *inside) for op in one.get_operations()]
