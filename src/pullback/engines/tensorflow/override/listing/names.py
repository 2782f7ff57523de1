"""Expressions for what can be a target: public names, the caller's variables, the way to a layer in its model."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from pullback.engines.tensorflow.override.op_names import innermost, public_name
from pullback.engines.tensorflow.override.targets import symbolic_twins
from pullback.extend import Reference, find, original_code, unwrapped

_MODEL = "model"  # how a model is called whose name is not known
_MOST_LAYERS = 10_000
_BOOKKEEPING = (
    "_layers",
    "_functional",
    "_self_",
    "_tracker",
)  # attributes in which Keras keeps layers once more
# Parts of the public interface that hold no functions of numbers, or the same ones under older names.
_LEFT_OUT = frozenset(
    {"autograph", "compat", "convert_to_tensor", "data", "identity", "keras", "legacy", "nest", "raw_ops", "src",
     "test", "tree", "utils"}
)  # fmt: skip


@functools.cache
def public_functions() -> dict[types.CodeType, Any]:
    """The public functions of TensorFlow and Keras by the code that runs when they are called."""
    table: dict[types.CodeType, Any] = {}
    for function in {*_functions_in(tf, set()), *_functions_in(keras, set())}:
        inner = innermost(function)
        table[original_code(inner)] = function
        for twin in symbolic_twins(inner):
            table.setdefault(original_code(twin), function)
    return table


def _functions_in(module: types.ModuleType, seen: set[int]) -> Iterator[types.FunctionType]:
    seen.add(id(module))
    for name in dir(module):
        if name.startswith("_") or name in _LEFT_OUT:
            continue
        value = getattr(module, name, None)
        if isinstance(value, types.FunctionType):
            yield value
        elif isinstance(value, types.ModuleType) and id(value) not in seen and _is_public(value):
            yield from _functions_in(value, seen)


def _is_public(module: types.ModuleType) -> bool:
    return module.__name__.startswith(("tensorflow._api.", "keras."))


class Names:
    """Finds an expression for functions, layers and classes, given what the caller's names mean."""

    def __init__(self, root: Any, names: Mapping[str, Any]) -> None:
        self._names = {name: value for name, value in names.items() if not name.startswith("_")}
        self._layers: dict[int, str] = {}
        for roots in self._roots(root):
            _add_paths(self._layers, roots)

    def _roots(self, root: Any) -> list[list[tuple[str, Any]]]:
        """Where ways to layers begin: the model itself, then whatever the caller and the function know by name."""
        named = [(name, value) for name, value in self._names.items() if value is root]
        if not named and isinstance(root, keras.Layer):
            named = [(_MODEL, root)]
        scope = dict(self._names)
        for function in unwrapped(root):
            if isinstance(function, types.FunctionType):
                cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
                scope |= {name: cell.cell_contents for name, cell in cells}
        return [named[:1], list(scope.items())]

    def layer(self, layer: Any) -> str | None:
        """The way to a layer."""
        return self._layers.get(id(layer))

    def layer_class(self, kind: type) -> str | None:
        """The name of a class."""
        named = (name for name, value in self._names.items() if value is kind)
        return public_name(kind) or next(named, None) or _in_module(kind.__module__, kind)

    def function(self, code: types.CodeType, module: str) -> tuple[Any, str | None]:
        """The function with this code, and an expression for it."""
        public = public_functions().get(code)
        if public is not None:
            return public, public_name(public)
        for name, value in self._names.items():
            if _runs(value, code):
                return value, name
        found = find(Reference(module, code.co_qualname))
        owner = find(Reference(module, code.co_qualname.rpartition(".")[0]))
        is_layer = isinstance(owner, type) and issubclass(owner, keras.Layer)
        if not _runs(found, code) or (is_layer and code.co_name == "call"):
            return None, None  # which is the layer itself
        return found, _path(module, code.co_qualname)


def _runs(value: Any, code: types.CodeType) -> bool:
    """Whether a function, a tf.function or a custom gradient of TensorFlow's runs this code."""
    if not isinstance(value, types.FunctionType | types.MethodType):
        made = type(value).__module__.startswith("tensorflow.")
        value = getattr(value, "python_function", value) if made else None
    functions = [f for f in unwrapped(value) if isinstance(f, types.FunctionType)]
    return any(original_code(f) is code for f in functions)


def _in_module(module: str, kind: type) -> str | None:
    found = find(Reference(module, kind.__qualname__))
    return _path(module, kind.__qualname__) if found is kind else None


def _path(module: str, name: str) -> str:
    return name if module == "__main__" else f"{module}.{name}"


def _add_paths(known: dict[int, str], roots: list[tuple[str, Any]]) -> None:
    """Add the shortest ways to the layers that can be got at from these and have none yet."""
    level = roots
    while level and len(known) < _MOST_LAYERS:
        further: list[tuple[str, Any]] = []
        for path, thing in level:
            if isinstance(thing, keras.Layer) and id(thing) not in known:
                known[id(thing)] = path
                further += _parts(path, thing)
        level = further


def _parts(path: str, layer: Any) -> Iterator[tuple[str, Any]]:
    subs = layer.layers if hasattr(layer, "get_layer") else ()
    names = [sub.name for sub in subs]
    for index, sub in enumerate(subs):
        named = names.count(sub.name) == 1
        yield (f'{path}.get_layer("{sub.name}")' if named else f"{path}.layers[{index}]"), sub
    held = [(n, v) for n, v in vars(layer).items() if not n.startswith(_BOOKKEEPING)]
    for name, value in sorted(held, key=lambda one: one[0].startswith("_")):
        yield f"{path}.{name}", value
        if isinstance(value, (list, tuple)):
            yield from ((f"{path}.{name}[{i}]", v) for i, v in enumerate(value))
        elif isinstance(value, dict):
            yield from ((f"{path}.{name}[{k!r}]", v) for k, v in value.items())
