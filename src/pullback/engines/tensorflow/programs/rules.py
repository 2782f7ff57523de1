"""Whose gradient runs at a node."""

from __future__ import annotations

import functools
from typing import Any

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach.recorded import Recorded
from pullback.engines.tensorflow.attach.registry import PREFIX
from pullback.engines.tensorflow.attach.splice import IdentityGradient
from pullback.engines.tensorflow.override.op_calls import OpCall, chain_gradient
from pullback.engines.tensorflow.programs.lines import place_of_function
from pullback.extend import ScopedRule, flow, package_of

NONE, STOPPED, UNRECORDED = flow.Rule("none"), flow.Rule("stopped"), flow.Rule("unrecorded")
OUTSIDE = flow.Rule("unrecorded", "outside")  # of the block of the tape that is asked
ASSIGNING = frozenset({"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"})
_LIBRARIES = frozenset({"tensorflow", "keras", "tf_keras"})
# The names under which wrappers of TensorFlow and Keras hold the user's backward function.
_RULES_IN = ("grad_fn", "tape_grad_fn", "grad", "custom_grad", "original_grad")
_DEEPEST = 6
_WRAPPED = "CustomGradient"  # how TensorFlow names the rules of functions under tf.custom_gradient


def of_type(op_type: str) -> flow.Rule:
    """The rule that is registered for an op type."""
    function = private.registered_gradient(op_type)
    return NONE if function is None else _of_registered(op_type, function)


@functools.lru_cache(maxsize=2048)
def _of_registered(op_type: str, function: Any) -> flow.Rule:
    return flow.Rule("engine") if _is_library(function) else _custom(op_type, function)


def of_recorded(name: Any, backward: Any) -> flow.Rule:
    """The rule of an operation that was recorded with a backward function."""
    recorded = getattr(backward, "__self__", None)
    if isinstance(recorded, Recorded):
        return _ours(recorded)
    text = name.decode() if isinstance(name, bytes) else str(name)
    function = innermost(backward)
    return flow.Rule("engine", text) if _is_library(function) else _custom(text, function)


def of_marked(operation: Any, gradient: Any) -> flow.Rule:
    """The rule of an op of a graph that has been given a gradient of its own."""
    gradient = getattr(gradient, "function", gradient) if _is_of_ours(gradient) else gradient
    if isinstance(gradient, IdentityGradient):
        recorded = getattr(gradient.backward, "__self__", None)
        return _ours(recorded) if isinstance(recorded, Recorded) else flow.Rule("pullback")
    if isinstance(gradient, functools.partial) and gradient.func is chain_gradient:
        bound = gradient.args[0][0]
        return _override(bound.entry.label, bound.rule)
    name, function = private.gradient_name_of(operation), innermost(gradient)
    title = _name_of(function, around=name.startswith(_WRAPPED)) if function else name
    return flow.Rule("engine", title) if _is_library(function) else _custom(title, function)


def _name_of(function: Any, *, around: bool) -> str:
    """The name of a rule, or of the function that it is written in."""
    parts = function.__qualname__.split(".<locals>.")
    return parts[-2] if around and len(parts) > 1 else parts[-1]


def _is_of_ours(gradient: Any) -> bool:
    return getattr(gradient, "__name__", "").startswith(PREFIX)


def _ours(recorded: Any) -> flow.Rule:
    call, rule = recorded.call, recorded.rule
    if isinstance(call, OpCall):
        return _override(call.bound.entry.label, call.bound.rule)
    if isinstance(rule, ScopedRule):
        return _override(call.name, rule)
    place = place_of_function(rule.function, call.definition.function)
    return flow.Rule("pullback", call.name, place)


def _override(target: str, rule: Any) -> flow.Rule:
    return flow.Rule("override", rule.name, place_of_function(rule.function), target)


def _custom(name: str, function: Any) -> flow.Rule:
    return flow.Rule("custom", name, place_of_function(function))


def innermost(wrapper: Any, depth: int = 0) -> Any:
    """The backward function inside what TensorFlow and Keras have wrapped around it; `None` where it has no code."""
    while isinstance(wrapper, functools.partial):
        wrapper = wrapper.func
    function = getattr(wrapper, "__func__", wrapper)
    if not hasattr(function, "__code__"):
        return None
    if not _is_library(function) or depth == _DEEPEST:
        return function
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    inner = [innermost(_contents(cells[name]), depth + 1) for name in _RULES_IN if name in cells]
    return next((found for found in inner if found is not None), function)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _is_library(function: Any) -> bool:
    return function is None or package_of(function) in _LIBRARIES
