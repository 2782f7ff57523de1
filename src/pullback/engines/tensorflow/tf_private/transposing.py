"""Private parts of TensorFlow that show whether a gradient will be transposed, each with the reason.

TensorFlow does not say for which purpose it builds a backward pass. Its frames on the stack do: which method runs, and
what it was given.
"""
# Private symbols are what this folder is for, and TensorFlow types what it looks up as optional.
# pyright: reportPrivateUsage=false, reportOptionalMemberAccess=false

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.python import pywrap_tfe as _tfe
from tensorflow.python.eager import forwardprop as _forwardprop
from tensorflow.python.eager import record as _record
from tensorflow.python.eager.polymorphic_function import concrete_function as _functions
from tensorflow.python.ops import script_ops as _script_ops
from tensorflow.python.saved_model import function_deserialization as _loading

from pullback.engines.tensorflow import tf_private as _private

_Delayed = _functions._DelayedRewriteGradientFunctions
_Concrete = _functions.ConcreteFunction

# An operation is recorded on tapes alone; and whether any of them would record it.
record_backprop = _record.record_operation_backprop_only
should_record_backprop = _record.should_record_backprop
# Recording calls nobody back but for an accumulator that transposes a backward function.
_RECORDING: CodeType = _private.record_operation.__code__
# Transposes the gradient of one op of TensorFlow, with the accumulators put aside.
_TRANSPOSING: CodeType = _forwardprop._jvp_helper.__code__
# Builds the backward pass of a function for a tape or an accumulator.
_BUILDING: CodeType = _functions._TapeGradientFunctions._build_functions_for_outputs.__code__
# Chooses the backward pass of a function that is called.
_CHOOSING: CodeType = _Concrete._select_forward_and_backward_functions.__code__
# Both below look up what they keep by `get`, build it where it is missing, and put it in.
_REWRITING: CodeType = _Delayed._construct_forward_backward.__code__
_CALLING: CodeType = _Concrete._call_flat.__code__
# All of them, by identity: a code object takes long to hash.
TELLING = frozenset(
    id(code) for code in (_RECORDING, _TRANSPOSING, _BUILDING, _CHOOSING, _REWRITING, _CALLING)
)
# Makes a gradient function of one that a file holds.
_OF_A_FILE: Callable[[Any], Any] = _loading._gen_gradient_func
_KEPT_WHEN_REWRITING = "_cached_function_pairs"
_KEPT_WHEN_CALLING = "_higher_order_tape_functions"
# The names of TensorFlow's that the code below counts on, by the code that must use them.
USED_NAMES: dict[CodeType, tuple[str, ...]] = {
    _BUILDING: ("self", "inference_args", "input_tangents"),
    _CHOOSING: ("self", "args", _KEPT_WHEN_CALLING, "get"),
    _REWRITING: ("self",),
    _CALLING: ("self",),
    _Delayed.__init__.__code__: (_KEPT_WHEN_REWRITING,),
    _Delayed.forward_backward.__code__: (_KEPT_WHEN_REWRITING, "get"),
    _Concrete.__init__.__code__: (_KEPT_WHEN_CALLING,),
    _script_ops.EagerFunc.__init__.__code__: ("_func",),
    _script_ops._EagerPyFuncGrad.__code__: ("_py_funcs", "get"),
    _loading.load_function_def_library.__code__: ("_gen_gradient_func",),
}


class Store(NamedTuple):
    """Where a function keeps backward passes."""

    holder: Any
    attribute: str


def accumulator_is_open() -> bool:
    """Whether any accumulator computes tangents here."""
    return _tfe.TFE_Py_PackJVPs(())[0] != ()


def order_of_tangents(tensors: Sequence[Any]) -> int:
    """How many accumulators have tangents of any of these."""
    return sum(map(bool, _tfe.TFE_Py_PackJVPs(list(tensors))[0]))


def have_tangents(tensors: Sequence[Any]) -> bool:
    """Whether an accumulator has tangents of any of these."""
    return bool(_tfe.TFE_Py_PackJVPs(list(tensors))[1])


def tangents_of(tensors: Sequence[Any]) -> list[Any]:
    """The tangents that accumulators have of these."""
    return list(_tfe.TFE_Py_PackJVPs(list(tensors))[1])


def known_to_accumulators(tensors: Sequence[Any]) -> list[Any]:
    """Other handles on tensors, with the same tangents, that no tape knows."""
    with _record.stop_recording():
        fresh = [tf.identity(tensor) for tensor in tensors]
    places, tangents = _tfe.TFE_Py_PackJVPs(list(tensors))
    _record.record_operation_forwardprop_only(
        "Identity", [*fresh, *tangents], list(tensors), _never_asked_for, places
    )
    return fresh


def _never_asked_for(*upstream: Any) -> list[Any]:
    return list(upstream)


def transposes(frame: Any) -> bool:
    """Whether what runs in this frame asks for gradients in order to transpose them."""
    code = frame.f_code
    if code is _BUILDING:
        known = frame.f_locals
        return bool(known["input_tangents"]) or have_tangents(known["inference_args"])
    if code is _CHOOSING:
        return have_tangents(frame.f_locals["args"])
    return code is _RECORDING or code is _TRANSPOSING


def built_in(frame: Any) -> Any:
    """The backward pass that is being built in this frame, if one is."""
    return frame.f_locals["self"] if frame.f_code is _BUILDING else None


def store_in(frame: Any) -> Store | None:
    """The store into which what this frame builds will be put, if it has one."""
    if frame.f_code is _REWRITING:
        return Store(frame.f_locals["self"], _KEPT_WHEN_REWRITING)
    if frame.f_code is _CALLING:
        return Store(frame.f_locals["self"], _KEPT_WHEN_CALLING)
    return None


def variables_of_call() -> list[Any]:
    """The variables of the traced function that is being called around here, if one is."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not _CALLING:
        frame = frame.f_back
    return [] if frame is None else list(frame.f_locals["self"].graph.variables)


def wrap_py_function(results: Any, wrap: Callable[[Any], Any]) -> None:
    """Put something around the function that will run in the tf.py_function with these symbolic results."""
    token = next(iter(results)).op.get_attr("token").decode()
    behind = _script_ops._py_funcs.get(token)
    behind._func = wrap(behind._func)


def wrap_loaded_gradients(wrap: Callable[[Any, str], Any]) -> None:
    """Put something around each gradient function, by its name, that comes or has come out of a file."""

    def made(function: Any) -> Any:
        return wrap(_OF_A_FILE(function), tf.compat.as_str(function.name))

    _loading._gen_gradient_func = made
    for entry in list(_private.gradient_registry._registry.values()):
        if getattr(entry["type"], "__code__", None) in _OF_A_FILE.__code__.co_consts:
            function = entry["type"].__closure__[0].cell_contents
            entry["type"] = wrap(entry["type"], tf.compat.as_str(function.name))
