"""Private parts of Keras' models and layers that the engine uses, each with the reason."""
# Private symbols are what this folder is for.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import Any

from keras.src.utils import python_utils as _python_utils

# Marks a `build` that Keras takes for its own, so that it finds out the shapes through `call`.
default_method = _python_utils.default


def compile_settings(model: Any) -> dict[str, Any]:
    """The arguments a model was compiled with, as objects; the public way serialises them."""
    return dict(model._compile_config.config)


def input_structure(model: Any) -> Any:
    """The inputs of a functional model in the structure it is called with; in public they are a flat list."""
    inputs = model.inputs
    return getattr(model, "_inputs_struct", inputs[0] if len(inputs) == 1 else inputs)


def layers_inside(layer: Any) -> list[Any]:
    """A layer or model and all layers inside it; public are the direct ones of a model only."""
    flatten = getattr(layer, "_flatten_layers", None)
    return [layer] if flatten is None else list(flatten())
