"""Arguments and results of a checked call: which tensors move, how they are called, how they are put back."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.probing.precision import Lift, lifted
from pullback.engines.tensorflow.values import is_variable
from pullback.extend import Array, Leaf, describe, flatten, paths, paths_and_names, unflatten

_DENSE = (np.ndarray, np.generic, tf.Tensor)


class Arguments:
    """Arguments taken apart once, and rebuilt around new tensors for every call.

    `movable` has the tensors that can be moved, by their position among the leaves; `slots` those that `wrt` asks for.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        wrt: Sequence[str] | None = None,
    ) -> None:
        self.leaves, self.structure = flatten((tuple(args), kwargs))
        self.wrt = wrt
        self.given: list[Array] | None = None
        self.twins: dict[tuple[int, tf.DType], tf.Variable] = {}
        self.named = list(paths_and_names(fn, args, kwargs))
        self.movable = {
            k: leaf_of(movable(value), path + _suffix(value), name + _suffix(value))
            for k, (value, (path, name)) in enumerate(zip(self.leaves, self.named, strict=True))
            if movable(value) is not None
        }
        self.slots = {k: leaf for k, leaf in self.movable.items() if self.is_asked(leaf)}

    def is_asked(self, leaf: Leaf) -> bool:
        """Whether `wrt` takes in this leaf."""
        return self.wrt is None or any(map(leaf.is_meant, self.wrt))

    def describe(self) -> str:
        """Names with dtypes and shapes, for messages."""
        pairs = zip(self.named, self.leaves, strict=True)
        return ", ".join(f"{name}: {describe(value)}" for (_, name), value in pairs)

    def holds(self, variable: Any) -> bool:
        """Whether a variable is one of the arguments or stands for one."""
        known = (*map(values.underlying, filter(is_variable, self.leaves)), *self.twins.values())
        return any(variable is one for one in known)

    def start(self) -> list[Array]:
        """Values of the movable tensors, as given: one copy for all, which nobody may write to."""
        if self.given is None:
            self.given = [to_array(movable(self.leaves[position])) for position in self.slots]
            for array in self.given:
                array.flags.writeable = False
        return list(self.given)

    def build(self, tensors: Sequence[Any], lift: Lift) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments with the first of these tensors in the slots, everything else lifted likewise."""
        moved = dict(zip(self.slots, tensors, strict=False))
        leaves = [self._leaf(k, value, moved.get(k), lift) for k, value in enumerate(self.leaves)]
        return unflatten(self.structure, leaves)

    def sources(self, tensors: Sequence[Any], lift: Lift) -> list[Any]:
        """What to differentiate by: the first of these tensors, or the variables that stand for arguments."""
        return [
            self._twin(k, lift) if is_variable(self.leaves[k]) else tensor
            for k, tensor in zip(self.slots, tensors, strict=False)
        ]

    def _leaf(self, position: int, value: Any, tensor: Any, lift: Lift) -> Any:
        if position not in self.movable:
            return value
        if not is_variable(value):
            tensor = lifted(movable(value), lift) if tensor is None else tensor
            return values.with_gradient_tensor(value, tensor)
        twin = self._twin(position, lift)
        twin.assign(lifted(value, lift) if tensor is None else tensor)
        return twin

    def _twin(self, position: int, lift: Lift) -> tf.Variable:
        """A variable that stands for one among the arguments, which is left alone."""
        value = self.leaves[position]
        key = position, lift(tf.as_dtype(value.dtype))
        if key not in self.twins:
            self.twins[key] = tf.Variable(lifted(value, lift))
        return self.twins[key]


def movable(value: Any) -> Any:
    """The tensor, array or variable of a value that can be moved by small amounts, if there is one."""
    value = values.gradient_tensor(value)
    dense = is_variable(value) or isinstance(value, _DENSE)
    return value if dense and values.flows(value) else None


def leaf_of(tensor: Any, path: str, name: str, kind: str = "argument") -> Leaf:
    """What a report says of a tensor, array or variable."""
    dtype = tf.as_dtype(tensor.dtype)
    return Leaf(path, name, tuple(tensor.shape), dtype.name, dtype.is_complex, kind)


def _suffix(value: Any) -> str:
    if isinstance(value, tf.RaggedTensor):
        return ".flat_values"
    return ".values" if isinstance(value, tf.SparseTensor | tf.IndexedSlices) else ""


def to_array(tensor: Any) -> Array:
    """A float64 or complex128 array of any float tensor, without a copy where it is one already."""
    value = tf.convert_to_tensor(tensor) if is_variable(tensor) else tensor
    # of a tensor its own memory, which nobody may write to; one number of a short format is no array by itself
    is_number = isinstance(value, tf.Tensor) and not value.shape.rank
    array = np.asarray(value.numpy() if is_number else value)
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64, copy=False)


def to_arrays(gradients: Iterable[Any]) -> list[Array | None]:
    """Arrays of gradients, some of which may be sparse or `None`."""
    return [None if g is None else to_array(values.dense(g)) for g in gradients]


def outputs_of(result: Any) -> dict[str, Any]:
    """The float tensors in what a function returned, by their paths."""
    leaves, structure = flatten(result)
    named = zip(paths(structure, "out"), leaves, strict=True)
    found = {path + _suffix(leaf): movable(leaf) for path, leaf in named}
    found = {path: tf.convert_to_tensor(t) if is_variable(t) else t for path, t in found.items()}
    # an array has left TensorFlow, and its gradient behind
    return {path: tensor for path, tensor in found.items() if isinstance(tensor, tf.Tensor)}
