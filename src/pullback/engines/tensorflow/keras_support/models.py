"""An override applied to a Keras model or layer: one more of the same class, with the same weights,
that runs under it.

The parts of an overridden model are overridden themselves: a functional model is the same graph over such parts, and
what is an attribute of any other becomes one when it is asked for. So whatever is cut out of it carries the override.
A part has all its state in common with the layer it stands for; a model keeps what `compile` and `fit` make for itself.
"""

from __future__ import annotations

import copy
import functools
import inspect
import types
import weakref
from collections.abc import Callable
from typing import Any

import keras

from pullback.engines.tensorflow.keras_support.lines import Lines
from pullback.engines.tensorflow.keras_support.saving import (
    OVERRIDDEN,
    SavedOverride,
    copy_of,
    override_config,
)
from pullback.engines.tensorflow.override.apply import overridden
from pullback.engines.tensorflow.override.export import for_export
from pullback.engines.tensorflow.override.regions import layer_body
from pullback.engines.tensorflow.tf_private import keras_models, overriding
from pullback.extend import Activation, Override, flatten, running, set_for

_OWN_FUNCTIONS = ("train_function", "test_function", "predict_function")
_OWN = frozenset({*_OWN_FUNCTIONS, "compiled"})
_STEPS = frozenset({"train_step", "test_step", "predict_step"})
_LIBRARIES = frozenset({"keras", "tensorflow", "builtins"})


