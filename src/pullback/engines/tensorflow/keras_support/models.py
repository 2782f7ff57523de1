"""An override applied to a Keras model or layer: one more of the same class, with the same weights,
that runs under it.

The parts of an overridden model are overridden themselves: a functional model is the same graph over such parts, and
what is an attribute of any other becomes one when it is asked for. So whatever is cut out of it carries the override.
A part has all its state in common with the layer it stands for; a model keeps what `compile` and `fit` make for itself.
"""

from __future__ import annotations

import copy
import functools
import types
import weakref
from typing import Any

import keras
import tensorflow as tf

from pullback.engines.tensorflow.keras_support.lines import Lines
from pullback.engines.tensorflow.keras_support.links import Link
from pullback.engines.tensorflow.keras_support.methods import methods_of
from pullback.engines.tensorflow.keras_support.saving import (
    OVERRIDDEN,
    SavedOverride,
    override_config,
)
from pullback.engines.tensorflow.override.apply import overridden
from pullback.engines.tensorflow.override.export import for_export
from pullback.engines.tensorflow.tf_private import keras_models, overriding
from pullback.errors import ExportError
from pullback.extend import Override, flatten

_OWN_FUNCTIONS = ("train_function", "test_function", "predict_function")
_OWN = frozenset({*_OWN_FUNCTIONS, "compiled"})


