"""Functions of Keras that are functions of TensorFlow under another name: naming one of them means all.

Which those are is not written down but tried out: the function is called in a graph that is thrown away. A function
below that gets the very same tensors, and whose result is the very result, is the same function.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
import types
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from pullback.engines.tensorflow.override.op_names import innermost, public_name
from pullback.extend import original_code, package_of, signature_of, suspended

# The parts of Keras that compute; others may keep state, which trying them out would change.
_TRIED = ("keras.src.ops.", "keras.src.activations.")
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_MOST_ARGUMENTS = 2  # of which more than tensors is tried
_RANKS = (2, 3)  # of the tensors: what is the same for one rank only is another function


class Alias(NamedTuple):
    """A function that another one hands its arguments to."""

    function: types.FunctionType
    names: dict[str, str]  # of its parameters, those of the other one


def aliases_of(function: types.FunctionType) -> tuple[Alias, ...]:
    """The public functions of Keras and TensorFlow that this one is another name for, from the outside in."""
    tried = (function.__module__ or "").startswith(_TRIED)
    return _aliases_of(function) if tried else ()


@functools.cache
def _aliases_of(function: types.FunctionType) -> tuple[Alias, ...]:
    parameters = list(signature_of(function).parameters.values())
    required = [p.name for p in parameters if p.default is p.empty and p.kind in _BY_NAME]
    with suspended(), tf.Graph().as_default():
        first, *others = [_tried(function, parameters, required, rank) for rank in _RANKS]
    everywhere = [{alias.function for alias in found} for found in others if found is not None]
    return tuple(a for a in first or () if all(a.function in other for other in everywhere))


def _tried(
    function: types.FunctionType,
    parameters: Sequence[inspect.Parameter],
    required: Sequence[str],
    rank: int,
) -> list[Alias] | None:
    """What is found with tensors of this rank; `None` if it cannot be called with any."""
    for arguments in _attempts(len(required), rank):
        try:
            given = dict(zip(required, arguments, strict=True))
            return _Trial(parameters, given).run(function)
        except Exception:  # it is not to be called like this: errors of any kind
            continue
    return None


def _attempts(count: int, rank: int) -> Generator[list[Any]]:
    """Arguments to try: tensors, a list of tensors, and other things behind them."""
    tensors = [tf.compat.v1.placeholder(tf.float32, [2] * rank) for _ in range(max(count, 2))]
    yield tensors[:count]
    if count <= _MOST_ARGUMENTS:
        for first in (tensors[0], tensors[:2]):
            for rest in itertools.product((0, (2**rank, 1), "float32"), repeat=count - 1):
                yield [first, *rest]  # an axis, a shape, a dtype


class _Trial:
    """One call, and what was called below it with the same arguments."""

    def __init__(self, parameters: Sequence[inspect.Parameter], given: dict[str, Any]) -> None:
        self._given = given
        self._moving = {n: a for n, a in given.items() if isinstance(a, (tf.Tensor, list))}
        defaults = [p.default for p in parameters if p.default is not p.empty]
        self._known = [*given.values(), *defaults]
        self._running: dict[Any, Alias] = {}  # by frame
        self._calls: list[tuple[Alias, Any]] = []  # with what was returned

    def run(self, function: types.FunctionType) -> list[Alias]:
        """The functions below that are this one, from the outside in, as far as the first one of TensorFlow."""
        before = sys.getprofile()
        sys.setprofile(self._on_event)
        try:
            result = function(**self._given)
        finally:
            sys.setprofile(before)
        if any(result is argument for argument in self._moving.values()):
            return []
        found = {a.function: a for a, returned in self._calls if returned is result}
        found.pop(innermost(function), None)
        ordered = list(found.values())[::-1]  # they have returned from the inside out
        of_tensorflow = [i for i, a in enumerate(ordered) if package_of(a.function) != "keras"]
        return ordered[: of_tensorflow[0] + 1] if of_tensorflow else ordered

    def _on_event(self, frame: Any, event: str, returned: Any) -> None:
        if event == "call":  # now, as a function may assign to its parameters
            called = _public_function(frame)
            names = self._names_in(called, frame) if called else None
            if called and names is not None:
                self._running[frame] = Alias(called, names)
        elif event == "return" and frame in self._running:
            self._calls.append((self._running.pop(frame), returned))

    def _names_in(self, called: types.FunctionType, frame: Any) -> dict[str, str] | None:
        """Which parameter holds which argument, if it was called with these arguments and nothing else."""
        names: dict[str, str] = {}
        for parameter in inspect.signature(called).parameters.values():
            value = frame.f_locals.get(parameter.name)
            held = [name for name, argument in self._moving.items() if _same(value, argument)]
            if held:
                names[parameter.name] = held[0]
            elif not any(_equal(value, known) for known in (parameter.default, *self._known)):
                return None
        return names if len(set(names.values())) == len(self._moving) else None


def _public_function(frame: Any) -> types.FunctionType | None:
    named = frame.f_globals.get(frame.f_code.co_name)
    if not isinstance(named, types.FunctionType) or package_of(named) not in (
        "keras",
        "tensorflow",
    ):
        return None
    function = innermost(named)
    return function if original_code(function) is frame.f_code and public_name(named) else None


def _same(value: Any, argument: Any) -> bool:
    if not isinstance(argument, list) or not isinstance(value, (list, tuple)):
        return value is argument
    some: Sequence[Any] = value
    return len(some) == len(argument) and all(a is b for a, b in zip(some, argument, strict=True))


def _equal(value: Any, known: Any) -> bool:
    if value is known or isinstance(value, tf.Tensor) or isinstance(known, (tf.Tensor, list)):
        return value is known
    return bool(value == known)
