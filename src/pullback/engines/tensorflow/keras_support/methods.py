"""The methods of an overridden layer that may be called past its `__call__`."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

import keras

from pullback.engines.tensorflow.override.regions import layer_body
from pullback.engines.tensorflow.tf_private import overriding

_STEPS = frozenset({"train_step", "test_step", "predict_step"})
_LIBRARIES = frozenset({"keras", "tensorflow", "builtins"})


def methods_of(base: type) -> dict[str, Any]:
    """Under the override: `call`, training steps of the user's own, and methods that Keras does not know."""
    known = set(dir(keras.Model)) - _STEPS
    found: dict[str, Any] = {}
    for each in reversed(base.__mro__):
        if each.__module__.partition(".")[0] not in _LIBRARIES:
            own = {n: v for n, v in vars(each).items() if n not in known and n[:1] != "_"}
            found |= {n: v for n, v in own.items() if callable(v) and hasattr(type(v), "__get__")}
    found = {name: _method(value) for name, value in found.items()}
    call = inspect.getattr_static(base, "call", None)
    return found | ({"call": _call(call)} if isinstance(call, types.FunctionType) else {})


def _method(function: Any) -> Callable[..., Any]:
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
