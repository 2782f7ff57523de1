"""Overrides in `.keras` files: targets and rules by name, so that loading finds the same code
again.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import keras

from pullback.engines.tensorflow.override.op_names import public_name
from pullback.errors import ExportError
from pullback.extend import Inside, Override, PerInput


def config_of(link: Any) -> dict[str, Any]:
    """What a file must hold to make the model and its override again."""
    lines = [
        {"target": _target_spec(e.target, e.label), "rule": _rule_spec(e.rule.function)}
        for e in link.override.entries
    ]
    model = keras.saving.serialize_keras_object(link.source)
    return {"model": model, "lines": lines, "strict": link.override.strict}


def from_config(config: dict[str, Any], custom_objects: Any = None) -> tuple[Override, Any]:
    """The override and the model out of what a file holds."""
    model = keras.saving.deserialize_keras_object(config["model"], custom_objects)
    lines = [(_target(line["target"], model), _found(line["rule"])) for line in config["lines"]]
    return Override(lines, strict=config["strict"]), model


def _target_spec(target: Any, label: str) -> dict[str, Any]:
    if isinstance(target, Inside):
        return {
            "inside": _target_spec(target.part, label),
            "target": _target_spec(target.target, label),
        }
    if isinstance(target, str):
        return {"op": target}
    if isinstance(target, re.Pattern):
        return {"pattern": target.pattern}
    if isinstance(target, keras.Layer):
        return {"layer": target.name}
    named = public_name(target)
    if named and not isinstance(target, type):
        root, _, rest = named.partition(".")
        return {"function": f"{'tensorflow' if root == 'tf' else root}:{rest}"}
    return {"function": _by_name(target, f"the target {label}")}


def _target(spec: dict[str, Any], model: Any) -> Any:
    if "inside" in spec:
        return Inside(_target(spec["inside"], model), _target(spec["target"], model))
    if "layer" in spec:
        return model.get_layer(spec["layer"])
    readers: dict[str, Callable[[str], Any]] = {
        "op": str,
        "pattern": re.compile,
        "function": _found,
    }
    kind = next(name for name in readers if name in spec)
    return readers[kind](spec[kind])


def _rule_spec(rule: Any) -> str:
    if isinstance(rule, PerInput):
        raise ExportError(
            "a list of rules cannot be written to a file. Write one function that returns a list."
        )
    return _by_name(rule, f"the rule {getattr(rule, '__name__', rule)!r}")


def _by_name(value: Any, what: str) -> str:
    name = f"{getattr(value, '__module__', '')}:{getattr(value, '__qualname__', '')}"
    try:
        found = _found(name)
    except (ExportError, AttributeError):
        found = None
    if found is not value:
        raise ExportError(
            f"{what} cannot be written to a file, because loading could not find it again. "
            "Define it at the top level of "
            "a module that can be imported; or write the model without pullback: `pb.export(model, path)`."
        )
    return name


def _found(name: str) -> Any:
    """What a name stands for, in modules that are loaded: nothing is imported because a file says so."""
    module, _, path = name.partition(":")
    if module not in sys.modules:
        raise ExportError(
            f"the file names {path!r} of the module {module!r}. Import that module before loading the file."
        )
    value: Any = sys.modules[module]
    for part in path.split("."):
        value = getattr(value, part)
    return value
