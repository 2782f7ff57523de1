"""Forward mode: a rule is linear in its upstream, so its transpose gives the tangents; that it is linear is tested.

TensorFlow makes the tangents of a function by differentiating its backward pass towards the upstream, which is right
only where that is linear in it: a backward pass built for this checks its rules, one built for its own sake does not.
As TensorFlow keeps one backward pass per function for both, functions that hold a rule of ours are made to keep two.

The gradient of a tf.py_function is built in one place and runs in another, later and in another thread, where nothing
is left of the purpose: what is built in order to be transposed is marked. Of a rule, a file keeps the operations and
the name. By the name it is known that its transpose is to give the tangents, and it is checked as the rule itself is.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any, TypeVar

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.attach.registry import PREFIX, TRANSPOSABLE
from pullback.engines.tensorflow.tf_private import transposing as stack
from pullback.extend import engine_of, require_linear, scatter, set_for

_Result = TypeVar("_Result")
_Method = TypeVar("_Method", bound=Callable[..., Any])
# By identity, as a code object takes long to hash; those of methods live as long as their module.
_OF_THE_USER: set[int] = set()
_PY_FUNCTION = "EagerPyFunc"
_OUR_NAME = re.compile(rf"{PREFIX}(\w*)_{TRANSPOSABLE}_")
# Whether a gradient runs in this thread that was built elsewhere, to be transposed.
_built_for_it = contextvars.ContextVar("pullback_built_to_be_transposed", default=False)


def install() -> None:
    """Put ours around the gradients of py_functions and of files, also of those loaded before."""
    plain = private.registered_gradient(_PY_FUNCTION)
    private.remember_gradient(_PY_FUNCTION, functools.partial(_py_function_gradient, plain))
    stack.wrap_loaded_gradients(_loaded_gradient)


def runs_user_code(method: _Method) -> _Method:
    """Mark a method: gradients asked for below it are the user's own affair, not part of what is transposed."""
    _OF_THE_USER.add(id(method.__code__))
    return method


def is_transposed() -> bool:
    """Whether the gradient that is being computed will be transposed; functions that keep it keep it for this only."""
    eager = private.executing_eagerly()
    if eager and not (stack.accumulator_is_open() or _built_for_it.get()):
        return False  # known in a fraction of the time
    frames = _relevant_frames(inspect.currentframe())
    if not eager:
        _keep_apart(frames)
    return _is_transposed(frames)


def _relevant_frames(frame: Any) -> list[Any]:
    """The frames that show what a gradient is for, innermost first. This runs for every op with a rule."""
    found: list[Any] = []
    while frame is not None and id(frame.f_code) not in _OF_THE_USER:
        if id(frame.f_code) in _RELEVANT:
            found.append(frame)
        frame = frame.f_back
    return found


def _is_transposed(frames: Sequence[Any]) -> bool:
    return any(frame.f_code is _BUILT_FOR_IT or stack.transposes(frame) for frame in frames)


def _keep_apart(frames: Sequence[Any]) -> None:
    """Split what the functions now building their backward pass keep of it."""
    building: dict[int, bool] = {}
    for position, frame in enumerate(frames):
        built, store = stack.built_in(frame), stack.store_in(frame)
        if built is not None:
            building[id(built)] = _is_transposed(frames[position:])
        elif store is not None:
            known = getattr(*store)
            if not isinstance(known, _BackwardPasses):
                setattr(*store, _BackwardPasses(known, building))


class _BackwardPasses:
    """The backward passes that a function keeps, those to be transposed apart from the others."""

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


def _py_function_gradient(plain: Callable[..., Any], operation: Any, *upstream: Any) -> Any:
    """TensorFlow's gradient of a py_function, marked if it will be transposed."""
    gradients = plain(operation, *upstream)
    # At once it has run by now, in this thread, and saw for itself.
    if not private.executing_eagerly() and is_transposed():
        stack.wrap_py_function(gradients, functools.partial(functools.partial, _run_for_it))
    return gradients


