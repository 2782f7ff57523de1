"""A float64 copy of a function: with other variables, tensors and layers in it, otherwise the same."""

from collections.abc import Callable
from types import FunctionType
from typing import Any

import keras
import tensorflow as tf

from pullback.engines.tensorflow.attach.closed_over import is_framework_code
from pullback.engines.tensorflow.probing.arguments import is_variable
from pullback.engines.tensorflow.probing.float64_layer import float64_layer, paired_variables
from pullback.engines.tensorflow.probing.precision import double, lifted
from pullback.engines.tensorflow.tf_private import is_custom_gradient
from pullback.engines.tensorflow.values import underlying
from pullback.extend import GradientFunction, Substitution

_LAYERS = (keras.Layer, keras.Loss, keras.Metric)


def float64_copy(
    fn: Any, build: Callable[[Any], Any] | None = None
) -> tuple[Any, dict[int, Any]] | None:
    """The function in float64 and its new variables by the identity of the old, if it can be had.

    Where the function is a layer, `build` calls its copy, so that it makes its variables.
    """
    copies = _Copies(build if isinstance(fn, _LAYERS) else None)
    try:
        new = Substitution(copies.of, _parts).of(fn)
    except (
        Exception
    ):  # of the user's code, or of layers that cannot be made from their configuration
        return None
    return None if new is fn else (new, copies.variables)


class _Copies:
    """What TensorFlow's and Keras' objects are replaced by; new variables by the identity of the old."""

    def __init__(self, build: Callable[[Any], Any] | None) -> None:
        self.build = build
        self.variables: dict[int, Any] = {}

    def of(self, thing: Any) -> Any:
        """What stands for a thing in float64, `None` for what may hold such things."""
        if is_variable(thing):
            return self._variable(thing)
        if isinstance(thing, tf.Tensor):
            return lifted(thing, double)
        if isinstance(thing, _LAYERS):
            return self._layer(thing)
        # a wrapper has the name of the module that it wraps a function of; its class says who wrote it
        owner = thing if isinstance(thing, FunctionType) else type(thing)
        enterable = isinstance(thing, list | tuple | dict) or not is_framework_code(owner)
        return None if enterable else thing

    def _variable(self, variable: Any) -> Any:
        raw = underlying(variable)
        dtype = double(raw.dtype)
        if dtype is raw.dtype:
            return variable
        kind = keras.Variable if isinstance(variable, keras.Variable) else tf.Variable
        made = kind(lifted(raw, double), dtype=dtype.name, trainable=variable.trainable)
        self.variables[id(raw)] = underlying(made)
        return made

    def _layer(self, layer: Any) -> Any:
        made = float64_layer(layer, self.build)
        for old, new in paired_variables(layer, made):
            self.variables[id(underlying(old))] = underlying(new)
        return made


def _parts(thing: Any) -> tuple[Callable[..., Any], Any] | None:
    """How a function with its own gradient is made again."""
    if isinstance(thing, GradientFunction):
        return thing._make  # pyright: ignore[reportPrivateUsage]  # of what it was made
    return (tf.custom_gradient, [thing.__wrapped__]) if is_custom_gradient(thing) else None
