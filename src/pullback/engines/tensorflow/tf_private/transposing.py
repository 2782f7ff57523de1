"""Every private part of TensorFlow that tells whether a gradient will be transposed, each with the reason.

TensorFlow does not say for which purpose it builds a backward pass. Its frames on the stack do: which method runs, and
what it was given.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, NamedTuple

import tensorflow as tf

# Whether an accumulator is open, and whether it has tangents of given tensors.
from tensorflow.python import pywrap_tfe as _tfe

# The forward mode of single ops.
from tensorflow.python.eager import forwardprop as _forwardprop

# The functions that build and keep backward passes.
from tensorflow.python.eager.polymorphic_function import concrete_function as _functions
from tensorflow.python.eager.record import record_operation as _record_operation

# Holds the gradient functions of files that were loaded before.
from tensorflow.python.framework.ops import gradient_registry as _gradient_registry

# The functions behind tf.py_function, by the token that an op has.
from tensorflow.python.ops import script_ops as _script_ops

# Makes gradient functions of those that a file holds.
from tensorflow.python.saved_model import function_deserialization as _loading

_Delayed = _functions._DelayedRewriteGradientFunctions
_Concrete = _functions.ConcreteFunction

# Recording calls nobody back but for an accumulator that transposes a backward function.
_RECORDING: CodeType = _record_operation.__code__
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
_OF_A_FILE: Callable[[Any], Any] = _loading._gen_gradient_func
_KEPT_WHEN_REWRITING = "_cached_function_pairs"
_KEPT_WHEN_CALLING = "_higher_order_tape_functions"


class Store(NamedTuple):
    """Where a function keeps backward passes."""

    holder: Any
    attribute: str


def accumulator_is_open() -> bool:
    """Whether any accumulator computes tangents here."""
    return _tfe.TFE_Py_PackJVPs(())[0] != ()


def have_tangents(tensors: Sequence[Any]) -> bool:
    """Whether an accumulator has tangents of any of these."""
    return bool(_tfe.TFE_Py_PackJVPs(list(tensors))[1])


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
    for entry in list(_gradient_registry._registry.values()):
        if getattr(entry["type"], "__code__", None) in _OF_A_FILE.__code__.co_consts:
            function = entry["type"].__closure__[0].cell_contents
            entry["type"] = wrap(entry["type"], tf.compat.as_str(function.name))


def changed() -> list[str]:
    """What is not as it was in the TensorFlow that this was written for."""
    missing = [
        f"{code.co_name}({name})"
        for code, names in _PARAMETERS.items()
        for name in names
        if name not in code.co_varnames
    ]
    missing += [
        f"{code.co_name}: {name}"
        for code, names in _USED.items()
        for name in names
        if name not in code.co_names
    ]
    # A thread of its own has neither the caller's accumulators nor the graph that the caller may be building.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        shown = thread.submit(_accumulators_show).result()
    return missing if shown else [*missing, "TFE_Py_PackJVPs"]


_PARAMETERS: dict[CodeType, tuple[str, ...]] = {
    _BUILDING: ("self", "inference_args", "input_tangents"),
    _CHOOSING: ("self", "args"),
    _REWRITING: ("self",),
    _CALLING: ("self",),
}
_USED: dict[CodeType, tuple[str, ...]] = {
    _Delayed.__init__.__code__: (_KEPT_WHEN_REWRITING,),
    _Delayed.forward_backward.__code__: (_KEPT_WHEN_REWRITING, "get"),
    _Concrete.__init__.__code__: (_KEPT_WHEN_CALLING,),
    _CHOOSING: (_KEPT_WHEN_CALLING, "get"),
    _script_ops.EagerFunc.__init__.__code__: ("_func",),
    _script_ops._EagerPyFuncGrad.__code__: ("_py_funcs", "get"),
    _loading.load_function_def_library.__code__: ("_gen_gradient_func",),
}


def _accumulators_show() -> bool:
    x, other = tf.constant(1.0), tf.constant(2.0)
    before = accumulator_is_open()
    with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)):
        found = (accumulator_is_open(), have_tangents([other]), have_tangents([other, x]))
    return (before, *found) == (False, True, False, True)
