"""Tensors that a function reads without being given them.

Most are found beforehand, by walking what the function can reach by name; the rest show when an op reads them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from types import FunctionType, MethodType
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.extend import attributes, cells_of, package_of, referred, walk

_DEPTH = 5
_FRAMEWORKS = frozenset(["tensorflow", "keras", "tf_keras", "numpy"])
_ENTERED = (list, tuple, set, dict, functools.partial, FunctionType)


def closed_over(function: Any, arguments: Sequence[Any]) -> list[tf.Tensor]:
    """The tensors in the cells, defaults, globals and objects of a function, each once."""
    objects = [attributes(a) for a in arguments if not isinstance(a, tf.Tensor)]
    reached = walk(function, *objects, depth=_DEPTH, inside=_inside)
    return [value for value in reached if isinstance(value, tf.Tensor)]


def _inside(value: Any) -> Iterable[Any]:
    """As `inside`, without entering objects other than those of methods: this runs at every call."""
    if isinstance(value, MethodType):
        return [value.__func__, *attributes(value.__self__)]
    return inside(value) if isinstance(value, _ENTERED) else ()


def inside(value: Any) -> Iterable[Any]:
    """What a value refers to; of the framework's own functions what they were given, not what they name."""
    if isinstance(value, FunctionType) and is_framework_code(value):
        return [*cells_of(value), *attributes(value)]
    return referred(value)


def is_framework_code(value: Any) -> bool:
    """Whether TensorFlow, Keras or NumPy wrote a function, or the class of an object."""
    return package_of(value) in _FRAMEWORKS


class Reads:
    """Open it around a body; it lists the tensors known to tapes that the body reads and nobody expected."""

    def __init__(self, expected: Sequence[Any]) -> None:
        self._known = {id(t) for t in expected}
        self._found: list[Any] = []

    def __enter__(self) -> list[Any]:
        self._start = private.next_number()
        self._before = private.op_callbacks()
        private.set_op_callbacks([*self._before, self._note])
        return self._found

    def __exit__(self, *error: Any) -> None:
        private.set_op_callbacks(self._before)

    def _note(
        self,
        kind: Any,
        inputs: Any,
        attrs: Any,
        outputs: Any,
        op_name: Any = None,
        graph: Any = None,
    ) -> Any:
        del kind, attrs, op_name
        if graph is None:
            for tensor in inputs:
                self._look_at(tensor)
        return outputs

    def _look_at(self, tensor: Any) -> None:
        older = private.number_of(tensor) < self._start
        if older and id(tensor) not in self._known and tensor.dtype != tf.resource:
            self._known.add(id(tensor))
            if private.possible_gradient_types([tensor]):
                self._found.append(tensor)
