"""Targets in TensorFlow and Keras: which ops and which functions a line of an override means."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import re
import types
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from pullback.engines.tensorflow.override.aliases import aliases_of
from pullback.engines.tensorflow.override.op_names import (
    innermost,
    is_one_op,
    label,
    op_types_of,
    public_name,
)
from pullback.engines.tensorflow.override.places import Where
from pullback.engines.tensorflow.override.regions import LAYER_CALL, on_call, on_layer_call
from pullback.engines.tensorflow.override.scope import PatchedFunction
from pullback.engines.tensorflow.tf_private import overriding
from pullback.errors import RuleSignatureError, TargetError
from pullback.extend import (
    Entry,
    Inside,
    Line,
    Resolved,
    label_of,
    narrowest_first,
    original_code,
    refuse_twice,
    running,
    target_key,
)
from pullback.extend import Where as Predicate

# TensorFlow puts these at the ends of functions, branches and loops: in a graph without source they tell nothing.
IN_EVERY_GRAPH = frozenset({"Identity", "IdentityN"})
Conditions = tuple[Callable[[Where], bool], ...]


def layer_names(layer: Any) -> list[str]:
    """The names of a layer: its own and, if it has one, its path."""
    return [name for name in (layer.name, getattr(layer, "path", None)) if name]


def is_same(owner: Any, instance: Any) -> bool:
    """Whether these are one object, or were made from one by overrides."""
    return owner is instance or origin(owner) is origin(instance)


def origin(value: Any) -> Any:
    """What an overridden object was made from; anything else as it is."""
    while (link := getattr(value, "_pullback_link", None)) is not None:
        value = link.source
    return value


def _called_on(instance: Any) -> Conditions:
    return () if instance is None else (lambda w: is_same(w.owner, instance),)


def is_inside(part: Any, where: Where) -> bool:
    """Whether a part of the program is running here."""
    now = running.get()
    if isinstance(part, re.Pattern):
        names = [n for r in now if isinstance(r, keras.Layer) for n in layer_names(r)]
        return any(name_matches(part, n) for n in names) or is_scope_inside(part, where.name)
    if not where.in_source and is_scope_inside(part, where.name):
        return True
    if isinstance(part, type):
        return any(isinstance(r, part) for r in now)
    if isinstance(part, keras.Layer):
        return any(is_same(r, part) for r in now)
    return any(r is function for function, _, _ in functions_of(part) for r in now)


def resolve(entries: Sequence[Entry]) -> Resolved:
    """The lines of an override in the form in which they are matched."""
    refuse_twice(entries, [meaning(entry.target) for entry in entries])
    lines = _Lines()
    for entry in narrowest_first(entries):
        lines.resolve(entry, entry.target, ())
    lines.add_aliases()
    return lines


def meaning(target: Any) -> Any:
    """What a target comes to, whichever of its names was used."""
    if not isinstance(target, types.FunctionType):
        return target_key(target)
    function = innermost(target)
    return target_key([function, *(alias.function for alias in aliases_of(function))][-1])


class _Lines(Resolved):
    """The lines of an override, found by the kind of each target."""

    def __init__(self) -> None:
        super().__init__()
        self._aliases: list[tuple[types.FunctionType, Entry, Line]] = []

    def resolve(self, entry: Entry, target: Any, conditions: Conditions) -> None:
        """Add the lines of a target."""

        def when(holds: Callable[[Where], bool]) -> Line:
            return Line((*conditions, holds))

        if isinstance(target, Inside):
            self._watch_part(target.part)
            inside = functools.partial(is_inside, target.part)
            self.resolve(entry, target.target, (*conditions, inside))
        elif isinstance(target, str):
            _refuse(entry, "variables", "functions and layers read", "an op type")
            self.add(checked_type(target), entry, Line(conditions))
        elif isinstance(target, Predicate):
            _refuse(entry, "variables", "functions and layers read", "made of single ops")
            self.anywhere.append((entry, when(lambda w: target.predicate(w.place))))
        elif isinstance(target, re.Pattern):
            self.anywhere.append((entry, when(lambda w: name_matches(target, w.name))))
            self._layers(entry, when(lambda w: any(map(target.fullmatch, layer_names(w.owner)))))
        elif isinstance(target, keras.Layer):
            self._layers(entry, Line((*conditions, *_called_on(target))))
        elif isinstance(target, type):
            kind = _layer_class(target)
            self._layers(entry, when(lambda w: isinstance(w.owner, kind)))
        else:
            self._functions(entry, target, conditions)

    def _layers(self, entry: Entry, line: Line) -> None:
        _refuse(entry, "attrs", "ops have", "a function or layer")
        self.add(LAYER_CALL, entry, line)
        self._intercept(layer_call_function(), on_layer_call)

    def _functions(self, entry: Entry, target: Any, conditions: Conditions) -> None:
        _refuse(entry, "attrs", "ops have", "a function or layer")
        reads = "variables" in entry.rule.requested
        for function, instance, is_method in functions_of(target):
            where = (*conditions, *_called_on(instance))
            if is_method:
                self._function(function, entry, Line(where, is_method=True))
                continue
            self._function(function, entry, _line_of(function, where, reads=reads))
            for alias, names in aliases_of(function):
                line = _line_of(alias, where, reads=reads)
                self._aliases.append((alias, entry, dataclasses.replace(line, names=names)))

    def _function(self, function: types.FunctionType, entry: Entry, line: Line) -> None:
        self.add(function, entry, line)
        self._intercept(function, on_call)
        if line.is_one_op:
            self.one_op_types |= set(line.op_types)

    def add_aliases(self) -> None:
        """Add the lines of functions that targets are other names for, after those that were named themselves."""
        for function, entry, line in self._aliases:
            self._function(function, entry, line)

    def _watch_part(self, part: Any) -> None:
        """Make it known, while the part runs, that it does."""
        self.tracks = True
        if isinstance(part, (keras.Layer, re.Pattern, type)):
            self._intercept(layer_call_function(), on_layer_call)
            return
        for function, _, _ in functions_of(part):
            self.by_handle.setdefault(function, [])
            self._intercept(function, on_call)

    def _intercept(self, function: types.FunctionType, dispatch: Callable[..., Any]) -> None:
        patch = functools.partial(PatchedFunction.of, function, dispatch)
        self.patches.setdefault(function, patch)


def _line_of(function: types.FunctionType, conditions: Conditions, *, reads: bool) -> Line:
    """The line of a function; one whose rule asks for variables needs more than the op."""
    op_types = tuple(set(op_types_of(function)) - IN_EVERY_GRAPH)
    return Line(conditions, op_types, bool(op_types) and is_one_op(function) and not reads)


def _layer_class(target: type) -> type:
    if issubclass(target, keras.Layer):
        return target
    raise TargetError(
        f"{label_of(target, label)} is a class, and no Keras layer class. Name a function, an op type such as 'Relu', "
        "a layer or a layer class."
    )


def functions_of(target: Any) -> list[tuple[types.FunctionType, Any, bool]]:
    """The Python functions behind a target: function, the object it must be called on, whether to hide that object."""
    if isinstance(target, functools.partial):
        raise TargetError(
            f"{target!r} is a partial; nobody but you holds it. "
            f"Target the function itself, {label_of(target.func, label)}."
        )
    python_function = getattr(target, "python_function", None)
    if python_function is not None:
        return functions_of(python_function)
    if isinstance(target, types.MethodType):
        return [(innermost(target.__func__), target.__self__, True)]
    if isinstance(target, types.FunctionType):
        function = innermost(target)
        return [(function, None, False), *((f, None, True) for f in symbolic_twins(function))]
    call = inspect.getattr_static(type(target), "__call__", None)
    if isinstance(call, types.FunctionType) and not isinstance(target, (int, float)):
        return [(innermost(call), target, True)]
    raise TargetError(
        f"{target!r} cannot be a target: it is no function, op type, layer or layer class. "
        'Write for example `tf.stack`, "Pack", `model.layers[3]`, `keras.layers.ReLU` or `re.compile("block3.*")`.'
    )


def symbolic_twins(function: types.FunctionType) -> list[types.FunctionType]:
    """In a functional model, `keras.ops.relu` is an operation object of its own, made when the model was built."""
    if not (function.__module__ or "").startswith("keras."):
        return []
    classes = [function.__globals__.get(name) for name in original_code(function).co_names]
    return [
        c.call
        for c in classes
        if isinstance(c, type)
        and issubclass(c, keras.Operation)
        and not issubclass(c, keras.Layer)
        and isinstance(c.call, types.FunctionType)
    ]


@functools.cache
def layer_call_function() -> types.FunctionType:
    """The function through which every Keras layer is called."""
    return inspect.unwrap(keras.Layer.__call__)


def _refuse(entry: Entry, name: str, only: str, kind: str) -> None:
    if name in entry.rule.required:
        raise RuleSignatureError(
            f"rule {entry.rule} asks for `{name}`, which only {only}, but its target {entry.label} is {kind}. "
            "Ask for `inputs`, or choose another target."
        )


def checked_type(op_type: str) -> str:
    """The op type, if TensorFlow has it."""
    if overriding.op_def_registry.get(op_type) is not None:
        return op_type
    names = dir(tf.raw_ops)
    by_case = [n for n in names if n.lower() == op_type.lower()]
    hint = misnaming_hint(op_type)
    if hint and not by_case:
        raise TargetError(f"TensorFlow has no op type {op_type!r}; {hint}")
    close = by_case or difflib.get_close_matches(op_type, names, 3, 0.6)
    similar = f"Did you mean {' or '.join(map(repr, close))}?" if close else ""
    raise TargetError(
        f"TensorFlow has no op type {op_type!r}. {similar or 'Nothing has a similar name.'} "
        f"A layer of that name is `model.get_layer({op_type!r})` or `re.compile({op_type!r})`: a string is an op type."
    )


def misnaming_hint(op_type: str) -> str | None:
    """A word on op types that are called otherwise than the function that runs them."""
    called = getattr(tf, op_type.lower(), None) or getattr(tf.nn, op_type.lower(), None)
    runs = op_types_of(called) if isinstance(called, types.FunctionType) else ()
    if not runs or op_type in runs:
        return None
    return (
        f"{public_name(called) or op_type.lower()} runs {runs[0]!r}. "
        f"Write {runs[0]!r}, or target the function itself."
    )


def is_scope_inside(part: Any, name: str) -> bool:
    """Whether an op of this name, in a graph without Python source, lies in a part of the program."""
    scopes = name.split("/")[:-1]
    if isinstance(part, keras.Layer):
        return any(name_matches(re.compile(re.escape(part.name)), scope) for scope in scopes)
    if not isinstance(part, re.Pattern):
        return False
    prefixes = ["/".join(scopes[: i + 1]) for i in range(len(scopes))]
    return any(name_matches(part, scope) for scope in (*scopes, *prefixes))


_NUMBERED = re.compile(r"_\d+(?=/|$)")


def name_matches(pattern: re.Pattern[str], name: str) -> bool:
    """Whether a name matches, as it is or without the numbers that TensorFlow appends."""
    return bool(pattern.fullmatch(name) or pattern.fullmatch(_NUMBERED.sub("", name)))
