"""Arguments and results of a checked call: which tensors move, how they are called, how they are put back."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from pullback._bind import signature_of
from pullback._project import describe
from pullback._tree import flatten, paths, unflatten
from pullback.check.probe import Array, Leaf
from pullback.engines.tensorflow.probing.precision import Lift, lifted, moves
from pullback.engines.tensorflow.values import underlying

_COMPOSITE = (tf.RaggedTensor, tf.SparseTensor, tf.IndexedSlices)
_DENSE = (np.ndarray, np.generic, tf.Tensor)


@dataclass(frozen=True)
class Slot:
    """One movable tensor: the leaf it sits in, and its place among the leaf's components."""

    leaf: Leaf
    position: int
    component: int
    dtype: tf.DType


class Arguments:
    """Arguments taken apart once, and rebuilt around new tensors for every call."""

    def __init__(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        wrt: Sequence[str] | None = None,
    ) -> None:
        self.leaves, self.structure = flatten((tuple(args), kwargs))
        self.wrt = wrt
        self.twins: dict[tuple[int, tf.DType], tf.Variable] = {}
        self.named = list(_named(fn, args, kwargs))
        slots = (_slots(k, value, *self.named[k]) for k, value in enumerate(self.leaves))
        self.all_slots = [slot for found in slots for slot in found]
        self.slots = [s for s in self.all_slots if self.is_asked(s.leaf)]

    def is_asked(self, leaf: Leaf) -> bool:
        """Whether `wrt` takes in this leaf."""
        return self.wrt is None or any(map(leaf.is_meant, self.wrt))

    def describe(self) -> str:
        """Names with dtypes and shapes, for messages."""
        pairs = zip(self.named, self.leaves, strict=True)
        return ", ".join(f"{name}: {describe(value)}" for (_, name), value in pairs)

    def holds(self, variable: Any) -> bool:
        """Whether a variable is one of the arguments or stands for one."""
        known = (*map(underlying, filter(is_variable, self.leaves)), *self.twins.values())
        return any(variable is one for one in known)

    def start(self) -> list[Array]:
        """Values of the movable tensors, as given."""
        return [to_array(components(self.leaves[s.position])[s.component]) for s in self.slots]

    def build(self, tensors: Sequence[Any], lift: Lift) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments with these tensors in the slots, everything else lifted likewise."""
        replaced = {s.position for s in self.slots}
        leaves = [
            value if k in replaced and isinstance(value, _DENSE) else self._lifted(k, value, lift)
            for k, value in enumerate(self.leaves)
        ]
        for slot, tensor in zip(self.slots, tensors, strict=True):
            leaves[slot.position] = _placed(leaves[slot.position], slot.component, tensor)
        return unflatten(self.structure, leaves)

    def sources(self, tensors: Sequence[Any], lift: Lift) -> list[Any]:
        """What to differentiate by: the tensors, or the variables that stand for arguments."""
        leaves = [self.leaves[slot.position] for slot in self.slots]
        return [
            self._twin(s.position, leaf, lift) if is_variable(leaf) else tensor
            for s, leaf, tensor in zip(self.slots, leaves, tensors, strict=True)
        ]

    def _lifted(self, position: int, value: Any, lift: Lift) -> Any:
        parts = components(value)
        if not any(moves(part.dtype) for part in parts):
            return value
        if is_variable(value):
            return self._twin(position, value, lift)
        return _packed(value, [lifted(part, lift) for part in parts])

    def _twin(self, position: int, value: Any, lift: Lift) -> Any:
        """A variable that stands for one among the arguments, which is left alone."""
        key = position, lift(tf.as_dtype(value.dtype))
        if key not in self.twins:
            self.twins[key] = tf.Variable(lifted(value, lift))
        return self.twins[key]


def components(value: Any) -> list[Any]:
    """The dense tensors a value is made of; none for what is not a tensor."""
    if isinstance(value, _COMPOSITE):
        return list(tf.nest.flatten(value, expand_composites=True))
    return [value] if is_variable(value) or isinstance(value, _DENSE) else []


def is_variable(value: Any) -> bool:
    """A TensorFlow variable, or Keras' wrapper of one."""
    return isinstance(value, tf.Variable | keras.Variable)


def to_array(tensor: Any) -> Array:
    """A float64 or complex128 array of any float tensor, without a copy where it is one already."""
    array = np.asarray(tf.convert_to_tensor(tensor) if is_variable(tensor) else tensor)
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64, copy=False)


def float_outputs(result: Any) -> list[Any]:
    """The float tensors in what a function returned."""
    return [part for _, part in named_outputs(result)]


def named_outputs(result: Any) -> list[tuple[str, Any]]:
    """The float tensors in what a function returned, with their paths."""
    leaves, structure = flatten(result)
    found = []
    for path, leaf in zip(paths(structure, "out"), leaves, strict=True):
        parts = [tf.convert_to_tensor(leaf)] if is_variable(leaf) else components(leaf)
        path += ".flat_values" if isinstance(leaf, tf.RaggedTensor) else ""
        found += [(path, p) for p in parts if isinstance(p, tf.Tensor) and moves(p.dtype)]
    return found


def _slots(position: int, value: Any, path: str, name: str) -> Iterator[Slot]:
    suffix = ".flat_values" if isinstance(value, tf.RaggedTensor) else ".values"
    suffix = suffix if isinstance(value, _COMPOSITE) else ""
    for k, part in enumerate(components(value)):
        dtype = tf.as_dtype(part.dtype)
        if moves(dtype):
            shape = tuple(part.shape)
            leaf = Leaf(path + suffix, name + suffix, shape, dtype.name, dtype.is_complex)
            yield Slot(leaf, position, k, dtype)


def _placed(value: Any, which: int, tensor: Any) -> Any:
    if is_variable(value):
        value.assign(tensor)
        return value
    parts = components(value)
    parts[which] = tensor
    return _packed(value, parts)


def _packed(value: Any, parts: list[Any]) -> Any:
    if isinstance(value, _COMPOSITE):
        return tf.nest.pack_sequence_as(value, parts, expand_composites=True)
    return parts[0]


def _named(
    fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    """The path and the name of every leaf, in the order of the leaves of `(args, kwargs)`."""
    names = dict(enumerate(_parameters(fn)))
    for k, value in enumerate(args):
        yield from _paths(value, f"args[{k}]", names.get(k, f"args[{k}]"))
    for key in sorted(kwargs):
        yield from _paths(kwargs[key], f'kwargs["{key}"]', key)


def _paths(value: Any, path: str, name: str) -> Iterator[tuple[str, str]]:
    _, structure = flatten(value)
    return zip(paths(structure, path), paths(structure, name), strict=True)


def _parameters(fn: Callable[..., Any]) -> list[str]:
    target = getattr(fn, "call", fn)
    found = signature_of(getattr(target, "python_function", target)).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in found if p.kind in positional]
