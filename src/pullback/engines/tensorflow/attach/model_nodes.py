"""A function with its own gradient as a node of a functional model."""

from __future__ import annotations

from typing import Any

import keras

from pullback.engines.tensorflow.attach.closed_over import inside
from pullback.engines.tensorflow.names_in_files import keras_object, known, named, written
from pullback.errors import ExportError
from pullback.extend import GradientFunction, flatten, is_found, unflatten, walk


def call_as_node(function: Any, args: Any, kwargs: Any) -> Any:
    """Call a function in a node: a layer where it has layers in it, so that their weights are the model's."""
    layers = [v for v in walk(function, stop=_is_layer, inside=inside) if _is_layer(v)]
    leaves, structure = flatten((args, kwargs))
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, keras.KerasTensor)]
    seen = [v for v in keras.tree.flatten((args, kwargs)) if isinstance(v, keras.KerasTensor)]
    if not layers and len(seen) == len(places):
        return GradientOperation(function)(*args, **kwargs)

    def with_the_rest(*tensors: Any) -> Any:
        given = dict(zip(places, tensors, strict=True))
        inner, named = unflatten(structure, [given.get(k, leaf) for k, leaf in enumerate(leaves)])
        return function(*inner, **named)

    whole = not kwargs and len(places) == len(leaves) == len(args)
    called = function if whole else with_the_rest
    node: Any = GradientLayer(called, layers=layers) if layers else GradientOperation(called)
    # Of what a layer is given, Keras takes tensors only; of what an operation is, it does not see into every structure.
    return node(*(leaves[k] for k in places))


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
            return {
                "name": self.name,
                "function": keras.saving.serialize_keras_object(self.function),
            }
        name = getattr(self.function, "__name__", type(self.function).__name__)
        if known(self.function) is None and not is_found(self.function):
            raise ExportError(
                f"{name} cannot be written to a .keras file, because loading could not find it again by its name. Call "
                "it in a layer of your own, whose class is registered by keras.saving.register_keras_serializable, or "
                "save the weights alone: model.save_weights(...)."
            )
        return {"name": self.name, "by_name": written(self.function, name)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The operation that a file describes."""
        is_by_name = "by_name" in config
        function = named(config["by_name"]) if is_by_name else keras_object(config["function"])
        return cls(function, config["name"])


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
