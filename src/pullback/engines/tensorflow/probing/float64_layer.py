"""A float64 copy of a Keras layer, model, loss or metric, rebuilt from its configuration."""

import contextlib
import inspect
from collections.abc import Callable, Generator, Iterator
from typing import Any

import keras
import tensorflow as tf

from pullback.engines.tensorflow.tf_private.keras_models import layers_inside

# how a configuration names the dtype policies of Keras, and the one for float64
_POLICIES = {"DTypePolicy", "FloatDTypePolicy", "DTypePolicyMap"}
_QUANTIZED = {"QuantizedDTypePolicy", "QuantizedFloat8DTypePolicy"}
_FLOAT64 = {
    "module": "keras",
    "class_name": "DTypePolicy",
    "registered_name": None,
    "config": {"name": "float64"},
}


class Differs(Exception):
    """A copy is not made of the same functions as its original."""


def float64_layer(layer: Any, build: Callable[[Any], Any] | None = None) -> Any:
    """The copy, with the values of the original's variables; `Differs` if more than dtypes is another.

    Variables are made by `build`, which calls the copy, or from how the original was built.
    """
    made = _rebuilt(layer)
    if build is not None:
        build(made)
    elif not getattr(made, "built", True):
        made.build_from_config(layer.get_build_config())
    for old, new in paired_variables(layer, made):
        new.assign(old)
    if not _made_of_the_same(layer, made):
        raise Differs(f"{layer.name} cannot be made again from its configuration")
    return made


def paired_variables(layer: Any, other: Any) -> Iterator[tuple[Any, Any]]:
    """The variables of two layers of the same make, side by side."""
    return zip(getattr(layer, "variables", ()), getattr(other, "variables", ()), strict=True)


def _rebuilt(layer: Any) -> Any:
    kind, config = type(layer), _in_float64(layer.get_config())
    classes = {type(inner).__name__: type(inner) for inner in layers_inside(layer)}
    with _float64_by_default(), keras.utils.custom_object_scope(classes):
        try:
            return kind.from_config({**config, "dtype": "float64"})
        except TypeError:  # a constructor that takes neither a dtype nor what Keras adds
            known = inspect.signature(kind).parameters
            return kind.from_config({k: v for k, v in config.items() if k in known})


@contextlib.contextmanager
def _float64_by_default() -> Generator[None]:
    """Layers that a constructor makes without a dtype of their own compute in float64."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float64")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _in_float64(config: Any) -> Any:
    """A configuration with float64 for every floating-point dtype and policy in it."""
    if isinstance(config, list | tuple):
        return type(config)(_in_float64(item) for item in config)
    if not isinstance(config, dict):
        return config
    if config.get("class_name") in _POLICIES | _QUANTIZED:
        return _FLOAT64
    return {k: "float64" if _is_float(k, v) else _in_float64(v) for k, v in config.items()}


def _is_float(key: Any, value: Any) -> bool:
    try:
        return key == "dtype" and tf.as_dtype(value).is_floating
    except TypeError:
        return False


def _made_of_the_same(layer: Any, other: Any) -> bool:
    """Whether the copy uses the very functions of the original: a name is no proof of a gradient."""
    pairs = list(zip(layers_inside(layer), layers_inside(other), strict=True))
    return not any(hasattr(one, "__pullback_override__") for one, _ in pairs) and all(
        code is _code_of(vars(b).get(name))
        for a, b in pairs
        for name, value in vars(a).items()
        if (code := _code_of(value)) is not None
    )


def _code_of(value: Any) -> Any:
    return getattr(inspect.unwrap(value), "__code__", None) if callable(value) else None