class UnderOverride(SavedOverride):
    """What stands before the layer's own class in the class of an overridden layer."""

    # What is not in common with the layer it was made from.
    __slots__ = ("_inbound_nodes", "_outbound_nodes", "_pullback_link")
    __pullback_class__: type
    _pullback_link: Link

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Keras makes copies by calling the class: their layers carry the override, where it has any."""
        return cls.__pullback_class__(*args, **kwargs)

    @property
    def __pullback_override__(self) -> Override:
        return self._pullback_link.override

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer; what it targets has the rule's gradient."""
        # Not bound to this object: AutoGraph would take the layer's own method for one of ours.
        link, call = self._pullback_link, self.__pullback_class__.__call__
        if link.in_force or overriding.in_keras_symbolic_scope():
            return call(self, *args, **kwargs)
        leaves, _ = flatten((list(args), kwargs))
        if any(isinstance(leaf, keras.KerasTensor) for leaf in leaves):
            return call(self, *args, **kwargs)
        if not link.synced:
            _share_built_state(self, args, kwargs)
        call = functools.partial(call, self)
        if link.is_judged:
            return link.run(call, *args, **kwargs)
        result = link.run_part(call, *args, **kwargs)
        if link.root is not None:
            link.root.ran(self)
        return result

    def get_config(self) -> dict[str, Any]:
        """What Keras writes to a file, or makes a copy from."""
        return override_config(Lines.of(self._pullback_link), self._pullback_link.source)

    def save(self, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        """Write a `.keras` file."""
        if str(filepath).endswith((".h5", ".hdf5")):
            raise ExportError(
                f"{str(filepath)!r} is a file of the old HDF5 format, which cannot hold an override. "
                "Save an overridden model as `.keras`, or its weights by `save_weights`."
            )
        return super().save(filepath, *args, **kwargs)  # type: ignore[misc]  # Keras' class is next

    def export(self, *args: Any, **kwargs: Any) -> Any:
        """Write a SavedModel, in which the gradient is kept in the form that a file can hold."""
        with for_export():
            return super().export(*args, **kwargs)  # type: ignore[misc]  # Keras' class is next

    @property
    def _default_save_signature(self) -> Any:
        """What tf.saved_model.save traces."""
        made: Any = super()._default_save_signature  # type: ignore[misc]  # Keras' class is next
        if made is None:
            return None

        def serving_default(*args: Any) -> Any:
            with for_export():
                return made.python_function(*args)

        return tf.function(serving_default, input_signature=made.input_signature, autograph=False)

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Build the original, as a file says."""
        source = self._pullback_link.source
        source.build_from_config(config)
        source.built = True
        _share_built_state(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        source = copy.deepcopy(self._pullback_link.source, memo)
        return Lines.of(self._pullback_link).applied_to(source)

    def __reduce__(self) -> Any:
        return Lines.applied_to, (Lines.of(self._pullback_link), self._pullback_link.source)


class _Composite(UnderOverride):
    """An overridden layer whose attributes hold layers."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        """Layers among the attributes are under the override too, for whoever asks from outside."""
        value = super().__getattribute__(name)
        if name.startswith("_") or not isinstance(value, (keras.Layer, list, tuple, dict)):
            return value
        link = object.__getattribute__(self, "_pullback_link")
        if link.in_force or overriding.in_keras_symbolic_scope():
            return value
        return _parts_of(link, value)

    def _trackable_children(self, save_type: str = "checkpoint", **options: Any) -> Any:
        """What TensorFlow saves: it finds layers in lists of Keras' own class, which those of the original are."""
        children: Any = super()._trackable_children(save_type, **options)  # type: ignore[misc]  # Keras' class is next
        if save_type == "savedmodel":
            held: Any = self._pullback_link.source._trackable_children(save_type, **options)
            children |= {name: held[name] for name in getattr(self, "_tracked", ()) if name in held}
        return children


def _parts_of(link: Link, value: Any) -> Any:
    """A layer under the override; a structure of layers, which is then a copy and cannot be changed; else the value."""
    if isinstance(value, keras.Layer):
        return link.part(value)
    if isinstance(value, dict):
        parts = {key: _parts_of(link, each) for key, each in value.items()}
        is_same = all(parts[key] is value[key] for key in value)
        return value if is_same else types.MappingProxyType(parts)
    if isinstance(value, (list, tuple)):
        held = [_parts_of(link, each) for each in value]
        is_same = all(one is other for one, other in zip(held, value, strict=True))
        return value if is_same else held if type(value) is list else tuple(held)
    return value


@overridden.register(keras.Operation)
def overridden_layer(layer: Any, override: Override) -> Any:
    """A layer or model of the same class and with the same weights, under the override."""
    made = _made(Link(layer, override, _made))
    if isinstance(layer, keras.Model) and layer.compiled:
        settings: Any = keras.tree.map_structure(
            _without_state, keras_models.compile_settings(layer)
        )
        made.compile(**settings)
    return made


def _made(link: Link) -> Any:
    """An object like the source of this link."""
    source = link.source
    own = getattr(source, "__pullback_class__", type(source))
    has_graph = isinstance(source, (keras_models.Functional, keras.Sequential))
    kind = _class_for(own, _is_composite(source, own))
    made: Any = (keras.Layer if has_graph else object).__new__(kind)
    for name, value in (("_pullback_link", link), ("_inbound_nodes", []), ("_outbound_nodes", [])):
        object.__setattr__(made, name, value)
    if isinstance(source, keras.Model):
        link.synced = source.built
        made.__dict__.update(_state_of(source, link), compiled=False)
        made.__dict__.update(dict.fromkeys(_OWN_FUNCTIONS))
    else:
        object.__setattr__(made, "__dict__", vars(source))
    return made


def _state_of(model: Any, link: Link) -> dict[str, Any]:
    """The attributes of a model, over its layers under the override."""
    # TensorFlow's lists of what belongs to it are copied, as `compile` adds to them.
    state = {
        name: value.copy()
        if name.startswith("_self_") and isinstance(value, (list, dict, set))
        else value
        for name, value in vars(model).items()
    }
    if isinstance(model, keras_models.Functional):
        state |= keras_models.of_graph(model, link.part)
    elif isinstance(model, keras.Sequential):
        state |= keras_models.of_list(model, link.part)
    else:
        return state  # and with it the `build` of the original, where weights are made
    return {name: value for name, value in state.items() if name not in keras_models.BOUND}


def _share_built_state(made: Any, args: Any = (), kwargs: Any = None) -> None:
    """Variables that the first call makes are made on the original, and shared from then on."""
    link: Link = made._pullback_link
    if not link.source.built:
        overriding.converted(link.source)(*args, **(kwargs or {}))
    if isinstance(link.source, keras.Model) and not link.synced:
        state = _state_of(link.source, link)
        own = {n for n in vars(made) if n in _OWN or n not in vars(link.source)}
        made.__dict__.update({n: v for n, v in state.items() if n not in own})
        link.synced = True


def _without_state(part: Any) -> Any:
    """A part of the settings without the state that the other model has built up in it."""
    has_state = isinstance(part, (keras.Optimizer, keras.Metric))
    return type(part).from_config(part.get_config()) if has_state else part


_classes: weakref.WeakKeyDictionary[type, dict[bool, type]] = weakref.WeakKeyDictionary()


def _is_composite(source: Any, own: type) -> bool:
    """Whether attributes may hold layers that no graph leads to."""
    if own in (keras_models.Functional, keras.Sequential) or not isinstance(source, keras.Layer):
        return False
    return not source.built or bool(keras_models.direct_layers(source))


def _class_for(base: type, composite: bool) -> type:
    made = _classes.setdefault(base, {})
    if composite not in made:
        kind = _Composite if composite else UnderOverride
        names = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__slots__": ()}
        names |= {"__doc__": base.__doc__, "__pullback_class__": base, **methods_of(base)}
        made[composite] = type(base.__name__, (kind, base), names)
        # Keras writes the name under which a class is registered; any of these classes can read it.
        OVERRIDDEN(made[composite])
    return made[composite]