class Link:
    """What an overridden object knows of the one it was made from. Not a Keras object, so Keras does not save it."""

    def __init__(self, source: Any, override: Override, whole: Link | None = None) -> None:
        self.source = source
        self.override = override
        self.parents: tuple[Any, ...] = () if whole is None else (*whole.parents, whole.source)
        inner = getattr(source, "_pullback_link", None)
        activation = Activation(override) if whole is None else whole.activations[0]
        # Outermost first: the override that was applied last is opened first.
        self.activations: tuple[Activation, ...] = (activation, *(inner.activations if inner else ()))
        self.root: Link | None = None if whole is None else whole.root or whole
        self.is_judged = whole is None  # not what is a part only
        self.synced = True
        self.parts: dict[int, Any] = {}
        self._waiting: weakref.WeakKeyDictionary[Any, set[int]] = weakref.WeakKeyDictionary()

    @property
    def in_force(self) -> bool:
        """Whether all that it runs under is open here already."""
        return all(activation.in_force for activation in self.activations)

    def part(self, layer: Any) -> Any:
        """A layer or operation inside, under the same override."""
        if _is_under(layer, self.activations[0]):
            return layer
        if id(layer) not in self.parts:
            is_input = isinstance(layer, keras.layers.InputLayer)  # which runs nothing
            made = copy_of(layer) if is_input else _made(layer, Link(layer, self.override, self))
            self.parts[id(layer)] = made
        return self.parts[id(layer)]

    def run(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call what the override was applied to."""
        return self._run("run", function, args, kwargs)

    def run_part(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a part of it: that a target is not in there says nothing."""
        return self._run("run_part", function, args, kwargs)

    def _run(self, how: str, function: Any, args: Any, kwargs: Any) -> Any:
        run = functools.partial(_inside, self.parents, overriding.converted(function))
        for activation in reversed(self.activations):
            run = functools.partial(getattr(activation, how), run)
        return run(*args, **kwargs)

    def ran(self, part: Any) -> None:
        """Note that a part has run by itself; once all have of the model that it runs in, that one is judged."""
        outer = keras_models.model_being_called()
        cut = self.source if outer is None or outer is part else outer
        if cut not in self._waiting:
            self._waiting[cut] = self._parts_in(cut)
        waiting = self._waiting[cut]
        if id(part) in waiting:
            waiting.remove(id(part))
            if not waiting:
                is_whole = self._parts_in(self.source) <= self._parts_in(cut)
                self.activations[0].settle_once(is_whole=is_whole)

    def _parts_in(self, cut: Any) -> set[int]:
        """What must have run of a model before it is judged."""
        found = keras_models.operations_inside(cut)
        if cut is self.source:
            found = [self.part(each) for each in found if isinstance(each, keras.Layer)]
        return {id(each) for each in found if _is_under(each, self.activations[0])}


def _inside(parents: tuple[Any, ...], function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call a function as a part of something larger."""
    if not parents:
        return function(*args, **kwargs)
    with set_for(running, (*running.get(), *parents)):
        return function(*args, **kwargs)


def _is_under(layer: Any, activation: Activation) -> bool:
    return isinstance(layer, UnderOverride) and layer._pullback_link.activations[0] is activation


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

    def export(self, *args: Any, **kwargs: Any) -> Any:
        """Write a SavedModel, in which the gradient is kept in the form that a file can hold."""
        with for_export():
            return super().export(*args, **kwargs)  # type: ignore[misc]  # Keras' class is next

    @property
    def _default_save_signature(self) -> Any:
        """What tf.saved_model.save traces."""
        with for_export():
            made: Any = super()._default_save_signature  # type: ignore[misc]  # Keras' class is next
            if made is not None:
                made.get_concrete_function()
        return made

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


def _parts_of(link: Link, value: Any) -> Any:
    if isinstance(value, keras.Layer):
        return link.part(value)
    held = list(value.values() if isinstance(value, dict) else value)
    if not any(isinstance(each, keras.Layer) for each in held):
        return value
    parts = [link.part(each) if isinstance(each, keras.Layer) else each for each in held]
    if isinstance(value, dict):
        return types.MappingProxyType(dict(zip(value, parts, strict=True)))
    return parts if type(value) is list else tuple(parts)


@overridden.register(keras.Operation)
def overridden_layer(layer: Any, override: Override) -> Any:
    """A layer or model of the same class and with the same weights, under the override."""
    made = _made(layer, Link(layer, override))
    if isinstance(layer, keras.Model) and layer.compiled:
        settings: Any = keras.tree.map_structure(_without_state, keras_models.compile_settings(layer))
        made.compile(**settings)
    return made


def _made(source: Any, link: Link) -> Any:
    """An object like the source, with this link."""
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
        names |= {"__doc__": base.__doc__, "__pullback_class__": base, **_methods(base)}
        made[composite] = type(base.__name__, (kind, base), names)
        # Keras writes the name under which a class is registered; any of these classes can read it.
        OVERRIDDEN(made[composite])
    return made[composite]


def _methods(base: type) -> dict[str, Any]:
    """What may be called past `__call__`: `call`, training steps of the user's own, and methods that Keras does not know."""
    known = set(dir(keras.Model)) - _STEPS
    found: dict[str, Any] = {}
    for each in reversed(base.__mro__):
        if each.__module__.partition(".")[0] not in _LIBRARIES:
            own = {n: v for n, v in vars(each).items() if n not in known and n[:1] != "_"}
            found |= {n: v for n, v in own.items() if callable(v) and hasattr(type(v), "__get__")}
    found = {name: _method(name, value) for name, value in found.items()}
    call = inspect.getattr_static(base, "call", None)
    return found | ({"call": _call(call)} if isinstance(call, types.FunctionType) else {})


def _method(name: str, function: Any) -> Callable[..., Any]:
    @functools.wraps(function)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(function, types.FunctionType):
            return self._pullback_link.run_part(function, self, *args, **kwargs)
        return self._pullback_link.run_part(function.__get__(self, type(self)), *args, **kwargs)

    return method


def _call(function: types.FunctionType) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        link = self._pullback_link
        if link.in_force or overriding.in_keras_symbolic_scope():
            return overriding.converted(function)(self, *args, **kwargs)
        return link.run_part(functools.partial(layer_body, function), self, *args, **kwargs)

    return call
