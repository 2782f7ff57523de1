"""Private parts of TensorFlow's saving that the engine uses, each with the reason."""
# Private symbols are what this folder is for.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Traces the gradients of ops that have one of their own, and ends in TypeErrors where that cannot be.
from tensorflow.python.saved_model import save as save
from tensorflow.python.saved_model import save_context as _save_context

# Whether what is traced here is traced for a file, while it is written.
being_saved = _save_context.in_save_context


def custom_gradients(graph: Any) -> Iterator[tuple[str, Any]]:
    """The ops with a gradient of their own in the functions of a graph, and the names of these gradients."""
    for function in list(graph._functions.values()):
        for name, operation in save._iterate_op_types(function):
            yield name.decode(), operation


def graphs_in(graph: Any) -> Iterator[Any]:
    """The graphs of the functions of a graph."""
    for function in list(graph._functions.values()):
        if getattr(function, "graph", None) is not None:
            yield function.graph
