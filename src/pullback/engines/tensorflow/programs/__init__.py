"""Programs of TensorFlow functions: traced, run operation by operation, and differentiated."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.programs import alone, loops, operations
from pullback.engines.tensorflow.programs.alternatives import alternatives
from pullback.engines.tensorflow.programs.graphs import Reader
from pullback.engines.tensorflow.programs.lines import Lines
from pullback.engines.tensorflow.programs.misread import misread
from pullback.engines.tensorflow.programs.seen import Watcher
from pullback.engines.tensorflow.programs.words import WORDS
from pullback.engines.tensorflow.stateful_operations import WRITES
from pullback.engines.tensorflow.tf_private import explaining
from pullback.extend import Node, Program, RuleBody


class TensorFlowPrograms:
    """What the TensorFlow engine does for programs."""

    words = WORDS
    # what an operation raises that is given other values than it is made for
    refusals = (tf.errors.OpError, ValueError, TypeError, IndexError)

    def __init__(self) -> None:
        self._rules = weakref.WeakKeyDictionary[Node, RuleBody]()

    def trace(
        self, function: Callable[..., Any], args: Sequence[Any], *, seen: bool = False
    ) -> Program:
        """The program of a function of tensors."""
        lines = Lines(function, _outputs.__code__)
        outputs = functools.partial(_outputs, function)
        if seen:
            return Watcher(function, lines).program(outputs, args)
        return self.read(tf.function(outputs).get_concrete_function(*args), lines)

    def read(self, concrete: Any, lines: Lines) -> Program:
        """The program of what was traced already."""
        return Reader(lines, {}).program(concrete.graph, "", concrete.captured_inputs)

    def captured(self, program: Program, dtype: str) -> list[Any]:
        """What a program captured: copies of variables that the run might write, or needs in another format."""
        return [_copy(t, dtype) if dtype or _writes(program) else t for t in program.captured]

    run = staticmethod(operations.run)
    run_changed = staticmethod(alone.run_changed)
    endures = staticmethod(alone.endures)
    has_form_of = staticmethod(alone.has_form_of)
    alternatives = staticmethod(alternatives)
    vjp = staticmethod(operations.vjp)
    run_loop = staticmethod(loops.run_loop)
    loop_vjp = staticmethod(loops.loop_vjp)
    jvp = staticmethod(operations.jvp)
    second = staticmethod(operations.second)
    misread = staticmethod(misread)

    def rule(self, node: Node) -> RuleBody:
        """The gradient that somebody wrote for a node, traced once."""
        if node not in self._rules:
            scope: Any = node.raw.scope
            self._rules[node] = scope.rule(node)
        return self._rules[node]

    def gradient(self, node: Node, which: int, parts: Sequence[Any]) -> Any:
        """A tensor, or the rows of a sparse gradient."""
        del node, which
        if len(parts) == 1:
            return parts[0]
        values, indices, *shape = parts
        return tf.IndexedSlices(values, indices, *shape)

    def choice(self, tensor: Any) -> int:
        """As TensorFlow decides: text and lists are true if they are not empty."""
        value = tensor.numpy()
        return bool(value.size) if getattr(value, "ndim", 0) else int(value)

    def array(self, tensor: Any) -> Any:
        """The numbers of a tensor; nothing for text, variables and lists of tensors."""
        if isinstance(tensor, tf.IndexedSlices):
            tensor = tf.convert_to_tensor(tensor)
        dtype = tensor.dtype
        holds = dtype.is_floating or dtype.is_integer or dtype.is_bool or dtype.is_complex
        return np.asarray(tensor.numpy()) if holds else None

    def tensor(self, array: Any, like: Any) -> Any:
        """A tensor of these numbers."""
        return tf.constant(array, like.dtype)

    add = staticmethod(explaining.sum_of)
    zeros = staticmethod(tf.zeros_like)

    def cast(self, tensor: Any, dtype: str) -> Any:
        """A tensor in another format."""
        return operations.cast(tensor, operations.lifted(tensor.dtype, dtype))


def _outputs(function: Callable[..., Any], *args: Any) -> list[Any]:
    found = tf.nest.flatten(function(*args), expand_composites=True)
    return [tf.convert_to_tensor(y) for y in found if y is not None]


def _copy(tensor: Any, dtype: str) -> Any:
    if tensor.dtype != tf.resource:
        return operations.cast(tensor, operations.lifted(tensor.dtype, dtype))
    kind = private.dtype_of_handle(tensor)
    value = explaining.value_behind(tensor, kind)
    made = tf.Variable(operations.cast(value, operations.lifted(kind, dtype)))
    made.handle._pullback_variable = made  # which lives as long as its handle
    return made.handle


def _writes(program: Program) -> bool:
    return any(node.op in WRITES or any(map(_writes, node.bodies)) for node in program.nodes)


PROGRAMS = TensorFlowPrograms()
