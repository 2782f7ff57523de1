"""An override applied to a Keras model or layer: one more of the same class, with the same weights,
that runs under it.

The new object shares layers and variables with the one it was made from; what `compile` and `fit`
keep is its own.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

import keras

from pullback.engines.tensorflow.keras_support.saving import (
    SAVED_AS,
    SavedOverride,
    override_config,
)
from pullback.engines.tensorflow.override.apply import overridden, under
from pullback.engines.tensorflow.tf_private import overriding
from pullback.engines.tensorflow.tf_private.keras_models import compile_settings
from pullback.extend import Activation, Override, flatten

_OWN_FUNCTIONS = ("train_function", "test_function", "predict_function")
_OWN = ("_pullback_link", "__pullback_override__", *_OWN_FUNCTIONS)
_STEPS = ("train_step", "test_step", "predict_step")
_classes: weakref.WeakKeyDictionary[type, type] = weakref.WeakKeyDictionary()


class Link:
    """What the new object knows of the one it was made from. Not a Keras object, so Keras does not save it."""

    def __init__(self, source: Any, override: Override) -> None:
        self.source = source
        self.activation = Activation(override)
        self.synced = source.built


class UnderOverride(SavedOverride):
    """What stands before the layer's own class in the class of an overridden layer."""

    _pullback_link: Link
    __pullback_override__: Override

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer; what it targets has the rule's gradient."""
        # Not bound to this object: AutoGraph would take the layer's own method for one of ours.
        link, call = self._pullback_link, type(self).__bases__[1].__call__
        leaves, _ = flatten((list(args), kwargs))
        symbolic = any(isinstance(leaf, keras.KerasTensor) for leaf in leaves)
        if symbolic or overriding.in_keras_symbolic_scope():
            return call(self, *args, **kwargs)
        if not link.synced:
            self._share_built_state(link, args, kwargs)
        return self._under(call, *args, **kwargs)

    def _under(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Run a method of the layer under the override, and further in under those it was applied to."""
        source, run = self._pullback_link.source, functools.partial(function, self)
        while isinstance(source, UnderOverride):
            run = functools.partial(under, source._pullback_link.activation, run)
            source = source._pullback_link.source
        return under(self._pullback_link.activation, run, *args, **kwargs)

    def _share_built_state(self, link: Link, args: Any, kwargs: Any) -> None:
        """Variables that the first call makes are made on the original, and shared from then on."""
        if not link.source.built:
            overriding.converted(link.source)(*args, **kwargs)
        kept = {n: v for n, v in vars(self).items() if n in _OWN or n not in vars(link.source)}
        self.__dict__.update(_shared(link.source) | kept)
        link.synced = True

    def get_config(self) -> dict[str, Any]:
        """What Keras writes to a file."""
        return override_config(self.__pullback_override__, self._pullback_link.source)

    def __reduce__(self) -> Any:
        return overridden_layer, (self._pullback_link.source, self.__pullback_override__)


@overridden.register(keras.Layer)
def overridden_layer(layer: Any, override: Override) -> Any:
    """A layer or model of the same class and with the same weights, under the override."""
    own = type(layer).__bases__[1] if isinstance(layer, UnderOverride) else type(layer)
    made: Any = object.__new__(_class_for(own))
    link = Link(layer, override)
    made.__dict__.update(_shared(layer), _pullback_link=link, __pullback_override__=override)
    if isinstance(layer, keras.Model):
        made.__dict__.update(dict.fromkeys(_OWN_FUNCTIONS))
        if layer.compiled:
            settings: Any = keras.tree.map_structure(_without_state, compile_settings(layer))
            made.compile(**settings)
    return made


def _shared(layer: Any) -> dict[str, Any]:
    """The attributes of a layer; TensorFlow's lists of what belongs to it are copied, as `compile` adds to them."""
    return {
        name: value.copy()
        if name.startswith("_self_") and isinstance(value, (list, dict, set))
        else value
        for name, value in vars(layer).items()
    }


def _without_state(part: Any) -> Any:
    """A part of the settings without the state that the other model has built up in it."""
    has_state = isinstance(part, (keras.Optimizer, keras.Metric))
    return type(part).from_config(part.get_config()) if has_state else part


def _class_for(base: type) -> type:
    if base not in _classes:
        plain = {n: (None, getattr(keras.Model, n)) for n in _STEPS}
        own = [n for n in _STEPS if getattr(base, n, None) not in plain[n]]
        steps = {name: _step(base, name) for name in own}
        _classes[base] = type(SAVED_AS, (UnderOverride, base), {"__module__": __name__, **steps})
    return _classes[base]


def _step(base: type, name: str) -> Any:
    """A training step of the user's own may call parts of the model without calling the model."""

    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._under(getattr(base, name), *args, **kwargs)

    step.__name__ = name
    return step
