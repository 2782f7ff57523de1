"""What one can ask about: arguments, variables that were read, tensors that the function closes over."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.attach.closed_over import tensors_of
from pullback.engines.tensorflow.explaining.sizes import size_of
from pullback.engines.tensorflow.explaining.stream import Stream
from pullback.engines.tensorflow.explaining.subject import Subject
from pullback.engines.tensorflow.tf_private import explaining
from pullback.extend import flow

# Two sums of the same numbers in another order differ by no more than this, relative to the largest.
_SAME = {"float64": 1e-9, "complex128": 1e-9, "float16": 3e-2, "bfloat16": 1e-1}
_SAME_FLOAT32 = 1e-3


class Sources:
    """The sources of a run, and which values stand for them."""

    def __init__(self, subject: Subject, stream: Stream, variables: Sequence[Any]) -> None:
        self.subject, self.stream = subject, stream
        self.variables = list(variables)  # that the function can reach
        self.tape: Any = None
        self.start = private.next_number()
        self._read: dict[int, list[int]] = {}  # id of a variable -> values read of it out of sight
        arguments = {id(leaf.tensor) for leaf in subject.leaves}
        tensors = {id(t): t for t in _closed_over(subject.fn) if id(t) not in arguments}
        self.tensors = list(tensors.values())
        with stream.paused():
            for tensor in [leaf.tensor for leaf in subject.leaves] + self.tensors:
                stream.value(getattr(tensor, "handle", tensor))
        stream.on_unknown = self._on_unknown

    def watched(self) -> list[Any]:
        """What the tape is told to watch: variables it finds by itself."""
        given = [
            leaf.tensor for leaf in self.subject.leaves if not isinstance(leaf.tensor, tf.Variable)
        ]
        return [t for t in [*given, *self.tensors] if values.flows(t)]

    def _on_unknown(self, tensor: Any, value: int) -> None:
        """A tensor that no op was seen to make may be what the fast path has read of a variable."""
        made_here = private.number_of(tensor) >= self.start
        if not made_here or not values.flows(tensor) or not tensor.shape.num_elements():
            return
        known = {id(v): v for v in [*self.variables, *self.tape.watched_variables()]}
        at = explaining.address(tensor)
        for variable in known.values():
            same = variable.dtype == tensor.dtype and variable.shape == tensor.shape
            if same and self._address(variable) == at:
                self._read.setdefault(id(variable), []).append(value)
                self.stream.values[value].variable = variable.name
                return

    def _address(self, variable: Any) -> int:
        with self.stream.paused():
            return explaining.address(explaining.value_behind(variable.handle, variable.dtype))

    def finish(self) -> None:
        """The run is over: which variables were read is known."""
        watched = {id(v): v for v in self.tape.watched_variables()}
        met = {id(v): v for v in self.variables if self._values_of(v)}
        arguments = {id(leaf.tensor) for leaf in self.subject.leaves}
        self.read = [v for k, v in {**watched, **met}.items() if k not in arguments]
        for variable in self.read:
            for value in self._values_of(variable):
                self.stream.values[value].variable = variable.name
        pairs = [(leaf.tensor, self._values_of(leaf.tensor)) for leaf in self.subject.leaves]
        pairs += [(t, self._values_of(t)) for t in [*self.read, *self.tensors]]
        self.pairs = pairs
        self.values = {v for _, found in pairs for v in found}

    def _values_of(self, thing: Any) -> list[int]:
        known = self.stream.known(getattr(thing, "handle", thing))
        return [*([] if known is None else [known]), *self._read.get(id(thing), [])]

    def asked(self) -> list[Any]:
        """What TensorFlow is asked for the gradients of."""
        return [thing for thing, _ in self.pairs if values.flows(thing)]

    def numbers(self) -> frozenset[int]:
        """The numbers of the tensors that gradients are taken of."""
        return frozenset(private.number_of(getattr(t, "handle", t)) for t, _ in self.pairs)

    def told(
        self,
        totals: Mapping[int, Any],
        truth: Sequence[Any],
        notes: list[str],
        wrt: Any,  # noqa: ARG002
    ) -> tuple[tuple[flow.Source, ...], list[tuple[Any, int]]]:
        """The sources as data, and the objects that stand for them."""
        gradients = dict(zip(map(id, self.asked()), truth, strict=True))
        names, largest = self._names(), self._largest()
        found: list[flow.Source] = []
        objects: list[tuple[Any, int]] = []
        for k, (thing, met) in enumerate(self.pairs):
            swept = _sum(totals, met)
            true = gradients.get(id(thing))
            if values.flows(thing) and _trainable(thing) and differ(swept, true, largest):
                notes.append(
                    f"the gradient of {names[k]} that is told here differs from the one that TensorFlow gives"
                )
            kept = true if true is not None else None
            found.append(self._source(k, names[k], thing, met, kept))
            objects.append((thing, k))
            if k < len(self.subject.leaves) and self.subject.leaves[k].given is not thing:
                objects.append((self.subject.leaves[k].given, k))
        objects += self._keras_objects()
        return tuple(found), objects

    def _largest(self) -> float:
        """The largest gradient on the way: sums of such numbers that cancel leave rounding errors of their size."""
        return max((v.gradient.max for v in self.stream.values if v.gradient), default=0.0)

    def _source(
        self, k: int, name: str, thing: Any, met: Sequence[int], gradient: Any
    ) -> flow.Source:
        variable = isinstance(thing, tf.Variable)
        kind = "argument" if k < len(self.subject.leaves) else "variable" if variable else "tensor"
        return flow.Source(
            name,
            kind,
            tuple(met),
            tuple(thing.shape),
            thing.dtype.name,
            None if gradient is None else size_of(gradient),
            trainable=_trainable(thing),
        )

    def _names(self) -> list[str]:
        names = [leaf.name for leaf in self.subject.leaves]
        names += [_variable_name(v) for v in self.read]
        known = _names_in(self.subject.fn)
        names += [known.get(id(t), f"a tensor of shape {tuple(t.shape)}") for t in self.tensors]
        return names

    def _keras_objects(self) -> list[tuple[Any, int]]:
        position = {id(thing): k for k, (thing, _) in enumerate(self.pairs)}
        found = [v for owner in _layers_of(self.subject.fn) for v in owner.variables]
        return [
            (v, position[id(values.underlying(v))])
            for v in found
            if id(values.underlying(v)) in position
        ]


def _layers_of(fn: Any) -> list[Any]:
    owner = getattr(fn, "__self__", fn)
    return [owner] if isinstance(owner, keras.Layer) else []


def _variable_name(variable: Any) -> str:
    return variable.name.removesuffix(":0")


def _trainable(thing: Any) -> bool:
    return bool(getattr(thing, "trainable", True))


def _closed_over(fn: Any) -> list[Any]:
    if isinstance(fn, keras.Layer):
        return []
    function = getattr(fn, "python_function", fn)
    found = tensors_of(inspect.unwrap(function), ()) if callable(function) else []
    return [t for t in found if isinstance(t, private.EagerTensor) and values.flows(t)]


def _names_in(fn: Any) -> dict[int, str]:
    """The names by which a function knows tensors."""
    function = inspect.unwrap(getattr(fn, "python_function", fn))
    code = getattr(function, "__code__", None)
    if code is None:
        return {}
    outside = {n: function.__globals__[n] for n in code.co_names if n in function.__globals__}
    cells = zip(code.co_freevars, function.__closure__ or (), strict=False)
    for name, cell in cells:
        try:
            outside[name] = cell.cell_contents
        except ValueError:
            continue
    return {id(value): name for name, value in outside.items()}


def _sum(totals: Mapping[int, Any], met: Iterable[int]) -> Any:
    found = [totals[v] for v in met if v in totals]
    return explaining.sum_of(found) if found else None


def differ(swept: Any, truth: Any, largest: float) -> bool:
    """Whether two gradients are not the same but for the order of sums."""
    if swept is None or truth is None:
        return (swept is None) != (truth is None)
    one, other = (np.asarray(values.dense(g)) for g in (swept, truth))
    if one.shape != other.shape:
        return True
    if np.array_equal(one, other):
        return False
    wide = np.complex128 if np.iscomplexobj(one) else np.float64
    one, other = one.astype(wide), other.astype(wide)
    scale = np.max(np.abs(other[np.isfinite(other)]), initial=0.0)
    same = _SAME.get(truth.dtype.name, _SAME_FLOAT32)
    allowed = same * scale + same / 1000 * largest
    return not np.allclose(one, other, rtol=0, atol=allowed, equal_nan=True)
