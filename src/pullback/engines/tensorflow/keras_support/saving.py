"""Functions with their own gradient in `.keras` files.

A file holds the way to make the function again: the verb and its parts. A part is a Keras object, a plain value, or a
function by name; names are looked up among the custom objects first, then in modules that are loaded already. Nothing
is imported because a file says so.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import keras

from pullback.errors import ExportError
from pullback.extend import RECIPES, GradientFunction

_REFERENCE = "pullback_function"


def install() -> None:
    """Let Keras save and load functions with their own gradient."""
    GradientFunction.get_config = _get_config  # type: ignore[attr-defined]
    GradientFunction.from_config = classmethod(_from_config)  # type: ignore[attr-defined]
    keras.saving.register_keras_serializable(package="pullback")(GradientFunction)


def described(recipe: tuple[Any, ...]) -> dict[str, Any]:
    """A recipe (verb and parts) as plain data."""
    verb, parts = recipe
    return {"verb": verb.__name__, "parts": [_describe(part) for part in parts]}


def remade(description: dict[str, Any]) -> Any:
    """What a recipe makes."""
    parts = [_restore(part) for part in description["parts"]]
    return RECIPES[description["verb"]](*parts)


def _get_config(self: GradientFunction) -> dict[str, Any]:
    if self.__reduce__() == self.__qualname__:
        return {"by_name": _reference(self)}
    return {"recipe": described(self._make)}


def _from_config(cls: type, config: dict[str, Any]) -> Any:
    del cls
    return _find(config["by_name"]) if "by_name" in config else remade(config["recipe"])


def _describe(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: _describe(value) for key, value in part.items()}
    if isinstance(part, (types.FunctionType, types.BuiltinFunctionType, type)):
        return {_REFERENCE: _reference(part)}
    return keras.saving.serialize_keras_object(part)


def _restore(part: Any) -> Any:
    if isinstance(part, dict) and _REFERENCE in part:
        return _find(part[_REFERENCE])
    if isinstance(part, dict) and "class_name" not in part:
        return {key: _restore(value) for key, value in part.items()}
    return keras.saving.deserialize_keras_object(part)


def _reference(function: Any) -> dict[str, str]:
    name, module = function.__qualname__, function.__module__
    if "<" in name:
        raise ExportError(
            f"the function {name} of {module} cannot be found again by name when the file is loaded. "
            "Define it at the top level of a module, with `def` and a name of its own."
        )
    return {"module": module, "name": name}


def _find(reference: dict[str, str]) -> Any:
    name = reference["name"]
    custom = keras.saving.get_registered_object(name) or keras.saving.get_custom_objects().get(name)
    if custom is not None:
        return custom
    found: Any = sys.modules.get(reference["module"])
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise ExportError(
            f"the file names the function {name} of {reference['module']}, which this process does not have. "
            f"Import that module before loading, or pass custom_objects={{{name!r}: your_function}}."
        )
    return found
