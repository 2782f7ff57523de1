"""Keras objects with another gradient: layers, models and losses.

They are made of the object they wrap, so weights are shared, and they can be saved: see `saving`.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import keras

from pullback.engines.tensorflow.keras_support.saving import Kept, copied, described, remade
from pullback.engines.tensorflow.tf_private import overriding
from pullback.engines.tensorflow.tf_private.keras_models import default_method
from pullback.extend import Definition, GradientFunction

_register = keras.saving.register_keras_serializable(package="pullback")


class _Recipe:
    """What is saved as the way to make it again."""

    name: str
    _recipe: tuple[Any, ...]

    def get_config(self) -> dict[str, Any]:
        """What Keras writes to a file."""
        return {"name": self.name, "recipe": Kept(self._recipe, described)}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The object that a file describes; Keras has made its custom objects known by now."""
        del custom_objects
        return Kept.read(config["recipe"], copied, remade)


class _Wrapping(_Recipe):
    """What a wrapped layer and a wrapped model have in common."""

    _function: GradientFunction

    def __init__(
        self, inner: Any, define: Callable[[Any], Definition], make: tuple[Any, ...]
    ) -> None:
        # Keras reads the signature of `call` while it initialises, so this comes first and past its tracking.
        object.__setattr__(self, "_function", GradientFunction(define(_caller(inner, inner)), make))
        super().__init__(name=f"{inner.name}_with_gradient", dtype=inner.dtype_policy)  # type: ignore[call-arg]  # Keras' class is next
        self.inner = inner
        self._recipe = make

    @property
    def call(self) -> GradientFunction:
        """The call of the wrapped layer, with its signature; its gradient is the rule's."""
        return self._function

    @default_method
    def build(self, input_shape: Any = None, **shapes: Any) -> None:
        """Build the wrapped layer, where this is asked for by hand."""
        # Keras remembers the shape by this signature, and writes it to files.
        if not self.inner.built:
            self.inner.build(*([] if input_shape is None else [input_shape]), **shapes)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        verb, parts = self._recipe
        return verb(*copy.deepcopy(parts, memo))


@_register
class GradientLayer(_Wrapping, keras.layers.Layer):
    """A layer with another gradient."""


@_register
class GradientModel(_Wrapping, keras.Model):
    """A model with another gradient."""


@_register
class GradientLoss(_Recipe, keras.losses.Loss):
    """A loss with another gradient; weights and reduction stay those of the wrapped loss."""

    def __init__(
        self, inner: Any, define: Callable[[Any], Definition], make: tuple[Any, ...]
    ) -> None:
        super().__init__(name=inner.name, reduction=inner.reduction, dtype=inner.dtype)
        self._recipe = make
        self._function = GradientFunction(define(_caller(inner, inner.call)), make)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """The loss of each sample."""
        return self._function(y_true, y_pred)


def wrapped(target: Any, define: Callable[[Any], Definition], make: tuple[Any, ...]) -> Any | None:
    """A Keras object like the target with another gradient; `None` for anything else."""
    if isinstance(target, keras.losses.Loss):
        return GradientLoss(target, define, make)
    if isinstance(target, keras.Model):
        return GradientModel(target, define, make)
    return GradientLayer(target, define, make) if isinstance(target, keras.Layer) else None


def _caller(inner: Any, callee: Any) -> Callable[..., Any]:
    """A function that calls a Keras object and tells the parameters of its `call`."""
    signature = inspect.signature(inner.call)

    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        run = overriding.converted(callee)
        # Keras takes nothing but tensors by position, and treats what is left out in its own way.
        named = {n: v for n, v in bound.kwargs.items() if v is not None}
        for name, value in list(bound.arguments.items())[1 : len(bound.args)]:
            parameter = signature.parameters[name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                return run(*bound.args, **named)
            if value is not parameter.default:
                named[name] = value
        return run(*bound.args[:1], **named)

    call.__name__ = call.__qualname__ = inner.name
    call.__dict__["__signature__"] = signature
    return call
