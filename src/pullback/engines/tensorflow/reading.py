"""Models out of files, and arguments for models that say what they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from pullback.engines.tensorflow.probing.callee import sample
from pullback.engines.tensorflow.tf_private import keras_models
from pullback.errors import ArgumentError

BATCH = 2  # of one example alone, sums over the batch cannot be told from none
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


def example_call(model: Any, size: int) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Arguments of the shapes that a model names, with this size where it leaves one open; `None`: it names none."""
    signature = _signature(model)
    if signature is None:
        return None
    made: Any = keras.tree.map_structure(lambda spec: _like(spec, size), signature)
    return tuple(made[0]), dict(made[1])


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


def _like(spec: Any, size: int) -> Any:
    """A tensor like a spec; whatever else a signature holds is an argument itself."""
    if not isinstance(spec, tf.TensorSpec | keras.KerasTensor):
        return spec
    dtype = tf.as_dtype(spec.dtype)
    shape: Any = spec.shape
    if getattr(shape, "rank", 0) is None:
        raise ArgumentError("nothing can be made up for an input of unknown rank.")
    if not (dtype.is_floating or dtype.is_integer or dtype.is_complex):
        raise ArgumentError(f"nothing can be made up for an input of dtype {dtype.name}.")
    sizes: list[Any] = list(shape)
    sizes[:1] = [BATCH if n is None else n for n in sizes[:1]]
    known = tuple(size if n is None else n for n in sizes)
    return sample(known, dtype.name, positive=False)
