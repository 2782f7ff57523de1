"""A function with its own gradient as a node of a functional model."""

from __future__ import annotations

from typing import Any

import keras

from pullback.engines.tensorflow.attach.closed_over import inside
from pullback.errors import ExportError
from pullback.extend import (
    GradientFunction,
    Reference,
    find,
    find_in_file,
    flatten,
    reference_to,
    unflatten,
    walk,
)


def call_as_node(function: Any, args: Any, kwargs: Any) -> Any:
    """Call a function in a node: a layer where it has layers in it, so that their weights are the model's."""
    layers = [v for v in walk(function, stop=_is_layer, inside=inside) if _is_layer(v)]
    if not layers:
        return GradientOperation(function)(*args, **kwargs)
    leaves, structure = flatten((args, kwargs))
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, keras.KerasTensor)]

    def with_the_rest(*tensors: Any) -> Any:
        given = dict(zip(places, tensors, strict=True))
        inner, named = unflatten(structure, [given.get(k, leaf) for k, leaf in enumerate(leaves)])
        return function(*inner, **named)

    whole = not kwargs and len(places) == len(leaves) == len(args)
    node = GradientLayer(function if whole else with_the_rest, layers=layers)
    return node(*(leaves[k] for k in places))  # of what a layer is given, Keras takes tensors only


def _is_layer(value: Any) -> bool:
    return isinstance(value, keras.Layer)


class _Node(keras.Operation):
    """What both kinds of nodes have in common."""

    def __init__(self, function: Any, name: str | None = None, **options: Any) -> None:
        super().__init__(name=name, **options)
        self.function = function

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """What Keras writes to a file."""
        if isinstance(self.function, GradientFunction):
            written = keras.saving.serialize_keras_object(self.function)
            return {"name": self.name, "function": written}
        reference = reference_to(self.function)
        if find(reference) is not self.function:
            name = getattr(self.function, "__name__", type(self.function).__name__)
            raise ExportError(
                f"{name} cannot be written to a .keras file, because loading could not find it again by its name. Call "
                "it in a layer of your own, whose class is registered by keras.saving.register_keras_serializable, or "
                "save the weights alone: model.save_weights(...)."
            )
        return {"name": self.name, "by_name": reference._asdict()}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The operation that a file describes."""
        if "by_name" not in config:
            function = keras.saving.deserialize_keras_object(config["function"])
            return cls(function, config["name"])
        reference = Reference(**config["by_name"])
        found = find_in_file(reference)
        if found is None:
            raise ExportError(
                f"the file names the function {reference.name} of {reference.module}, which cannot be imported here. "
                "Make that module importable."
            )
        return cls(found, config["name"])


@keras.saving.register_keras_serializable(package="pullback")
class GradientOperation(_Node):
    """The call of a function without weights."""


@keras.saving.register_keras_serializable(package="pullback")
class GradientLayer(_Node, keras.Layer):
    """The call of a function that calls layers."""

    def __init__(self, function: Any, name: str | None = None, layers: Any = None) -> None:
        super().__init__(function, name, autocast=False)
        self.layers = layers or []
        self.built = True  # the function's layers build themselves
