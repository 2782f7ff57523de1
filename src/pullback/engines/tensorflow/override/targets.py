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

from pullback._targets import Entry, Inside, Where, label_of, narrowest_first
from pullback.engines.tensorflow.override import calls
from pullback.engines.tensorflow.override.op_names import is_one_op, op_types_of, public_name
from pullback.engines.tensorflow.tf_private import overriding as private
from pullback.errors import RuleSignatureError, TargetError

LAYER_CALL = "layer call"  # the key under which lines about layers are found


@dataclasses.dataclass(frozen=True)
class OpLine:
    """A target that is matched op by op."""

    parts: tuple[Any, ...]
    predicate: Callable[[Any], bool] | None = None
    pattern: re.Pattern[str] | None = None

    @functools.cached_property
    def is_plain(self) -> bool:
        """Whether every op of the type is meant."""
        return not self.parts and self.predicate is None and self.pattern is None

    def accepts(self, where: Any) -> bool:
        """Whether an op of the right type, at this place, is meant."""
        from pullback.engines.tensorflow.override.regions import is_inside

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

    def is_for(self, owner: Any) -> bool:
        """Whether a call on this object is meant."""
        if self.instance is not None:
            return is_same(owner, self.instance)
        if self.kind is not None:
            return isinstance(owner, self.kind)
        if self.pattern is not None:
            return any(self.pattern.fullmatch(n) for n in (owner.name, getattr(owner, "path", "")))
        return True


def is_same(owner: Any, instance: Any) -> bool:
    """Whether this is the object, or was made from it by an override."""
    return (
        owner is instance
        or getattr(getattr(owner, "_pullback_link", None), "source", None) is instance
    )


Lines = list[tuple[Entry, Any]]


class Resolved:
    """The lines of an override, found by op type, by function, or to be tried on everything."""

    def __init__(self) -> None:
        self.by_type: dict[str, Lines] = {}
        self.by_function: dict[Any, Lines] = {}
        self.anywhere: Lines = []
        self.held: list[tuple[types.FunctionType, Any]] = []
        self.tracks = False  # whether it matters which parts are running
        self.expectable: frozenset[str] = (
            frozenset()
        )  # op types for which functions that are one op stand

    def hold(self, function: Any, dispatch: Any) -> None:
        """Note that calls of a function have to be intercepted."""
        if not any(f is function for f, _ in self.held):
            self.held.append((function, dispatch))


def resolve(entries: Sequence[Entry]) -> Resolved:
    """The lines of an override in the form in which they are matched."""
    resolved = Resolved()
    for entry in narrowest_first(entries):
        _resolve(resolved, entry, entry.target, ())
    return resolved


def _resolve(resolved: Resolved, entry: Entry, target: Any, parts: tuple[Any, ...]) -> None:
    if isinstance(target, Inside):
        _watch_part(resolved, target.part)
        _resolve(resolved, entry, target.target, (*parts, target.part))
    elif isinstance(target, str):
        _refuse(entry, "variables", "functions and layers read", "an op type")
        resolved.by_type.setdefault(checked_type(target), []).append((entry, OpLine(parts)))
    elif isinstance(target, Where):
        _refuse(entry, "variables", "functions and layers read", "made of single ops")
        resolved.anywhere.append((entry, OpLine(parts, predicate=target.predicate)))
    elif isinstance(target, re.Pattern):
        resolved.anywhere.append((entry, OpLine(parts, pattern=target)))
        _layer_line(resolved, entry, CallLine(parts, pattern=target))
    elif isinstance(target, keras.Layer):
        _layer_line(resolved, entry, CallLine(parts, instance=target))
    elif isinstance(target, type):
        _class_line(resolved, entry, target, parts)
    else:
        _function_line(resolved, entry, target, parts)


def _layer_line(resolved: Resolved, entry: Entry, line: CallLine) -> None:
    from pullback.engines.tensorflow.override.regions import on_layer_call

    _refuse(entry, "attrs", "ops have", "a function or layer")
    resolved.by_function.setdefault(LAYER_CALL, []).append((entry, line))
    resolved.hold(layer_call_function(), on_layer_call)


