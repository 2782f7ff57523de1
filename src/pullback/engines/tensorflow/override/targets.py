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

from pullback.engines.tensorflow.override.op_names import (
    innermost,
    is_one_op,
    label,
    op_types_of,
    public_name,
)
from pullback.engines.tensorflow.override.places import Where
from pullback.engines.tensorflow.override.scope import PatchedFunction
from pullback.engines.tensorflow.tf_private import overriding
from pullback.errors import RuleSignatureError, TargetError
from pullback.extend import (
    Entry,
    Inside,
    Resolved,
    label_of,
    narrowest_first,
    original_code,
    running,
)
from pullback.extend import Where as Predicate

LAYER_CALL = "layer call"  # the key under which lines about layers are found


Dispatch = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class OpLine:
    """A target that is matched op by op."""

    parts: tuple[Any, ...]
    predicate: Callable[[Any], bool] | None = None
    pattern: re.Pattern[str] | None = None
    is_one_op = False

    @functools.cached_property
    def is_plain(self) -> bool:
        """Whether every op of the type is meant."""
        return not self.parts and self.predicate is None and self.pattern is None

    def accepts(self, where: Where) -> bool:
        """Whether an op of the right type, at this place, is meant."""
        if self.pattern is not None and not name_matches(self.pattern, where.name):
            return False
        if self.predicate is not None and not self.predicate(where.place):
            return False
        return all(is_inside(part, where) for part in self.parts)


@dataclasses.dataclass(frozen=True)
class CallLine:
    """A target that is one unit, however many ops it runs: a function or a layer."""

    parts: tuple[Any, ...]
    instance: Any = None  # only calls on this object
    kind: type | None = None  # only calls on objects of this class
    pattern: re.Pattern[str] | None = None
    drop_self: bool = False
    op_types: tuple[str, ...] = ()  # what stands for it in a graph without Python source
    is_one_op: bool = False  # calling it is running that op, no more and no less

    @functools.cached_property
    def is_plain(self) -> bool:
        """Whether every call of the function is meant."""
        return (
            not self.parts and self.instance is None and self.kind is None and self.pattern is None
        )

    def accepts(self, where: Where) -> bool:
        """Whether a call on this object, or the op that stands for it in a graph without source, is meant."""
        meant = self._is_for(where.owner) if where.in_source else where.type in self.op_types
        return meant and all(is_inside(part, where) for part in self.parts)

    def _is_for(self, owner: Any) -> bool:
        if self.instance is not None:
            return is_same(owner, self.instance)
        if self.kind is not None:
            return isinstance(owner, self.kind)
        if self.pattern is not None:
            return any(map(self.pattern.fullmatch, layer_names(owner)))
        return True


def layer_names(layer: Any) -> list[str]:
    """The names of a layer: its own and, if it has one, its path."""
    return [name for name in (layer.name, getattr(layer, "path", None)) if name]


def is_same(owner: Any, instance: Any) -> bool:
    """Whether this is the object, or was made from it by an override."""
    link = getattr(owner, "_pullback_link", None)
    return owner is instance or getattr(link, "source", None) is instance


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


def resolve(entries: Sequence[Entry], on_call: Dispatch, on_layer_call: Dispatch) -> Resolved:
    """The lines of an override in the form in which they are matched; calls go to these functions."""
    resolver = _Resolver(on_call, on_layer_call)
    for entry in narrowest_first(entries):
        resolver.resolve(entry, entry.target, ())
    return resolver.resolved


class _Resolver:
    """The making of the lines."""

    def __init__(self, on_call: Dispatch, on_layer_call: Dispatch) -> None:
        self.resolved = Resolved()
        self._on_call = on_call
        self._on_layer_call = on_layer_call

    def resolve(self, entry: Entry, target: Any, parts: tuple[Any, ...]) -> None:
        """Add the lines of a target."""
        resolved = self.resolved
        if isinstance(target, Inside):
            self._watch_part(target.part)
            self.resolve(entry, target.target, (*parts, target.part))
        elif isinstance(target, str):
            _refuse(entry, "variables", "functions and layers read", "an op type")
            resolved.add(checked_type(target), entry, OpLine(parts))
        elif isinstance(target, Predicate):
            _refuse(entry, "variables", "functions and layers read", "made of single ops")
            resolved.anywhere.append((entry, OpLine(parts, predicate=target.predicate)))
        elif isinstance(target, re.Pattern):
            resolved.anywhere.append((entry, OpLine(parts, pattern=target)))
            self._layer_line(entry, CallLine(parts, pattern=target))
        elif isinstance(target, keras.Layer):
            self._layer_line(entry, CallLine(parts, instance=target))
        elif isinstance(target, type):
            self._layer_line(entry, CallLine(parts, kind=_layer_class(target)))
        else:
            self._function_lines(entry, target, parts)

    def _layer_line(self, entry: Entry, line: CallLine) -> None:
        _refuse(entry, "attrs", "ops have", "a function or layer")
        self.resolved.add(LAYER_CALL, entry, line)
        self._intercept(layer_call_function(), self._on_layer_call)

    def _function_lines(self, entry: Entry, target: Any, parts: tuple[Any, ...]) -> None:
        _refuse(entry, "attrs", "ops have", "a function or layer")
        for function, instance, drop_self in functions_of(target):
            types_ = op_types_of(target) if instance is None and not drop_self else ()
            one_op = (
                bool(types_) and is_one_op(function) and "variables" not in entry.rule.requested
            )
            line = CallLine(parts, instance, None, None, drop_self, types_, one_op)
            self.resolved.add(function, entry, line)
            self._intercept(function, self._on_call)
            if one_op:
                self.resolved.one_op_types |= set(types_)

    def _intercept(self, function: types.FunctionType, dispatch: Dispatch) -> None:
        patch = functools.partial(PatchedFunction.of, function, dispatch)
        self.resolved.patches.setdefault(function, patch)

    def _watch_part(self, part: Any) -> None:
        """Make it known, while the part runs, that it does."""
        self.resolved.tracks = True
        if isinstance(part, (keras.Layer, re.Pattern, type)):
            self._intercept(layer_call_function(), self._on_layer_call)
            return
        for function, _, _ in functions_of(part):
            self.resolved.by_handle.setdefault(function, [])
            self._intercept(function, self._on_call)


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
        return [(function, None, False), *((f, None, True) for f in _symbolic_twins(function))]
    call = inspect.getattr_static(type(target), "__call__", None)
    if isinstance(call, types.FunctionType) and not isinstance(target, (int, float)):
        return [(innermost(call), target, True)]
    raise TargetError(
        f"{target!r} cannot be a target: it is no function, op type, layer or layer class. "
        'Write for example `tf.stack`, "Pack", `model.layers[3]`, `keras.layers.ReLU` or `re.compile("block3.*")`.'
    )


def _symbolic_twins(function: types.FunctionType) -> list[types.FunctionType]:
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
    raise TargetError(_unknown_type(op_type))


def _unknown_type(op_type: str) -> str:
    hint = misnaming_hint(op_type)
    names = dir(tf.raw_ops)
    by_case = [n for n in names if n.lower() == op_type.lower()]
    if hint and not by_case:
        return f"TensorFlow has no op type {op_type!r}; {hint}"
    close = by_case or difflib.get_close_matches(op_type, names, 3, 0.6)
    hint = (
        f"Did you mean {' or '.join(map(repr, close))}?" if close else "Nothing has a similar name."
    )
    return f"TensorFlow has no op type {op_type!r}. {hint}"


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
