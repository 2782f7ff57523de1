"""Private parts of TensorFlow's and Keras' saving that the engine uses, each with the reason."""
# Private symbols are what this folder is for.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import keras

# Nothing public says whether Keras' safe mode is on, or whether Keras is writing a file.
from keras.src.backend.common import global_state as _global_state
from keras.src.saving import serialization_lib as _serialization

# Traces the gradients of ops that have one of their own, and ends in TypeErrors where that cannot be.
from tensorflow.python.saved_model import save as save
from tensorflow.python.saved_model import save_context as _save_context

# Whether what is traced here is traced for a file, while it is written.
being_saved = _save_context.in_save_context


# Keras' own way to say whether files are trusted, and that it writes one.
SafeModeScope = _serialization.SafeModeScope
ObjectSharingScope = _serialization.ObjectSharingScope


def is_trusted() -> bool:
    """Whether the user trusts the file that Keras reads; where Keras says nothing, nobody has said so."""
    return _serialization.in_safe_mode() is False


def is_writing() -> bool:
    """Whether Keras writes a file, rather than a configuration to make a copy from, or a pickle, which is trusted."""
    is_written = _global_state.get_global_attribute("shared_objects/id_to_config_map") is not None
    return is_written and not _is_pickling()


def _is_pickling() -> bool:
    code = getattr(keras.Model.__reduce__, "__code__", None)
    frame: Any = sys._getframe()
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


def custom_gradients(graph: Any) -> Iterator[tuple[str, Any]]:
    """The ops with a gradient of their own in the functions of a graph, and the names of these gradients."""
    for function in list(graph._functions.values()):
        for name, operation in save._iterate_op_types(function):
            yield name.decode(), operation


def is_for_inference() -> bool:
    """Whether TensorFlow Lite is converting a model, which it writes to a file first: any error there is swallowed."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if (frame.f_globals.get("__name__") or "").startswith("tensorflow.lite."):
            return True
        frame = frame.f_back
    return False


def graphs_in(graph: Any) -> Iterator[Any]:
    """The graphs of the functions of a graph."""
    for function in list(graph._functions.values()):
        if getattr(function, "graph", None) is not None:
            yield function.graph
