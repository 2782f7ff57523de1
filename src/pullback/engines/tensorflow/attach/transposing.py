"""Whether a gradient is asked for as such, or to be transposed into the tangents of forward mode.

TensorFlow makes the tangents of a function by differentiating its backward pass towards the upstream, which is right
only where that is linear in it: a backward pass built for this checks its rules, one built for its own sake does not.
As TensorFlow keeps one backward pass per function for both, functions that hold a rule of ours are made to keep two.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any, TypeVar

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.tf_private import transposing as stack

_Method = TypeVar("_Method", bound=Callable[..., Any])
# By identity, as a code object takes long to hash; those of methods live as long as their module.
_OF_THE_USER: set[int] = set()


def runs_user_code(method: _Method) -> _Method:
    """Mark a method: gradients asked for below it are the user's own affair, not part of what is transposed."""
    _OF_THE_USER.add(id(method.__code__))
    return method


def is_transposed() -> bool:
    """Whether the gradient that is being computed will be transposed; functions that keep it keep it for this only."""
    frame = sys._getframe(1)
    if private.executing_eagerly():
        return may_be_transposed_at_once() and _is_transposed(_telling(frame))
    frames = _telling(frame)
    _keep_apart(frames)
    return _is_transposed(frames)


def may_be_transposed_at_once() -> bool:
    """Whether it is worth asking in eager code, in a fraction of the time."""
    return stack.accumulator_is_open() or _here.later


def _telling(frame: Any) -> list[Any]:
    """The frames that tell what a gradient is for, innermost first. This runs for every op with a rule."""
    found: list[Any] = []
    while frame is not None:
        code = id(frame.f_code)
        if code in _OF_THE_USER:
            break
        if code in _TELLING:
            found.append(frame)
        frame = frame.f_back
    return found


def _is_transposed(frames: Sequence[Any]) -> bool:
    return any(frame.f_code is _LATER or stack.transposes(frame) for frame in frames)


def _keep_apart(frames: Sequence[Any]) -> None:
    """Split what the functions now building their backward pass keep of it."""
    building: dict[int, bool] = {}
    for position, frame in enumerate(frames):
        built, store = stack.built_in(frame), stack.store_in(frame)
        if built is not None:
            building[id(built)] = _is_transposed(frames[position:])
        elif store is not None:
            _split(store, building)


def _split(store: stack.Store, building: Mapping[int, bool]) -> None:
    kept = getattr(store.holder, store.attribute)
    if not isinstance(kept, _Kept):
        setattr(store.holder, store.attribute, _Kept(kept, building))


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


class _Here(threading.local):
    later = (
        False  # whether a gradient runs in this thread that was built elsewhere, to be transposed
    )


_here = _Here()


class ToBeTransposed:
    """A function that computes gradients later; they will be transposed."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any) -> Any:
        """Run it."""
        before, _here.later = _here.later, True
        try:
            return self._function(*args)
        finally:
            _here.later = before


_LATER: CodeType = ToBeTransposed.__call__.__code__
_TELLING = stack.TELLING | {id(_LATER)}
