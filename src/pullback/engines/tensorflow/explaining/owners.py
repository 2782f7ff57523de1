"""Whose a variable is: the Keras layers that a function can reach, and what they call their variables."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras

from pullback.engines.tensorflow import values
from pullback.extend import walk


@dataclasses.dataclass(frozen=True, slots=True)
class Owner:
    """What Keras knows of a variable."""

    variable: Any  # Keras' own, around TensorFlow's
    layers: tuple[Any, ...]  # that hold it, outermost first

    @property
    def name(self) -> str:
        """As in `model.summary()`: `dense/kernel`."""
        return self.variable.path

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the layers."""
        return tuple(self.variable.path.split("/")[:-1])


def owners_of(*things: Any) -> dict[int, Owner]:
    """By the id of TensorFlow's variable: the variables of all layers that can be reached from these."""
    found = [getattr(thing, "__self__", thing) for thing in things]
    roots = [thing for thing in walk(*found, stop=_is_layer) if _is_layer(thing)]
    owners: dict[int, Owner] = {}
    for root in roots:
        for layer in root._flatten_layers():
            for variable in layer.variables:
                known = owners.get(id(values.underlying(variable)))
                above = known.layers if known else ()
                owners[id(values.underlying(variable))] = Owner(variable, (*above, layer))
    return owners


def _is_layer(thing: Any) -> bool:
    return isinstance(thing, keras.Layer)
