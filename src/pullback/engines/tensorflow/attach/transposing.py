"""Whether a gradient is asked for as such, or to be transposed into the tangents of forward mode.

TensorFlow makes the tangents of a function by differentiating its backward pass towards the upstream, which is right
only where that is linear in it: a backward pass built for this checks its rules, one built for its own sake does not.
As TensorFlow keeps one backward pass per function for both, functions that hold a rule of ours are made to keep two.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any, TypeVar

from pullback.engines.tensorflow import tf_private as private

_Method = TypeVar("_Method", bound=Callable[..., Any])
# By identity, as a code object takes long to hash; those of methods live as long as this module.
_OF_THE_USER: set[int] = set()
_RECORDING: CodeType = private.record_operation.__code__


def runs_user_code(method: _Method) -> _Method:
    """Mark a method: gradients asked for below it are the user's own affair, not part of what is transposed."""
    _OF_THE_USER.add(id(method.__code__))
    return method


def is_transposed() -> bool:
    """Whether the gradient that is being computed will be transposed; functions that keep it keep it for this only."""
    frame = sys._getframe(1)
    if not private.executing_eagerly():
        _keep_apart(frame)
    return _is_transposed(frame)


def _is_transposed(frame: Any) -> bool:
    if not _accumulators():
        return False
    while frame is not None and id(frame.f_code) not in _OF_THE_USER:
        # Recording calls nobody back but for an accumulator that transposes a backward function.
        if frame.f_code is _RECORDING or _has_tangents(frame):
            return True
        frame = frame.f_back
    return False


def _has_tangents(frame: Any) -> bool:
    """Whether this is a frame of TensorFlow that prepares the call of a function with arguments that have tangents."""
    name = frame.f_code.co_name
    if name == "_build_functions_for_outputs":
        known = frame.f_locals
        return bool(known["input_tangents"]) or _tangents(known["inference_args"])
    return name == "_select_forward_and_backward_functions" and _tangents(frame.f_locals["args"])


def _keep_apart(frame: Any) -> None:
    """Split what the functions now building their backward pass keep of it."""
    building: dict[int, bool] = {}
    while frame is not None and id(frame.f_code) not in _OF_THE_USER:
        name = frame.f_code.co_name
        if name == "_build_functions_for_outputs":
            building[id(frame.f_locals["self"])] = _is_transposed(frame)
        elif name == "_construct_forward_backward":
            _split(frame.f_locals["self"], "_cached_function_pairs", building)
        elif name == "_call_flat":
            _split(frame.f_locals["self"], "_higher_order_tape_functions", building)
        frame = frame.f_back


def _split(holder: Any, attribute: str, building: Mapping[int, bool]) -> None:
    kept = getattr(holder, attribute)
    if not isinstance(kept, _Kept):
        setattr(holder, attribute, _Kept(kept, building))


class _Kept:
    """What a function keeps of its backward passes, those to be transposed apart from the others."""

    def __init__(self, known: Mapping[Any, Any], building: Mapping[int, bool]) -> None:
        # What was complete before holds no rule of ours and serves both.
        self._of: dict[bool, dict[Any, Any]] = {
            purpose: {k: v for k, v in known.items() if building.get(id(v), purpose) is purpose}
            for purpose in (False, True)
        }

    def get(self, key: Any, default: Any = None) -> Any:
        """The backward pass for the present purpose; whoever builds on it now holds our rule as well."""
        return self._of[is_transposed()].get(key, default)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._of[is_transposed()][key] = value


def _accumulators() -> bool:
    return bool(private._tfe.TFE_Py_PackJVPs([])[0])


def _tangents(tensors: Sequence[Any]) -> bool:
    return bool(private._tfe.TFE_Py_PackJVPs(list(tensors))[1])
