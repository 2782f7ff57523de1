"""The way in: a call comes with its leaves, and is run at once, traced, or made a node of a Keras model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.attach import eager, graph
from pullback.extend import Call, Kind

_ALL_FLOWING = [((Kind.DIFFERENTIABLE,) * n, range(n)) for n in range(16)]


def attach(call: Call, leaves: Sequence[Any]) -> Any:
    """Run a call so that its own pullback is used for it."""
    for leaf in leaves:
        if type(leaf) is not private.EagerTensor or private.data_type(leaf) not in values.FLOWING:
            return _attach_any(call, leaves)
    count = len(leaves)
    if count >= len(_ALL_FLOWING) or not private.executing_eagerly():
        return _attach_any(call, leaves)
    kinds, flowing = _ALL_FLOWING[count]
    return eager.attach(call, leaves, kinds, flowing, leaves)


def _attach_any(call: Call, leaves: Sequence[Any]) -> Any:
    if any(isinstance(leaf, keras.KerasTensor) for leaf in leaves):
        from pullback.engines.tensorflow.keras_support.objects import attach_symbolic

        return attach_symbolic(call, leaves)
    kinds = [values.kind(leaf) for leaf in leaves]
    flowing = [i for i, kind in enumerate(kinds) if kind is Kind.DIFFERENTIABLE]
    leaves = list(leaves)
    for index in flowing:
        leaves[index] = values.read(leaves[index])
    if not private.executing_eagerly():
        return graph.attach(call, leaves, kinds, flowing)
    tensors = [values.gradient_tensor(leaves[i]) for i in flowing]
    return eager.attach(call, leaves, kinds, flowing, tensors)
