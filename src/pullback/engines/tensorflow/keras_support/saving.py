"""Functions with their own gradient, and overrides, in `.keras` files.

A file holds the way to make a function again (the verb and its parts), or the lines of an override. A part is a Keras
object, a plain value, or a function by name; names are looked up among Keras' custom objects first, then in modules
that are loaded already. Nothing is imported because a file says so.
"""

from __future__ import annotations

import functools
import re
import types
from typing import Any

import keras

from pullback.engines.tensorflow.override.op_names import public_name
from pullback.errors import ExportError
from pullback.extend import (
    RECIPES,
    GradientFunction,
    Inside,
    Override,
    PerInput,
    Reference,
    find,
    provide,
    reference_to,
)

SAVED_AS = "PullbackOverridden"  # the class name of overridden models in files
_REFERENCE = "pullback_function"


class SavedFunction:
    """What Keras makes functions with their own gradient from, when it reads a file."""

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The function that a file describes."""
        if "by_name" in config:
            return _found(**config["by_name"])
        return remade(config["recipe"])


class SavedOverride:
    """What Keras makes layers and models under an override from, when it reads a file."""

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The layer or model, under its override, that a file describes."""
        with keras.saving.custom_object_scope(custom_objects or {}):
            model = keras.saving.deserialize_keras_object(config["model"])
            lines = [(_target(e["target"], model), _found_text(e["rule"])) for e in config["lines"]]
        return Override(lines, strict=config["strict"])(model)


def install() -> None:
    """Let Keras save and load functions with their own gradient, and what runs under an override."""
    provide("get_config", lambda function: functools.partial(_function_config, function))
    keras.saving.register_keras_serializable(package="pullback")(GradientFunction)
    # Keras writes by the class of an object, and reads by `from_config`, which that class does not have.
    keras.saving.get_custom_objects()["pullback>GradientFunction"] = SavedFunction
    keras.saving.get_custom_objects()[SAVED_AS] = SavedOverride


def described(recipe: tuple[Any, ...]) -> dict[str, Any]:
    """A recipe (verb and parts) as plain data."""
    verb, parts = recipe
    return {"verb": verb.__name__, "parts": [_describe(part) for part in parts]}


def remade(description: dict[str, Any]) -> Any:
    """What a recipe makes."""
    return RECIPES[description["verb"]](*[_restore(part) for part in description["parts"]])


def override_config(override: Override, model: Any) -> dict[str, Any]:
    """What a file must hold to make a model and its override again."""
    lines = [
        {"target": _target_spec(e.target, e.label), "rule": _rule_spec(e.rule.function)}
        for e in override.entries
    ]
    described_model = keras.saving.serialize_keras_object(model)
    return {"model": described_model, "lines": lines, "strict": override.strict}


def _function_config(function: GradientFunction) -> dict[str, Any]:
    reduced = function.__reduce__()
    if isinstance(reduced, str):
        return {"by_name": reference_to(function)._asdict()}
    return {"recipe": described(reduced)}


def _describe(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: _describe(value) for key, value in part.items()}
    if isinstance(part, (types.FunctionType, types.BuiltinFunctionType, type)):
        what = "the function {0.name} of {0.module}".format(reference_to(part))
        return {_REFERENCE: _written(part, what)._asdict()}
    return keras.saving.serialize_keras_object(part)


def _restore(part: Any) -> Any:
    if isinstance(part, dict) and _REFERENCE in part:
        return _found(**part[_REFERENCE])
    if isinstance(part, dict) and "class_name" not in part:
        return {key: _restore(value) for key, value in part.items()}
    return keras.saving.deserialize_keras_object(part)


def _target_spec(target: Any, label: str) -> dict[str, Any]:
    if isinstance(target, Inside):
        part, inner = _target_spec(target.part, label), _target_spec(target.target, label)
        return {"inside": part, "target": inner}
    if isinstance(target, str):
        return {"op": target}
    if isinstance(target, re.Pattern):
        return {"pattern": target.pattern}
    if isinstance(target, keras.Layer):
        return {"layer": target.name}
    return {"function": ":".join(_written(target, f"the target {label}", _EXPORT))}


def _target(spec: dict[str, Any], model: Any) -> Any:
    if "inside" in spec:
        return Inside(_target(spec["inside"], model), _target(spec["target"], model))
    readers = {
        "layer": model.get_layer, "op": str, "pattern": re.compile, "function": _found_text,
    }  # fmt: skip
    kind = next(name for name in readers if name in spec)
    return readers[kind](spec[kind])


def _rule_spec(rule: Any) -> str:
    if isinstance(rule, PerInput):
        raise ExportError(
            "a list of rules cannot be written to a file. Write one function that returns a list."
        )
    return ":".join(_written(rule, f"the rule {getattr(rule, '__name__', rule)!r}", _EXPORT))


_EXPORT = "; or write the model without pullback: `pb.export(model, path)`"


def _written(value: Any, what: str, otherwise: str = "") -> Reference:
    """The name under which loading finds this very object: a public one, which other versions have too, or its own."""
    root, _, path = (public_name(value) or "").partition(".")
    for reference in (Reference({"tf": "tensorflow"}.get(root, root), path), reference_to(value)):
        if find(reference, keras.saving.get_registered_object) is value:
            return reference
    raise ExportError(
        f"{what} cannot be written to a file, because loading could not find it again by its name. Define it at the "
        f"top level of a module that can be imported, with `def` and a name of its own{otherwise}."
    )


def _found(module: str, name: str) -> Any:
    found = find(Reference(module, name), keras.saving.get_registered_object)
    if found is None:
        raise ExportError(
            f"the file names the function {name} of {module}, which this process does not have. "
            f"Import that module before loading, or pass custom_objects={{{name!r}: your_function}}."
        )
    return found


def _found_text(text: str) -> Any:
    return _found(*text.split(":"))