def _class_line(resolved: Resolved, entry: Entry, target: type, parts: tuple[Any, ...]) -> None:
    if not issubclass(target, keras.Layer):
        raise TargetError(
            f"{label_of(target)} is a class, and no Keras layer class. Name a function, an op type such as 'Relu', a "
            "layer or a layer class."
        )
    _layer_line(resolved, entry, CallLine(parts, kind=target))


def _function_line(resolved: Resolved, entry: Entry, target: Any, parts: tuple[Any, ...]) -> None:
    from pullback.engines.tensorflow.override.regions import on_call

    _refuse(entry, "attrs", "ops have", "a function or layer")
    for function, instance, drop_self in functions_of(target):
        types_ = op_types_of(target) if instance is None and not drop_self else ()
        line = CallLine(
            parts,
            instance=instance,
            drop_self=drop_self,
            op_types=types_,
            is_one_op=bool(types_) and is_one_op(function) and "variables" not in entry.rule.wants,
        )
        resolved.by_function.setdefault(function, []).append((entry, line))
        resolved.hold(function, on_call)
        if line.is_one_op:
            resolved.expectable |= set(types_)


def _watch_part(resolved: Resolved, part: Any) -> None:
    """Make it known, while the part runs, that it does."""
    from pullback.engines.tensorflow.override.regions import on_call, on_layer_call

    resolved.tracks = True
    if isinstance(part, (keras.Layer, re.Pattern, type)):
        resolved.hold(layer_call_function(), on_layer_call)
        return
    for function, _, _ in functions_of(part):
        resolved.by_function.setdefault(function, [])
        resolved.hold(function, on_call)


def functions_of(target: Any) -> list[tuple[types.FunctionType, Any, bool]]:
    """The Python functions behind a target: function, the object it must be called on, whether to hide that object."""
    if isinstance(target, functools.partial):
        raise TargetError(
            f"{target!r} is a partial; nobody but you holds it. Target the function itself, {label_of(target.func)}."
        )
    python_function = getattr(target, "python_function", None)
    if python_function is not None:
        return functions_of(python_function)
    if isinstance(target, types.MethodType):
        return [(calls.innermost(target.__func__), target.__self__, True)]
    if isinstance(target, types.FunctionType):
        function = calls.innermost(target)
        return [(function, None, False), *((f, None, True) for f in _symbolic_twins(function))]
    call = inspect.getattr_static(type(target), "__call__", None)
    if isinstance(call, types.FunctionType) and not isinstance(target, (int, float)):
        return [(calls.innermost(call), target, True)]
    raise TargetError(
        f"{target!r} cannot be a target: it is no function, op type, layer or layer class. "
        'Write for example `tf.stack`, "Pack", `model.layers[3]`, `keras.layers.ReLU` or `re.compile("block3.*")`.'
    )


def _symbolic_twins(function: types.FunctionType) -> list[types.FunctionType]:
    """In a functional model, `keras.ops.relu` is an operation object of its own, made when the model was built."""
    if not (function.__module__ or "").startswith("keras."):
        return []
    held = calls.held_of(function)
    names = (held.code if held else function.__code__).co_names
    classes = [function.__globals__.get(name) for name in names]
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


def _refuse(entry: Entry, wish: str, only: str, kind: str) -> None:
    if entry.rule.requires(wish):
        raise RuleSignatureError(
            f"rule {entry.rule} asks for `{wish}`, which only {only}, but its target {entry.label} is {kind}. "
            "Ask for `inputs`, or choose another target."
        )


def checked_type(op_type: str) -> str:
    """The op type, if TensorFlow has it."""
    if private.op_def_registry.get(op_type) is not None:
        return op_type
    raise TargetError(_unknown_type(op_type))


def _unknown_type(op_type: str) -> str:
    trap = trap_of(op_type)
    names = dir(tf.raw_ops)
    by_case = [n for n in names if n.lower() == op_type.lower()]
    if trap and not by_case:
        return f"TensorFlow has no op type {op_type!r}; {trap}"
    close = by_case or difflib.get_close_matches(op_type, names, 3, 0.6)
    hint = (
        f"Did you mean {' or '.join(map(repr, close))}?" if close else "Nothing has a similar name."
    )
    return f"TensorFlow has no op type {op_type!r}. {hint}"


def trap_of(op_type: str) -> str | None:
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
