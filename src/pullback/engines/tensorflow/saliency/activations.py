"""The non-linearities of a model: which operations are activations, and an override of all of them."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import keras
import tensorflow as tf

from pullback.extend import Activation, Audit, Line, Override, Resolved, enter, guarded, leave

# Activations that are one operation, whichever function, layer or string they come by.
OPS: Final = (
    "Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Softplus", "Softsign", "Tanh", "Sigmoid",
)  # fmt: skip
# Activations made of several operations: each call is one unit. Keras' gelu, silu and hard_tanh call TensorFlow's.
_UNITS: Final = (tf.nn.gelu, tf.nn.silu, tf.math.log_sigmoid, tf.clip_by_value, keras.layers.PReLU)
_UNITS_OF_KERAS: Final = (
    "celu", "elu", "glu", "hard_shrink", "hard_silu", "mish", "soft_shrink", "sparse_plus", "sparse_sigmoid",
    "squareplus", "tanh_shrink", "threshold",
)  # fmt: skip
# Operations of which activations are made by hand, and other things as well: they keep their gradient, and it is said.
OTHERS: Final = frozenset(
    {"Abs", "Atan", "ClipByValue", "Cos", "Cosh", "Erf", "Erfc", "Exp", "Expm1", "Log1p", "Maximum", "Minimum",
     "Sign", "Sin", "Sinh", "Step"}
)  # fmt: skip


def _units() -> list[Any]:
    """The functions and layers that are such units, as far as this Keras has them."""
    known = [getattr(keras.activations, name, None) for name in _UNITS_OF_KERAS]
    return [*_UNITS, *(function for function in known if function is not None)]


class Covering:
    """An override of every activation by one rule, and of a layer by another, as a block.

    Operations inside an activation that is one unit belong to the unit.
    """

    def __init__(self, rule: Any, layer: Any, see: Any) -> None:
        units = _units() if rule is not None else []
        rules: dict[Any, Any] = {} if rule is None else dict.fromkeys([*units, *OPS], rule)
        if layer is not None:
            rules[layer] = see
        self._layer = layer
        self.has_activations = rule is not None
        self.override = Override(rules, strict=False) if rules else None
        if self.override is not None:
            whole = {e.index for e in self.override.entries if e.target in units}
            self._units = frozenset(whole)
            self.override.resolved = self._outside_units(self.override.resolved)

    def _outside_units(self, resolved: Resolved) -> Resolved:
        """The lines, of which those about operations and units do not match inside of units."""

        def outside(_: Any) -> bool:
            return not self.in_unit()

        for handle, lines in resolved.by_handle.items():
            resolved.by_handle[handle] = [
                (
                    entry,
                    _with(line, outside) if entry.index in self._units or handle in OPS else line,
                )
                for entry, line in lines
            ]
        return resolved

    def in_unit(self) -> bool:
        """Whether what runs here is part of an activation that is one unit."""
        return self.has_activations and any(index in self._units for _, index in guarded.get())

    @property
    def audit(self) -> Audit | None:
        """What became of the activations."""
        if self.override is None:
            return None
        rows = zip(self.override.audit.rows, self.override.entries, strict=True)
        return Audit(tuple(row for row, entry in rows if entry.target is not self._layer))

    def __enter__(self) -> Covering:
        if self.override is not None:
            enter(Activation(self.override))
        return self

    def __exit__(self, *error: Any) -> None:
        if self.override is not None:
            leave(self.override)  # which activations a model has is not known before


def _with(line: Line, condition: Any) -> Line:
    return dataclasses.replace(line, conditions=(*line.conditions, condition))