def _run_for_it(function: Callable[..., Any], *args: Any) -> Any:
    """Run a function whose gradients will be transposed."""
    with set_for(_built_for_it, True):
        return function(*args)


def _loaded_gradient(plain: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The gradient of an op of a loaded graph, if it is ours with the check that it is linear."""
    ours = _OUR_NAME.search(name)
    if ours is None:
        return plain

    def checked(operation: Any, *upstream: Any) -> Any:
        gradients = plain(operation, *upstream)
        if not is_transposed():
            return gradients
        at, rule = where_present(upstream, lambda dy: values.tensors_in(plain(operation, *dy)))
        title = f"`{ours.group(1)}`"
        return require_linear(engine_of(at), list(gradients), rule, at, "(loaded)", title)

    return checked


_BUILT_FOR_IT: CodeType = _run_for_it.__code__
_RELEVANT = stack.TELLING | {id(_BUILT_FOR_IT)}


def where_present(
    upstream: Sequence[Any], rule: Callable[[Sequence[Any]], _Result]
) -> tuple[list[Any], Callable[[Sequence[Any]], _Result]]:
    """The upstream gradients that there are, and a rule as a function of these alone."""
    there = [i for i, dy in enumerate(upstream) if dy is not None]

    def of_present(present: Sequence[Any]) -> _Result:
        return rule(scatter(len(upstream), there, present))

    return [values.dense(upstream[i]) for i in there], of_present


def seen_by_tapes(forward: Callable[..., Sequence[Any]]) -> Callable[..., list[Any]]:
    """A function that an accumulator asks for tangents, whose operations inner and outer tapes see.

    An accumulator hides what runs while it computes from all that was opened after it, so its state is put aside. Then
    it pushes tangents through these very operations, too. As it does so before tapes are told of their results, tapes
    miscount who needs these, and forget them as soon as those tangents are gone. So they live as long as the results.
    """

    @functools.wraps(forward)
    def run(*args: Any) -> list[Any]:
        with private.push_forwardprop_state():
            found = list(forward(*args))
            needed = stack.tangents_of(found)
        if not needed:
            return found

        def backward(*upstream: Any, _: Any = needed) -> list[Any]:
            return list(upstream)

        with private.stop_recording():
            fresh = [tf.identity(tangent) for tangent in found]
        private.record_operation("Identity", fresh, found, backward, None)
        return fresh

    return run


def transposed(
    function: Callable[[Sequence[Any]], Sequence[Any]], at: Sequence[Any], tangents: Sequence[Any]
) -> list[Any]:
    """The transpose of a linear function of several tensors, applied to tangents of its results."""
    return pulled(function, at)[1](tangents)


def pulled(
    function: Callable[[Sequence[Any]], Sequence[Any]], at: Sequence[Any]
) -> tuple[list[Any], Callable[[Sequence[Any]], list[Any]]]:
    """The results of a linear function of several tensors, and its transpose, which can be applied once."""
    if not tf.executing_eagerly():
        # No tape: TensorFlow stops recording while it builds forward mode, and what this graph has captured before
        # is not recorded as coming from a tensor further out.
        at = [tf.identity(a) for a in at]
    with tf.GradientTape() as tape:
        tape.watch(at)
        results = [None if r is None else tf.convert_to_tensor(r) for r in function(at)]

    def transpose(tangents: Sequence[Any]) -> list[Any]:
        both = zip(results, tangents, strict=True)
        pairs = [(r, t) for r, t in both if not (r is None or t is None)]
        if not pairs:
            return [tf.zeros_like(a) for a in at]
        differentiate = tape.gradient if tf.executing_eagerly() else tf.gradients
        targets, upstream = map(list, zip(*pairs, strict=True))
        gradients = differentiate(
            targets, list(at), upstream, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        return [tf.convert_to_tensor(g) for g in gradients]

    return results, transpose
