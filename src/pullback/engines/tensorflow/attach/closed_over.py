"""What a body reads without being given it: tensors and variables.

Most tensors are found beforehand, by walking what the function can reach by name; the rest show when an op reads them.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Generator, Iterable, Sequence
from types import FunctionType, MethodType
from typing import Any

import keras
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.extend import attributes, cells_of, package_of, referred, walk

_DEPTH = 5
_FRAMEWORKS = frozenset(["tensorflow", "keras", "tf_keras", "numpy"])
_ENTERED = (list, tuple, set, dict, functools.partial, FunctionType)


def tensors_of(function: Any, arguments: Sequence[Any]) -> list[tf.Tensor]:
    """The tensors in the cells, defaults, globals and objects of a function, each once."""
    cells = cells_of(function) if isinstance(function, FunctionType) else ()
    whole = (tf.Tensor, tf.Variable, keras.Variable)
    objects = [attributes(a) for a in (*arguments, *cells) if not isinstance(a, whole)]
    reached = walk(function, *objects, depth=_DEPTH, inside=_inside)
    return [value for value in reached if isinstance(value, tf.Tensor)]


def watched_tensors(function: Any, arguments: Sequence[Any]) -> list[tf.Tensor]:
    """Those of them that a tape or an accumulator knows."""
    reached = tensors_of(function, arguments)
    return [t for t in reached if private.possible_gradient_types([t])]


def reads_outside(function: Any) -> bool:
    """Whether a function can get at variables or concrete tensors, so that a graph in which it runs captures them."""
    reached = walk(function, depth=_DEPTH, inside=_inside)
    kinds = (private.EagerTensor, tf.Variable, keras.Variable)
    return any(isinstance(value, kinds) for value in reached)


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


@contextlib.contextmanager
def unexpected_reads(expected: Sequence[Any]) -> Generator[list[Any]]:
    """Lists the tensors known to tapes that ops of this block read and nobody expected."""
    known = {id(t) for t in expected}
    found: list[Any] = []
    start = private.next_number()

    def note(
        kind: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None
    ) -> Any:
        del kind, attrs, op_name
        for tensor in inputs if graph is None else ():
            older = private.number_of(tensor) < start
            if older and id(tensor) not in known and tensor.dtype != tf.resource:
                known.add(id(tensor))
                if private.possible_gradient_types([tensor]):
                    found.append(tensor)
        return outputs

    with private.ops_seen_by(note):
        yield found


class Variables(contextlib.ExitStack):
    """Open it around a body; then it knows the trainable variables that the body read."""

    def __init__(self) -> None:
        super().__init__()
        self._watcher = private.VariableWatcher()
        self.made: list[Any] = []

    def __enter__(self) -> Variables:
        self.enter_context(tf.variable_creator_scope(self._note))
        self.enter_context(self._watcher)
        return self

    def found(self, temporary: Sequence[Any] = ()) -> list[Any]:
        """The variables that were read, but for temporary ones, in the order in which they were made."""
        read = self._watcher.watched_variables()
        lasting = [v for v in read if not any(v is other for other in temporary)]
        for variable in lasting:
            private.variable_accessed(variable)
        return lasting

    def _note(self, make: Any, **options: Any) -> Any:
        self.made.append(make(**options))
        return self.made[-1]
