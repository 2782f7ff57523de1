"""The backward pass, node by node in reverse order: what arrives, what is passed on, and how long that takes.

It follows TensorFlow's tape: zeros stand for what does not arrive at some outputs, sums are made as there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.explaining.compiled import Compiler
from pullback.engines.tensorflow.explaining.sizes import size_of
from pullback.engines.tensorflow.explaining.stream import Record, Stream
from pullback.engines.tensorflow.tf_private import explaining, overriding
from pullback.extend import flow

_DEAD = frozenset({"none", "stopped", "unrecorded"})


class Sweep:
    """Gradients on their way back."""

    def __init__(self, stream: Stream, starts: Mapping[int, Any], sources: Iterable[int]) -> None:
        self.stream = stream
        # what arrived at a value, from each that read it, and its size
        self.arrived: dict[int, list[tuple[Any, flow.Size]]]
        self.arrived = {v: [(g, _size(g))] for v, g in starts.items()}
        self.sources = frozenset(sources)
        self.totals: dict[int, Any] = {}  # of the sources
        self.errors: list[tuple[int, BaseException]] = []
        self.compiler: Compiler | None = None  # where compiled code may be another matter
        self._leading = self._values_that_lead_back()

    def run(self) -> None:
        """Sweep over all records."""
        for position in range(len(self.stream.records) - 1, -1, -1):
            record = self.stream.records[position]
            if any(v in self.arrived for v in record.outputs):
                self._pass_on(position, record)
            record.let_go()
        for value in list(self.arrived):
            self._total(value)

    def _values_that_lead_back(self) -> set[int]:
        """Values that are made of a source, by whatever way: no gradient is wanted of others."""
        leading = set(self.sources)
        for record in self.stream.records:
            if not leading.isdisjoint(record.inputs):
                leading.update(record.outputs)
        return leading

    def _total(self, value: int) -> Any:
        """The sum of what arrived at a value, which is noted."""
        pieces = self.arrived.pop(value, None)
        if pieces is None:
            return None
        total = explaining.sum_of([gradient for gradient, _ in pieces])
        self.stream.values[value].gradient = pieces[0][1] if len(pieces) == 1 else _size(total)
        if value in self.sources:
            self.totals[value] = total
        return total

    def _pass_on(self, position: int, record: Record) -> None:
        upstream = [self._total(v) for v in record.ends or record.outputs]
        if self._leading.isdisjoint(record.inputs):
            return
        began = time.perf_counter()
        found = self._gradients(position, record, upstream)
        record.seconds = time.perf_counter() - began
        found += [None] * (len(record.inputs) - len(found))
        sizes: list[flow.Size | None] = []
        for value, gradient in zip(record.inputs, found, strict=True):
            size = None if gradient is None else _size(gradient)
            sizes.append(size)
            if size is not None and value in self._leading:
                self.arrived.setdefault(value, []).append((gradient, size))
        record.gradients = tuple(sizes)
        if self.compiler is not None:
            self.compiler.look(record, upstream)

    def _gradients(self, position: int, record: Record, upstream: list[Any]) -> list[Any]:
        if record.rule.kind in _DEAD or not record.results:
            return []
        try:
            return [_checked(g) for g in gradients_of(record, upstream)]
        except Exception as error:  # the tape will tell; a note says at which node
            self.errors.append((position, error))
            return []


def gradients_of(record: Record, upstream: list[Any]) -> Sequence[Any]:
    """What a node gives for each of its inputs."""
    if record.backward is not None:
        given = explaining.zeros_where_missing(record.type, record.results, upstream)
        return _listed(record.backward(*given))
    function = private.registered_gradient(record.type)
    given = explaining.zeros_where_missing(record.type, record.results, upstream)
    operation = overriding.mock_operation(
        record.type, record.attrs, list(record.tensors), list(record.results)
    )
    return _listed(function(operation, *given))


def _listed(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (list, tuple)) else [found]


def _checked(gradient: Any) -> Any:
    if gradient is None or isinstance(gradient, (tf.Tensor, tf.IndexedSlices)):
        return gradient
    return tf.convert_to_tensor(gradient)


def _size(gradient: Any) -> flow.Size:
    """Of a gradient that holds no numbers itself, such as a list of tensors, that it is there."""
    return size_of(gradient) or flow.Size(0.0, 0.0, 0.0, 0, 0, 0)
