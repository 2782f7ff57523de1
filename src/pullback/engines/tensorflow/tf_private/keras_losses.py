"""Private parts of Keras between a model's outputs and its gradients, each with the reason."""
# Private symbols are what this folder is for.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import dis
import inspect
import types
from typing import Any

from keras.src.activations import activations as _activations
from keras.src.backend.tensorflow import nn as _backend_nn
from keras.src.legacy import backend as _legacy_backend

# Keras' cross-entropies start from what a softmax or sigmoid was computed from, where they can find it: in an attribute
# that Keras' own activations set or, in a graph, as the input of an op of one of these types.
_LOGITS = "_keras_logits"
LOOKED_BEHIND = frozenset({"Softmax", "Sigmoid"})


def _stores_logits(function: types.FunctionType) -> bool:
    steps = dis.get_instructions(function)
    return any(step.opname == "STORE_ATTR" and step.argval == _LOGITS for step in steps)


def _functions_in(*modules: types.ModuleType) -> list[types.FunctionType]:
    found = [inspect.unwrap(f) for m in modules for f in vars(m).values() if inspect.isfunction(f)]
    return [function for function in found if isinstance(function, types.FunctionType)]


# The functions of Keras whose results carry what they were computed from.
SETTING_LOGITS = frozenset(
    filter(_stores_logits, _functions_in(_activations, _backend_nn, _legacy_backend))
)


def forget_logits(result: Any) -> None:
    """Let losses start from this very result."""
    getattr(result, "__dict__", {}).pop(_LOGITS, None)
