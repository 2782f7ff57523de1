"""A call on symbolic Keras tensors: a node in the functional model that is being built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from pullback.extend import Call, unflatten


@keras.saving.register_keras_serializable(package="pullback")
class GradientOperation(keras.Operation):
    """A function with its own gradient as a node of a functional model."""

    def __init__(self, function: Any, name: str | None = None) -> None:
        super().__init__(name=name)
        self.function = function

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """What Keras writes to a file."""
        return {"name": self.name, "function": keras.saving.serialize_keras_object(self.function)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> GradientOperation:
        """The operation that a file describes."""
        return cls(keras.saving.deserialize_keras_object(config["function"]), config["name"])


def attach_symbolic(call: Call, leaves: Sequence[Any]) -> Any:
    """Make the call a node of the model."""
    operation = GradientOperation(call.definition.owner)
    return call.plan.call(operation, unflatten(call.structure, leaves))
