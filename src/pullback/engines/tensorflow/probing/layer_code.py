"""A layer as code: lines that make it again, with its weights; or a line that says what it is."""

import ast
import sys
from typing import Any

import keras
import numpy as np


def making(fn: Any, most: int) -> tuple[str, str] | None:
    """A name for a layer, and the lines that make it; nothing for what is no layer."""
    if not isinstance(fn, keras.Layer):
        return None
    name = fn.name if fn.name.isidentifier() else "layer"
    kind = type(fn).__name__
    try:
        return name, _lines(fn, name, most)
    except Exception:  # of the layer's own code: what cannot be made again is named
        return name, f"# {name}: the {kind} of this check, made as you make it, with its weights"


def _lines(layer: Any, name: str, most: int) -> str:
    kind, config, built = type(layer), layer.get_config(), layer.get_build_config()
    weights = layer.get_weights()
    module = sys.modules.get(kind.__module__)
    if getattr(module, kind.__name__, None) is not kind or kind.__module__ == "__main__":
        raise ValueError("its class cannot be imported")
    if sum(w.size for w in weights) > most:
        raise ValueError("it has more weights than can be written")
    texts = [f"np.array({w.tolist()}, np.{w.dtype.name})" for w in weights]
    again = kind.from_config(ast.literal_eval(repr(config)))  # what is written must make the same
    again.build_from_config(ast.literal_eval(repr(built)))
    again.set_weights([np.array(w.tolist(), w.dtype) for w in weights])
    return "\n".join(
        [
            *(["import numpy as np"] if weights else []),
            f"from {kind.__module__} import {kind.__name__}",
            f"{name} = {kind.__name__}.from_config({config!r})",
            f"{name}.build_from_config({built!r})",
            *([f"{name}.set_weights([{', '.join(texts)}])"] if weights else []),
        ]
    )
