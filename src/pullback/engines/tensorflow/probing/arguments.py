"""The arguments of a checked call: which leaves move, how they are called, how they are put back."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from pullback._tree import Structure, flatten, paths, unflatten
from pullback.check.options import is_meant
from pullback.check.probe import Array, Leaf
from pullback.engines.tensorflow.probing.state import raw_variable

_PARTS = (
    (tf.RaggedTensor, ".flat_values"),
    (tf.SparseTensor, ".values"),
    (tf.IndexedSlices, ".values"),
)


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
        self.leaves, self.structure = flatten((tuple(args), dict(kwargs)))
        names = _names(fn, self.structure)
        self.names = [name for _, name in names]
        self.wrt = wrt
        self.slots: list[Slot] = []
        self.twins: dict[tuple[int, tf.DType], tf.Variable] = {}
        for position, value in enumerate(self.leaves):
            self.slots.extend(_slots(position, value, *names[position]))
        self.all_slots = tuple(self.slots)
        if wrt is not None:
            self.slots = [s for s in self.slots if any(is_meant(s.leaf, name) for name in wrt)]

        self.replaced = {s.position for s in self.slots if _is_dense(self.leaves[s.position])}

    def describe(self) -> str:
        """Names with dtypes and shapes, for messages."""
        pairs = zip(self.names, self.leaves, strict=True)
        return ", ".join(f"{name}: {_description(value)}" for name, value in pairs)

    def holds(self, variable: Any) -> bool:
        """Whether a variable is one of the arguments or stands in for one."""
        given = [raw_variable(leaf) for leaf in self.leaves if is_variable(leaf)]
        return any(variable is one for one in (*given, *self.twins.values()))

    def start(self) -> list[Array]:
        """Values of the movable tensors, as given."""
        return [_array(_component(self.leaves[s.position], s.component)) for s in self.slots]

    def build(
        self, tensors: Sequence[Any], lift: Callable[[tf.DType], tf.DType]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments with these tensors in the slots, everything else lifted likewise."""
        leaves = [
            None if k in self.replaced else self._lifted(k, value, lift)
            for k, value in enumerate(self.leaves)
        ]
        for slot, tensor in zip(self.slots, tensors, strict=True):
            before = leaves[slot.position]
            leaves[slot.position] = (
                tensor if before is None else _placed(before, slot.component, tensor)
            )
        return unflatten(self.structure, leaves)

    def sources(self, tensors: Sequence[Any], lift: Callable[[tf.DType], tf.DType]) -> list[Any]:
        """What to differentiate by: the tensors, or the variables that stand in for arguments."""
        return [
            self._twin(s.position, self.leaves[s.position], lift)
            if is_variable(self.leaves[s.position])
            else tensor
            for s, tensor in zip(self.slots, tensors, strict=True)
        ]

    def _lifted(self, position: int, value: Any, lift: Callable[[tf.DType], tf.DType]) -> Any:
        if is_variable(value) and moves(value.dtype):
            return self._twin(position, value, lift)
        return _lifted(value, lift)

    def _twin(self, position: int, value: Any, lift: Callable[[tf.DType], tf.DType]) -> Any:
        """A variable that stands in for one among the arguments, which is left alone."""
        dtype = lift(tf.as_dtype(value.dtype))
        if (position, dtype) not in self.twins:
            start = tf.cast(tf.convert_to_tensor(value), dtype)
            self.twins[position, dtype] = tf.Variable(start)
        return self.twins[position, dtype]


def components(value: Any) -> list[Any]:
    """The dense tensors a value is made of; none for what is not a tensor."""
    if isinstance(value, np.ndarray | np.generic):
        return [value]
    if is_variable(value) or isinstance(value, tf.Tensor):
        return [value]
    if isinstance(value, tf.RaggedTensor | tf.SparseTensor | tf.IndexedSlices):
        return list(tf.nest.flatten(value, expand_composites=True))
    return []


def _is_dense(value: Any) -> bool:
    """One tensor or array, which another tensor can stand for."""
    return isinstance(value, np.ndarray | np.generic | tf.Tensor)


def is_variable(value: Any) -> bool:
    """A TensorFlow variable, or Keras' wrapper of one."""
    return isinstance(value, tf.Variable) or hasattr(value, "_maybe_autocast")


def moves(dtype: Any) -> bool:
    """Whether tensors of this type can be moved by a small amount."""
    kind = tf.as_dtype(dtype)
    return kind.is_floating or kind.is_complex


def to_array(tensor: Any) -> Array:
    """A float64 or complex128 array of any float tensor, without a copy where it is one already."""
    array = np.asarray(tensor)
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64, copy=False)


def _array(value: Any) -> Array:
    return to_array(tf.convert_to_tensor(value) if is_variable(value) else value)


def _slots(position: int, value: Any, path: str, name: str) -> list[Slot]:
    found = []
    for k, part in enumerate(components(value)):
        dtype = tf.as_dtype(part.dtype)
        if moves(dtype):
            suffix = next((end for kind, end in _PARTS if isinstance(value, kind)), "")
            leaf = Leaf(
                path + suffix, name + suffix, tuple(part.shape), dtype.name, dtype.is_complex
            )
            found.append(Slot(leaf, position, k, dtype))
    return found


def _component(value: Any, which: int) -> Any:
    return components(value)[which]


def _lifted(value: Any, lift: Callable[[tf.DType], tf.DType]) -> Any:
    parts = components(value)
    if not any(moves(part.dtype) for part in parts):
        return value
    cast = [tf.cast(p, lift(tf.as_dtype(p.dtype))) if moves(p.dtype) else p for p in parts]
    return _packed(value, cast)


def _placed(value: Any, which: int, tensor: Any) -> Any:
    if is_variable(value):
        value.assign(tensor)
        return value
    parts = components(value)
    parts[which] = tensor
    return _packed(value, parts)


def _packed(value: Any, parts: list[Any]) -> Any:
    if isinstance(value, tf.RaggedTensor | tf.SparseTensor | tf.IndexedSlices):
        return tf.nest.pack_sequence_as(value, parts, expand_composites=True)
    return parts[0]


def _names(fn: Callable[..., Any], structure: Structure) -> list[tuple[str, str]]:
    parameters = _parameters(fn)
    out = []
    for path in paths(structure):
        if path.startswith("[0]"):
            rest = path[3:]
            number, _, tail = rest[1:].partition("]")
            name = parameters[int(number)] if int(number) < len(parameters) else f"args[{number}]"
            out.append((f"args{rest}", name + tail))
        else:
            key, _, tail = path[3:][2:].partition('"]')
            out.append((f'kwargs["{key}"]{tail}', key + tail))
    return out


def _parameters(fn: Callable[..., Any]) -> list[str]:
    target = getattr(fn, "call", fn) if isinstance(fn, tf.Module) or hasattr(fn, "call") else fn
    target = getattr(target, "python_function", target)
    try:
        found = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in found if p.kind in positional]


def _description(value: Any) -> str:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        kind = getattr(value.dtype, "name", value.dtype)
        return f"{kind}{list(value.shape)}"
    return f"{type(value).__name__} {value!r}"[:40]
