"""Every private part of Keras' models and layers that the engine uses, each with the reason."""

from __future__ import annotations

from typing import Any

# Marks a `build` that Keras takes for its own, so that it finds out the shapes through `call`.
from keras.src.utils.python_utils import default as default_method

__all__ = ["compile_settings", "default_method", "input_structure"]


def compile_settings(model: Any) -> dict[str, Any]:
    """The arguments a model was compiled with, as objects; the public way serialises them."""
    return dict(model._compile_config.config)


def input_structure(model: Any) -> Any:
    """The inputs of a functional model in the structure it is called with; in public they are a flat list."""
    inputs = model.inputs
    return getattr(model, "_inputs_struct", inputs[0] if len(inputs) == 1 else inputs)
