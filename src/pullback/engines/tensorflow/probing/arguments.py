"""Arguments and results of a checked call: which tensors move, how they are called, how they are put back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.probing.precision import Lift, lifted
from pullback.engines.tensorflow.values import flows, underlying
from pullback.extend import Array, Leaf, describe, flatten, paths, paths_and_names, unflatten

_DENSE = (np.ndarray, np.generic, tf.Tensor)


@dataclass(frozen=True)
class Slot:
    """One movable tensor: how it is called, and which of the arguments' leaves it sits in."""

    leaf: Leaf
    position: int
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
        self.named = list(paths_and_names(fn, args, kwargs))
        slots = (_slot(k, value, *self.named[k]) for k, value in enumerate(self.leaves))
        self.all_slots = [slot for slot in slots if slot is not None]
        self.slots = [slot for slot in self.all_slots if self.is_asked(slot.leaf)]

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
        return [to_array(movable(self.leaves[slot.position])) for slot in self.slots]

    def build(self, tensors: Sequence[Any], lift: Lift) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments with these tensors in the slots, everything else lifted likewise."""
        moved = {s.position: tensor for s, tensor in zip(self.slots, tensors, strict=True)}
        leaves = [self._leaf(k, value, moved.get(k), lift) for k, value in enumerate(self.leaves)]
        return unflatten(self.structure, leaves)

    def sources(self, tensors: Sequence[Any], lift: Lift) -> list[Any]:
        """What to differentiate by: the tensors, or the variables that stand for arguments."""
        leaves = [self.leaves[slot.position] for slot in self.slots]
        return [
            self._twin(s.position, leaf, lift) if is_variable(leaf) else tensor
            for s, leaf, tensor in zip(self.slots, leaves, tensors, strict=True)
        ]

    def _leaf(self, position: int, value: Any, tensor: Any, lift: Lift) -> Any:
        part = movable(value)
        if part is None:
            return value
        if not is_variable(value):
            return _with_movable(value, lifted(part, lift) if tensor is None else tensor)
        twin = self._twin(position, value, lift)
        if tensor is not None:
            twin.assign(tensor)
        return twin

    def _twin(self, position: int, value: Any, lift: Lift) -> Any:
        """A variable that stands for one among the arguments, which is left alone."""
        key = position, lift(tf.as_dtype(value.dtype))
        if key not in self.twins:
            self.twins[key] = tf.Variable(lifted(value, lift))
        return self.twins[key]


def movable(value: Any) -> Any:
    """The tensor, array or variable of a value that can be moved by small amounts, if there is one."""
    if isinstance(value, tf.RaggedTensor):
        value = value.flat_values
    elif isinstance(value, tf.SparseTensor | tf.IndexedSlices):
        value = value.values
    dense = is_variable(value) or isinstance(value, _DENSE)
    return value if dense and flows(value) else None


def _with_movable(value: Any, tensor: Any) -> Any:
    if isinstance(value, tf.RaggedTensor):
        return value.with_flat_values(tensor)
    if isinstance(value, tf.SparseTensor):
        return value.with_values(tensor)
    if isinstance(value, tf.IndexedSlices):
        return tf.IndexedSlices(tensor, value.indices, value.dense_shape)
    return tensor


def _suffix(value: Any) -> str:
    if isinstance(value, tf.RaggedTensor):
        return ".flat_values"
    return ".values" if isinstance(value, tf.SparseTensor | tf.IndexedSlices) else ""


def _slot(position: int, value: Any, path: str, name: str) -> Slot | None:
    part = movable(value)
    if part is None:
        return None
    dtype, end = tf.as_dtype(part.dtype), _suffix(value)
    leaf = Leaf(path + end, name + end, tuple(part.shape), dtype.name, dtype.is_complex)
    return Slot(leaf, position, dtype)


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
    named = zip(paths(structure, "out"), leaves, strict=True)
    found = [(path + _suffix(leaf), movable(leaf)) for path, leaf in named]
    found = [(path, tf.convert_to_tensor(t) if is_variable(t) else t) for path, t in found]
    # an array has left TensorFlow, and its gradient behind
    return [(path, tensor) for path, tensor in found if isinstance(tensor, tf.Tensor)]
