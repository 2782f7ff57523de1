"""An override applied to a Keras model or layer: one more of the same class, with the same weights,
that runs under it.

The new object shares layers and variables with the one it was made from; what `compile` and `fit`
keep is its own.
"""

from __future__ import annotations

import weakref
from typing import Any

import keras

from pullback.engines.tensorflow.keras_support.override_saving import config_of, from_config
from pullback.engines.tensorflow.override.apply import under
from pullback.engines.tensorflow.tf_private import overriding as private
from pullback.extend import Activation, flatten

_OWN_FUNCTIONS = ("train_function", "test_function", "predict_function")
_STEPS = ("train_step", "test_step", "predict_step")
_SAVED_AS = "PullbackOverridden"
_classes: weakref.WeakKeyDictionary[type, type] = weakref.WeakKeyDictionary()


class Link:
    """What the new object knows of the one it was made from. Not a Keras object, so Keras does not save it."""

    def __init__(self, source: Any, override: Any) -> None:
        self.source = source
        self.override = override
        self.activation = Activation(override)
        self.in_step = source is not None and built_for(source)


def built_for(layer: Any) -> bool:
    """Whether a layer has all its variables."""
    return bool(getattr(layer, "built", True))


def overridden_layer(override: Any, layer: Any) -> Any:
    """A layer or model of the same class and with the same weights, under the override."""
    made = object.__new__(_class_for(type(layer)))
    made.__dict__.update(_shared(layer))
    made.__dict__["_pullback_link"] = Link(layer, override)
    made.__dict__["__pullback_override__"] = override
    if isinstance(layer, keras.Model):
        for name in _OWN_FUNCTIONS:
            made.__dict__[name] = None
        if getattr(layer, "compiled", False):
            _compile_alike(made, layer)
    return made


def _shared(layer: Any) -> dict[str, Any]:
    """The attributes of a layer; TensorFlow's lists of what belongs to it are copied, as `compile` adds to them."""
    return {
        name: value.copy()
        if name.startswith("_self_") and isinstance(value, (list, dict, set))
        else value
        for name, value in vars(layer).items()
    }


def _compile_alike(made: Any, layer: Any) -> None:
    settings = dict(layer._compile_config.config)
    for name in ("optimizer", "metrics", "weighted_metrics"):
        settings[name] = keras.tree.map_structure(_fresh, settings.get(name))
    made.compile(**settings)


def _fresh(part: Any) -> Any:
    """A part of the settings without the state that the other model has built up in it."""
    if isinstance(part, (keras.Optimizer, keras.Metric)):
        return type(part).from_config(part.get_config())
    return part


def _class_for(base: type) -> type:
    made = _classes.get(base)
    if made is None:
        methods: dict[str, Any] = {
            "__call__": _call,
            "get_config": _get_config,
            "from_config": classmethod(_from_config),
            "__reduce__": _reduce,
        }
        for name in _STEPS:
            if getattr(base, name, None) is not getattr(keras.Model, name) and hasattr(base, name):
                methods[name] = _step(name)
        made = type(base.__name__, (base,), methods)
        made.__module__, made.__qualname__ = OverriddenModel.__module__, OverriddenModel.__name__
        made.__name__ = _SAVED_AS
        _classes[base] = made
    return made


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the layer; what it targets has the rule's gradient."""
    link, call = self._pullback_link, _base_of(self).__call__
    leaves, _ = flatten((list(args), kwargs))
    if private.in_keras_symbolic_scope() or any(
        isinstance(leaf, keras.KerasTensor) for leaf in leaves
    ):
        return call(self, *args, **kwargs)
    if not link.in_step:
        _fall_in_step(self, link, args, kwargs)
    return under(link.activation, call, self, *args, **kwargs)


def _base_of(made: Any) -> type:
    return type(made).__bases__[0]


def _fall_in_step(self: Any, link: Link, args: Any, kwargs: Any) -> None:
    """Variables that the first call makes are made on the original, and shared from then on."""
    if not built_for(link.source):
        private.converted(link.source)(*args, **kwargs)
    own = ("_pullback_link", "__pullback_override__", *_OWN_FUNCTIONS)
    compiled = {n: v for n, v in vars(self).items() if n in own or n not in vars(link.source)}
    self.__dict__.update({**_shared(link.source), **compiled})
    link.in_step = True


def _step(name: str) -> Any:
    """A training step of the user's own may call parts of the model without calling the model."""

    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        run = getattr(_base_of(self), name)
        return under(self._pullback_link.activation, run, self, *args, **kwargs)

    step.__name__ = name
    return step


def _get_config(self: Any) -> dict[str, Any]:
    return config_of(self._pullback_link)


def _from_config(cls: type, config: dict[str, Any], custom_objects: Any = None) -> Any:
    del cls
    override, layer = from_config(config, custom_objects)
    return overridden_layer(override, layer)


def _reduce(self: Any) -> Any:
    return overridden_layer, (self._pullback_link.override, self._pullback_link.source)


class OverriddenModel(keras.Model):
    """The name under which models with an override are saved; loading one gives the real thing."""

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The model with its override, out of a file."""
        return _from_config(cls, config, custom_objects)


keras.saving.get_custom_objects()[_SAVED_AS] = OverriddenModel
