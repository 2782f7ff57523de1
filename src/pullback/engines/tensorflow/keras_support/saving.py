"""Functions with their own gradient, and overrides, in `.keras` files.

A file holds the way to make a function again (the verb and its parts), or the lines of an override. A part is a Keras
object, a plain value, or a function by name: `names_in_files` says which names a file may have.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.keras_support.lines import LayerAt, Lines
from pullback.engines.tensorflow.names_in_files import (
    chosen,
    keras_object,
    named,
    parts,
    passed,
    written,
)
from pullback.errors import ExportError
from pullback.extend import (
    DEFAULT,
    READY,
    RECIPES,
    GradientFunction,
    Inside,
    ReadyRule,
    Where,
    find,
    provide,
    reference_to,
)

_REFERENCE = "pullback_function"
_READY = "pullback_rule"
_DEFAULT = "DEFAULT"  # in place of a rule


class SavedFunction:
    """What Keras makes functions with their own gradient from, when it reads a file."""

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The function that a file describes."""
        if "by_name" in config:
            return named(config["by_name"])
        return remade(*parts(config, "recipe"))


class Kept:
    """A part of a configuration: the object itself for a copy made in this process, its description in a file."""

    def __init__(self, value: Any, describe: Callable[[Any], Any]) -> None:
        self.value = value
        self._describe = describe

    def get_config(self) -> dict[str, Any]:
        """What Keras writes to a file."""
        return {"described": self._describe(self.value)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> dict[str, Any]:
        """As it was written, for the formats in which Keras reads the parts first."""
        return {"config": config}

    @staticmethod
    def read(part: Any, live: Callable[[Any], Any], restore: Callable[[Any], Any]) -> Any:
        """What a part of a configuration stands for."""
        return live(part.value) if isinstance(part, Kept) else restore(_described(part))


def _described(part: Any) -> Any:
    (config,) = parts(part, "config")
    return parts(config, "described")[0]


class SavedOverride:
    """What Keras makes layers and models under an override from, when it reads a file."""

    __slots__ = ()

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The layer or model, under its override, that a configuration describes."""
        if "lines" not in config:  # of the layer's own class, for which Keras takes this one
            return vars(cls)["__pullback_class__"].from_config(config)
        with passed(custom_objects):
            model, lines, strict, is_part = parts(config, "model", "lines", "strict", "is_part")
            model = Kept.read(model, copy_of, keras_object)
            pairs = [
                (Kept.read(target, _same, _target), Kept.read(rule, _same, _rule))
                for target, rule in (parts(line, "target", "rule") for line in lines)
            ]
        return Lines(pairs, strict, is_part).applied_to(model)


OVERRIDDEN = keras.saving.register_keras_serializable("pullback", "Overridden")


def copy_of(model: Any) -> Any:
    """A Keras object with the same configuration, and weights of its own."""
    return type(model).from_config(model.get_config())


def _same(value: Any) -> Any:
    return value


def kept_function(value: Any, what: str) -> Any:
    """A function as an option of a layer: itself in a copy, by its name in a file. A list is in no file at all."""

    def named(function: Any) -> str:
        if not callable(function):
            raise ExportError(
                f"{what}, a {type(function).__name__}, cannot be written to a file, which has functions alone, by name."
            )
        return written(function, f"{what}, {function!r},")

    return Kept(value, named)


def function_in(option: Any) -> Any:
    """What such an option stands for; anything else is as it came."""
    inner: Any = option.get("config") if isinstance(option, dict) else None
    is_kept = isinstance(option, Kept) or (isinstance(inner, dict) and "described" in inner)
    return Kept.read(option, _same, named) if is_kept else option


def install() -> None:
    """Let Keras save and load functions with their own gradient, and what runs under an override."""
    provide("get_config", lambda function: functools.partial(_function_config, function))
    keras.saving.register_keras_serializable(package="pullback")(GradientFunction)
    # Keras writes by the class of an object, and reads by `from_config`, which that class does not have.
    keras.saving.get_custom_objects()["pullback>GradientFunction"] = SavedFunction
    keras.saving.get_custom_objects()["pullback>Overridden"] = SavedOverride
    keras.saving.register_keras_serializable("pullback")(Kept)


def described(recipe: tuple[Any, ...]) -> dict[str, Any]:
    """A recipe (verb and parts) as plain data."""
    verb, parts = recipe
    return {"verb": verb.__name__, "parts": [_describe(part) for part in parts]}


def remade(description: dict[str, Any]) -> Any:
    """What a recipe makes."""
    name, described = parts(description, "verb", "parts")
    verb = chosen(RECIPES, name, "a way to make a function")
    return verb(*[_restore(part) for part in described])


def copied(recipe: tuple[Any, ...]) -> Any:
    """What a recipe makes of copies of its parts."""
    verb, parts = recipe
    is_object = (keras.Layer, keras.losses.Loss)
    return verb(*[copy_of(part) if isinstance(part, is_object) else part for part in parts])


def override_config(lines: Lines, model: Any) -> dict[str, Any]:
    """What Keras must have to make a model and its override again."""
    described = [
        {"target": Kept(target, _target_spec), "rule": Kept(rule, _rule_spec)}
        for target, rule in lines.pairs
    ]
    return {
        "name": model.name,
        "model": Kept(model, keras.saving.serialize_keras_object),
        "lines": described,
        "strict": lines.strict,
        "is_part": lines.is_part,
    }


def _function_config(function: GradientFunction) -> dict[str, Any]:
    reduced, reference = function.__reduce__(), reference_to(function)
    around = find(reference)  # which the ready-made functions are in
    is_around = (
        around is not function.__wrapped__ and inspect.unwrap(around) is function.__wrapped__
    )
    if isinstance(reduced, str) or is_around:
        return {
            "by_name": written(around, f"the function {reference.name!r} of {reference.module}")
        }
    return {"recipe": described(reduced)}


def _describe(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: _describe(value) for key, value in part.items()}
    if callable(part) and not isinstance(part, ReadyRule) and not hasattr(part, "get_config"):
        what = "the function {0.name} of {0.module}".format(reference_to(part))
        return {_REFERENCE: written(part, what)}
    if isinstance(part, ReadyRule):
        return {_READY: _ready_spec(part)}
    return keras.saving.serialize_keras_object(part)


def _restore(part: Any) -> Any:
    if isinstance(part, dict) and _REFERENCE in part:
        return named(part[_REFERENCE])
    if isinstance(part, dict) and _READY in part:
        return _ready_rule(part[_READY])
    if isinstance(part, dict) and "class_name" not in part:
        return {key: _restore(value) for key, value in part.items()}
    return keras_object(part)


def _target_spec(target: Any) -> dict[str, Any]:
    if isinstance(target, Inside):
        return {"inside": _target_spec(target.part), "target": _target_spec(target.target)}
    if isinstance(target, str):
        return {"op": target}
    if isinstance(target, re.Pattern):
        return {"pattern": target.pattern, "flags": target.flags}
    if isinstance(target, LayerAt):
        return {"layer": target.name, "place": target.place}
    if isinstance(target, Where):
        return {"where": _reference(target.predicate, "the predicate of pb.where")}
    return {"function": _reference(target, "the target", is_target=True)}


def _target(spec: dict[str, Any]) -> Any:
    if "inside" in spec:
        return Inside(*map(_target, parts(spec, "inside", "target")))
    if "pattern" in spec:
        pattern, flags = parts(spec, "pattern", "flags")
        return re.compile(pattern, flags & ~re.DEBUG)  # which prints
    if "layer" in spec:
        return LayerAt(*parts(spec, "layer", "place"))
    if "where" in spec:
        return Where(named(spec["where"]))
    return spec["op"] if "op" in spec else named(*parts(spec, "function"), is_target=True)


def _rule_spec(rule: Any) -> Any:
    if isinstance(rule, list):
        return list(map(_rule_spec, rule))
    if rule is None or rule is DEFAULT:
        return rule and _DEFAULT
    return _ready_spec(rule) if isinstance(rule, ReadyRule) else _reference(rule, "the rule")


def _rule(spec: Any) -> Any:
    if isinstance(spec, list):
        return list(map(_rule, spec))
    if isinstance(spec, dict):
        return _ready_rule(spec)
    return {None: None, _DEFAULT: DEFAULT}[spec] if spec in (None, _DEFAULT) else named(spec)


def _ready_spec(rule: ReadyRule) -> dict[str, Any]:
    """A ready-made rule by its name and options."""
    remake, (name, options) = rule.recipe
    written = {key: _option_spec(rule, key, value) for key, value in options.items()}
    return {"recipe": remake.__name__, "name": name, "options": written}


def _ready_rule(spec: dict[str, Any]) -> Any:
    name, verb, described = parts(spec, "name", "recipe", "options")
    options = {key: _option(value) for key, value in described.items()}
    chosen(READY, name, "a ready-made rule")
    return chosen(RECIPES, verb, "a way to make a rule")(name, options)


def _option_spec(rule: ReadyRule, key: str, value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (np.ndarray, np.generic)) or (
        tf.is_tensor(value) and not _may_change(value)
    ):
        return np.asarray(value).tolist()
    if callable(value) and not _may_change(value):
        return {_REFERENCE: _reference(value, f"{key} of {rule!r}:")}
    raise ExportError(
        f"pb.rules.{rule.name} cannot be written to a file with its {key}, {type(value).__name__}, which may change. "
        "Use a number or a function of a module, or a layer of pb.keras, which keeps such a number as a weight."
    )


def _may_change(value: Any) -> bool:
    return hasattr(value, "assign") or (not hasattr(value, "numpy") and tf.is_tensor(value))


def _option(spec: Any) -> Any:
    return named(*parts(spec, _REFERENCE)) if isinstance(spec, dict) else spec


def _reference(value: Any, what: str, *, is_target: bool = False) -> str:
    named_so = f"{what} {getattr(value, '__qualname__', value)!r}"
    return written(value, named_so, _EXPORT, is_target=is_target)


_EXPORT = "; or write the model without pullback: `pb.export(model, path)`"
