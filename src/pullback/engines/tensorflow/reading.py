"""Models out of files, and what models say that they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from pullback.engines.tensorflow.tf_private import keras_models
from pullback.errors import ArgumentError
from pullback.extend import Spec

KERAS_FILES = (".keras", ".h5", ".hdf5")
_READ: list[Any] = []  # the functions of a SavedModel do not keep its variables alive


def read_model(path: Path) -> Callable[..., Any] | None:
    """The model of a Keras file or of a SavedModel folder; `None` for any other path."""
    if path.is_file() and path.suffix in KERAS_FILES:
        model: Any = keras.models.load_model(path, compile=False)
        return model
    if not (path / "saved_model.pb").is_file():
        return None
    loaded: Any = tf.saved_model.load(str(path))
    signatures = dict(loaded.signatures)
    first = next(iter(signatures.values()), None)
    choices = [loaded, getattr(loaded, "serve", None), signatures.get("serving_default"), first]
    found = next((choice for choice in choices if callable(choice)), None)
    _READ.append(loaded)
    if found is None:
        raise ArgumentError(
            f"{path} holds nothing that can be called: neither a function nor a signature."
        )
    return found


def call_specs(model: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """What a model says that it takes, with a `Spec` in place of each tensor; `None`: it says nothing."""
    signature = _signature(model)
    if signature is None:
        return None
    told: Any = keras.tree.map_structure(_spec, signature)
    return tuple(told[0]), dict(told[1])


def _signature(model: Any) -> tuple[Sequence[Any], dict[str, Any]] | None:
    if isinstance(model, keras.Model) and getattr(model, "inputs", None):
        return [keras_models.input_structure(model)], {}
    if isinstance(model, keras.layers.Layer):
        shape = (model.get_build_config() or {}).get("input_shape")
        dtype = model.input_dtype if isinstance(model.input_dtype, str) else "float32"
        return None if not _is_shape(shape) else ([keras.KerasTensor(shape, dtype)], {})
    call = getattr(model, "__call__", None) if _is_loaded(model) else model  # noqa: B004  # its functions are looked at
    variants = getattr(call, "concrete_functions", None) or [call]
    return getattr(variants[0], "structured_input_signature", None)


def _is_loaded(model: Any) -> bool:
    return not hasattr(model, "concrete_functions") and hasattr(model, "signatures")


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, list | tuple) and all(n is None or isinstance(n, int) for n in shape)


def _spec(tensor: Any) -> Any:
    """Whatever else a signature holds is an argument itself."""
    if not isinstance(tensor, tf.TensorSpec | keras.KerasTensor):
        return tensor
    shape: Any = tensor.shape
    known = None if getattr(shape, "rank", 0) is None else tuple(shape)
    return Spec(known, tf.as_dtype(tensor.dtype).name)
