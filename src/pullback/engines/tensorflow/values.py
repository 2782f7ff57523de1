"""TensorFlow values: what carries a gradient, and where it lives.

Every differentiable leaf has exactly one tensor in which its gradient lives: a tensor itself, or the one with the
numbers of a composite value.
"""

from __future__ import annotations

import collections
import numbers
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.composite import COMPOSITE, with_numbers
from pullback.engines.tensorflow.composite import numbers_of as gradient_tensor
from pullback.errors import UnsupportedError
from pullback.extend import Kind

VARIABLES = (tf.Variable, keras.Variable)
_TENSORS = (tf.Tensor, *COMPOSITE, keras.KerasTensor)
FLOWING = frozenset(
    d.as_datatype_enum
    for d in (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128)
)


def kind(leaf: Any) -> Kind:
    """How a leaf takes part in differentiation."""
    if type(leaf) is private.EagerTensor:
        return Kind.DIFFERENTIABLE if private.data_type(leaf) in FLOWING else Kind.TENSOR
    if leaf is None or isinstance(leaf, bool):
        return Kind.STATIC
    if isinstance(leaf, (np.ndarray, np.generic, numbers.Number)):
        return Kind.NUMBER
    if isinstance(leaf, VARIABLES):
        return Kind.DIFFERENTIABLE if _takes_gradient(leaf) else Kind.TENSOR
    if isinstance(leaf, _TENSORS):
        return Kind.DIFFERENTIABLE if flows(leaf) else Kind.TENSOR
    if isinstance(leaf, tf.experimental.ExtensionType):
        raise UnsupportedError(
            f"an ExtensionType ({type(leaf).__name__}) cannot be an argument or an output of a "
            "function with its own gradient. Pass its tensors, in a dict or a dataclass."
        )
    return Kind.STATIC


def is_variable(value: Any) -> bool:
    """A TensorFlow variable, or Keras' wrapper of one."""
    return isinstance(value, VARIABLES)


def flows(leaf: Any) -> bool:
    """Whether gradients flow into values of this dtype."""
    return tf.as_dtype(leaf.dtype).as_datatype_enum in FLOWING


def _takes_gradient(variable: Any) -> bool:
    """Whether a variable has a gradient: one that is trained has, another where a tape watches it, or may do so."""
    if tf.as_dtype(variable.dtype).base_dtype.as_datatype_enum not in FLOWING:
        return False
    if variable.trainable or not private.executing_eagerly():
        return True
    copies = getattr(underlying(variable), "values", (underlying(variable),))  # one per replica
    return private.possible_gradient_types([copy.handle for copy in copies]) > 0


def differentiable(leaves: Sequence[Any]) -> list[int]:
    """The positions of the leaves that are differentiable."""
    return [i for i, leaf in enumerate(leaves) if kind(leaf) is Kind.DIFFERENTIABLE]


def read(leaf: Any) -> Any:
    """A variable that takes gradients as the tensor that the ordinary read gives; anything else as it is.

    In a graph nobody knows whether one that is not trained will be watched: it stays, so that a body can assign to it.
    """
    if isinstance(leaf, tf.IndexedSlices) and isinstance(leaf.values, VARIABLES):
        return tf.IndexedSlices(read(leaf.values), leaf.indices, leaf.dense_shape)
    if not isinstance(leaf, VARIABLES) or not _takes_gradient(leaf):
        return leaf
    return tf.convert_to_tensor(leaf) if leaf.trainable or private.executing_eagerly() else leaf


def tensors_in(gradients: Sequence[Any]) -> list[Any]:
    """The gradients that there are, as tensors."""
    return [tf.convert_to_tensor(g) for g in gradients if g is not None]


def outputs(leaves: Sequence[Any]) -> list[Any]:
    """What a body returned, with values as tensors; a Python number is one if nothing else was returned."""
    number = len(leaves) == 1 and isinstance(leaves[0], (float, complex))
    return [tf.convert_to_tensor(y) if number or _holds_numbers(y) else y for y in leaves]


def _holds_numbers(leaf: Any) -> bool:
    """Whether an output is a variable, or an array of NumPy of numbers that are not whole."""
    array = isinstance(leaf, (np.ndarray, np.generic))
    return isinstance(leaf, VARIABLES) or (array and np.issubdtype(leaf.dtype, np.inexact))


def with_gradient_tensor(leaf: Any, tensor: Any) -> Any:
    """The same leaf around another tensor."""
    if isinstance(leaf, COMPOSITE):
        return with_numbers(leaf, tensor)
    return leaf if isinstance(leaf, VARIABLES) else tensor


def source(leaf: Any) -> Any:
    """The tensor towards which a call is recorded for a differentiable leaf; of a variable, a reading."""
    tensor = gradient_tensor(leaf)
    return tf.convert_to_tensor(tensor) if isinstance(tensor, VARIABLES) else tensor


def handle_or_tensor(leaf: Any, tensor: Any) -> Any:
    """Towards what the gradient of a leaf is taken where a body reads it: of a variable, its handle."""
    return underlying(leaf).handle if isinstance(leaf, VARIABLES) else tensor


def with_gradient_tensors(
    leaves: Sequence[Any], indices: Sequence[int], tensors: Sequence[Any]
) -> list[Any]:
    """The leaves, those at these positions around other tensors."""
    changed = list(leaves)
    for index, tensor in zip(indices, tensors, strict=True):
        changed[index] = with_gradient_tensor(changed[index], tensor)
    return changed


def distinct(tensors: Sequence[Any]) -> list[Any]:
    """The tensors, one that was passed twice as two of them, so that each argument has a gradient of its own."""
    counts = collections.Counter(id(t) for t in tensors)
    return [tf.identity(t) if counts[id(t)] > 1 else t for t in tensors]


def dense(gradient: Any) -> Any:
    """An upstream gradient as a rule gets it: sparse ones made dense, in every mode."""
    return tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient


def underlying(variable: Any) -> Any:
    """The TensorFlow variable behind a Keras variable, a reference or a variable."""
    if hasattr(variable, "deref"):
        variable = variable.deref()
    return private.value_of(variable) if isinstance(variable, keras.Variable) else variable


def same_variable(key: Any, variable: Any) -> bool:
    """Whether a key of a rule's result means this variable: a variable, a reference to one, or the end of a name."""
    if isinstance(key, str):
        return f"/{variable.name}".removesuffix(":0").endswith(f"/{key.removesuffix(':0')}")
    return underlying(key) is underlying(variable)
