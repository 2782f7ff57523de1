"""A float64 copy of a function: with other variables, tensors and layers in it, otherwise the same.

A layer, model, loss or metric is rebuilt from its configuration.
"""

import contextlib
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import keras
import tensorflow as tf

from pullback.engines.tensorflow.attach.closed_over import is_framework_code
from pullback.engines.tensorflow.probing.precision import double, lifted
from pullback.engines.tensorflow.state import carried_on
from pullback.engines.tensorflow.tf_private import is_custom_gradient
from pullback.engines.tensorflow.tf_private.keras_models import layers_inside
from pullback.engines.tensorflow.tf_private.recording import custom_gradient
from pullback.engines.tensorflow.values import is_variable, underlying
from pullback.extend import GradientFunction, Substitution

_LAYERS = (keras.Layer, keras.Loss, keras.Metric)
# How a configuration names the dtype policies of Keras, and the one for float64.
_POLICIES = {
    *("DTypePolicy", "FloatDTypePolicy", "DTypePolicyMap"),
    *("QuantizedDTypePolicy", "QuantizedFloat8DTypePolicy"),
}
_FLOAT64 = keras.dtype_policies.serialize(keras.DTypePolicy("float64"))


def float64_copy(
    fn: Any, build: Callable[[Any], Any] | None = None
) -> tuple[Any, dict[int, Any]] | None:
    """The function in float64 and its new variables by the identity of the old, if it can be had.

    Where the function is a layer, `build` calls its copy, so that it makes its variables.
    """
    variables: dict[int, Any] = {}

    def replace(thing: Any) -> Any:
        """What stands for a thing in float64, `None` for what may hold such things."""
        if is_variable(thing):
            return _variable(thing, variables)
        if isinstance(thing, tf.Tensor):
            return lifted(thing, double)
        if isinstance(thing, _LAYERS):
            return _layer(thing, variables, build if thing is fn else None)
        # a wrapper has the name of the module that it wraps a function of; its class says who wrote it
        owner = thing if isinstance(thing, FunctionType) else type(thing)
        enterable = isinstance(thing, list | tuple | dict) or not is_framework_code(owner)
        return None if enterable else thing

    try:
        new = Substitution(replace, _parts).of(fn)
    except Exception:  # of the user's code, or of layers that cannot be rebuilt
        return None
    return None if new is fn else (new, variables)


def _variable(variable: Any, variables: dict[int, Any]) -> Any:
    raw = underlying(variable)
    dtype = double(raw.dtype)
    if dtype is raw.dtype:
        return variable
    kind = keras.Variable if isinstance(variable, keras.Variable) else tf.Variable
    made = kind(lifted(raw, double), dtype=dtype.name, trainable=variable.trainable)
    variables[id(raw)] = underlying(made)
    return made


def _parts(thing: Any) -> tuple[Callable[..., Any], Any] | None:
    """How a function with its own gradient is made again."""
    if isinstance(thing, GradientFunction):
        return thing._make  # pyright: ignore[reportPrivateUsage]  # of what it was made
    return (custom_gradient, [thing.__wrapped__]) if is_custom_gradient(thing) else None


def _layer(layer: Any, variables: dict[int, Any], build: Callable[[Any], Any] | None) -> Any:
    """The copy, with the values of the original's variables; an error if more than dtypes is another.

    Variables are made by `build`, which calls the copy, or from how the original was built.
    """
    made = _rebuilt(layer)
    if build is not None:
        build(made)
    elif not getattr(made, "built", True):
        made.build_from_config(layer.get_build_config())
    if isinstance(layer, keras.Layer | keras.Metric):
        pairs = ([*one.variables, *carried_on(one)] for one in (layer, made))
        for old, new in zip(*pairs, strict=True):
            new.assign(old)
            variables[id(underlying(old))] = underlying(new)
    if not _made_of_the_same(layer, made):
        raise ValueError(f"{layer.name} cannot be made again from its configuration")
    return made


def _rebuilt(layer: Any) -> Any:
    kind, config = type(layer), _in_float64(layer.get_config())
    classes = {type(inner).__name__: type(inner) for inner in layers_inside(layer)}
    with contextlib.ExitStack() as stack:
        # Layers that a constructor makes without a dtype of their own compute in float64, too.
        stack.callback(keras.config.set_dtype_policy, keras.config.dtype_policy())
        keras.config.set_dtype_policy("float64")
        stack.enter_context(keras.utils.custom_object_scope(classes))
        try:
            return kind.from_config({**config, "dtype": "float64"})
        except TypeError:  # a constructor that takes neither a dtype nor what Keras adds
            known = inspect.signature(kind).parameters
            return kind.from_config({k: v for k, v in config.items() if k in known})


def _in_float64(config: Any) -> Any:
    """A configuration with float64 for every floating-point dtype and policy in it."""
    if isinstance(config, list | tuple):
        return type(config)(_in_float64(item) for item in config)
    if not isinstance(config, dict):
        return config
    if config.get("class_name") in _POLICIES:
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
