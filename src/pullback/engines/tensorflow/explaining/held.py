"""What the backward pass keeps: the outputs of ops that are still there after a forward pass under a tape.

It takes a run of its own, in which nothing but the tape holds tensors.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.explaining.stream import Record, Stream
from pullback.engines.tensorflow.tf_private import explaining


class WeakStream(Stream):
    """A stream that holds no tensors, and knows which of them live."""

    keeps = False

    def __init__(self, lines: Any) -> None:
        super().__init__(lines)
        self._outputs: dict[int, Any] = {}  # weak references by value

    def ran(self, *args: Any, **kwargs: Any) -> Record:
        """Note an op that ran, and nothing of its tensors."""
        record = super().ran(*args, **kwargs)
        outputs = args[4]
        self._outputs.update(zip(record.outputs, map(weakref.ref, outputs), strict=True))
        return record

    def _replace(self, last: Record, outputs: list[Any], rule: Any, backward: Any) -> None:
        super()._replace(last, outputs, rule, backward)
        self._outputs.update(zip(last.ends or (), map(weakref.ref, outputs), strict=False))
        last.let_go()

    def alive(self, given: Iterable[Any]) -> Mapping[int, int]:
        """Bytes by value, each buffer once; what was there before, such as weights and inputs, is not counted."""
        gc.collect()
        known = {explaining.address(_value(thing)) for thing in given}
        found: dict[int, int] = {}
        for value, reference in self._outputs.items():
            tensor = reference()
            size = self.values[value].bytes if value < len(self.values) else 0
            if tensor is None or not size:
                continue
            at = explaining.address(tensor)
            if at not in known:
                known.add(at)
                found[value] = size
        return found


def _value(thing: Any) -> Any:
    if isinstance(thing, tf.Variable):
        return explaining.value_behind(thing.handle, thing.dtype)
    return thing if isinstance(thing, private.EagerTensor) else tf.convert_to_tensor(thing)
