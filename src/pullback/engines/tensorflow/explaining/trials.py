"""A function run again, and its code read, to find out about sources that its result was not made of."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.explaining import steps
from pullback.engines.tensorflow.explaining.code_reading import codes_of, left_at, named_on
from pullback.engines.tensorflow.explaining.subject import Subject
from pullback.engines.tensorflow.probing.arguments import outputs_of
from pullback.engines.tensorflow.programs import rules
from pullback.engines.tensorflow.programs.lines import Lines
from pullback.engines.tensorflow.state import State, seeded
from pullback.engines.tensorflow.tf_private import explaining
from pullback.engines.tensorflow.tf_private.keras_models import layers_inside
from pullback.extend import Mention, Node, flow, sources, walk

_SEED = 0
_FACTOR, _SUMMAND = 1.37, 0.71  # far enough that what is rounded or compared is likely to change
_NO_POSITION = (0, 0)


class Trials:
    """What a run is asked afterwards."""

    def __init__(
        self,
        subject: Subject,
        lines: Lines,
        state: State,
        known: Callable[[Any], int | None],
        tensors: Sequence[sources.Entry],
        call: int | None,
    ) -> None:
        self.subject, self.lines, self.state = subject, lines, state
        self.known, self.tensors, self.call = known, tensors, call

    def assigns(self, node: Node) -> bool:
        """Whether an operation writes its second input into the variable that is its first."""
        return node.op in rules.ASSIGNING

    def was_read_before(self, entry: sources.Entry, needed: set[int]) -> bool:
        """Whether a tensor with a variable's numbers is part of the result, and the variable is not."""
        variable = entry.thing
        alike = [e.thing for e in self.tensors if (e.dtype, e.shape) == (entry.dtype, entry.shape)]
        used = [t for t in alike if self.known(t) in needed]
        if not used:
            return False
        now = explaining.value_behind(variable.handle, variable.dtype)
        at, array = explaining.address(now), now.numpy()
        return any(explaining.address(t) == at or np.array_equal(t.numpy(), array) for t in used)

    def results(self, moved: Sequence[sources.Entry]) -> list[Any]:
        """The results of another run, as arrays, with other numbers in some sources."""
        self.state.restore(self.state.changed())
        passed: dict[int, Any] = {}
        for entry in moved:
            if entry.is_variable:
                entry.thing.assign(_moved(tf.convert_to_tensor(entry.thing)))
            elif entry.position is not None:
                passed[entry.position] = _moved(entry.thing)
        gradients = steps.Gradients(lambda: _NO_POSITION, self.lines.here)
        try:
            with gradients.seen(), seeded(_SEED):
                result = self.subject.run(passed)
        finally:
            self.state.restore(self.state.changed())
        is_call = self.call is not None and self.call < len(gradients.asked)
        found = gradients.asked[self.call or 0].outputs if is_call else outputs_of(result).values()
        return [np.array(y) for y in found]

    def left_at(self, entry: sources.Entry) -> flow.Place | None:
        """Where the code takes a source's numbers out of the tensors."""
        return left_at(self._codes, entry.name, self._behind(entry))

    def named_on(self, entry: sources.Entry) -> Mention | None:
        """Where the code names a source that the run never met, and what that means."""
        return named_on(self._codes, entry.name, self._behind(entry))

    @functools.cached_property
    def _codes(self) -> Any:
        return codes_of(self.subject.fn, self.lines)

    def _behind(self, entry: sources.Entry) -> list[Any]:
        """What code may name when it means a source: the thing itself, the layers that hold it."""
        layers = [t for t in self._reached if _holds(t, entry.objects)]
        return [entry.thing, *entry.objects, *layers]

    @functools.cached_property
    def _reached(self) -> list[Any]:
        roots = [t for t in walk(self.subject.fn, stop=_is_layer) if _is_layer(t)]
        return [layer for root in roots for layer in layers_inside(root)]


def _is_layer(thing: Any) -> bool:
    return isinstance(thing, keras.Layer)


def _holds(layer: Any, objects: Sequence[Any]) -> bool:
    return any(v is thing for v in layer.variables for thing in objects)


def _moved(tensor: Any) -> Any:
    """Other numbers."""
    array = tensor.numpy()
    uneven = np.cos(np.arange(array.size)).reshape(array.shape)  # some results only see differences
    return tf.constant(array * _FACTOR + _SUMMAND * uneven, tensor.dtype)
