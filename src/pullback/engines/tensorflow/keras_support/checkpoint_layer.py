"""A Keras layer around another one, of which nothing but the inputs is kept for the gradient."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import keras

from pullback.engines.tensorflow.tf_private import keras_models
from pullback.extend import checkpoint


@keras.saving.register_keras_serializable("pullback")
class Checkpoint(keras.layers.Wrapper):
    """A layer that is computed again when its gradient is asked for (`pb.functions.checkpoint`).

    It is called as the layer is, with the same arguments, and passes masks on as that does.

    >>> import keras, pullback as pb
    >>> model = keras.Sequential([keras.Input([4]), pb.keras.Checkpoint(keras.layers.Dense(8, activation="gelu"))])
    >>> len(model.trainable_variables)
    2
    """

    def __init__(self, layer: Any, policy: Any = "nothing", **kwargs: Any) -> None:
        run = checkpoint(layer, policy=policy)
        if isinstance(layer, keras.layers.Layer):  # if not, Keras refuses it below
            self._take_signatures(layer)
        super().__init__(layer, **kwargs)
        self.policy = policy
        self._run = run
        self.supports_masking = layer.supports_masking

    def _take_signatures(self, layer: Any) -> None:
        """Let Keras find the wrapped layer's arguments: from their names it knows shapes, masks and what to pass."""
        own = self.call

        @functools.wraps(layer.call)
        def call(*args: Any, **kwargs: Any) -> Any:
            return own(*args, **kwargs)

        self.call = call
        self.compute_output_shape = layer.compute_output_shape
        build: Any = self.build  # a function of this instance, in which Keras wraps the method
        build.__signature__ = inspect.signature(layer.build)

    def build(self, *shapes: Any, **named: Any) -> None:
        """Build the wrapped layer, unless that finds out in its first call what it needs."""
        if not self.layer.built and not keras_models.is_default_method(self.layer.build):
            self.layer.build(*shapes, **named)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the wrapped layer."""
        # While Keras builds a functional model there are no values to compute again.
        leaves = keras.tree.flatten((args, kwargs))
        symbolic = any(isinstance(leaf, keras.KerasTensor) for leaf in leaves)
        return (self.layer if symbolic else self._run)(*args, **kwargs)

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        """That of the wrapped layer."""
        return self.layer.compute_mask(inputs, previous_mask)

    def get_build_config(self) -> Any:
        """That of the wrapped layer, whose shapes they are."""
        return self.layer.get_build_config()

    def build_from_config(self, config: Any) -> None:
        """Build the wrapped layer from its own shapes."""
        if not self.layer.built:
            self.layer.build_from_config(config)
        self.built = True

    def get_config(self) -> dict[str, Any]:
        """Keras' way to make it again."""
        return {**super().get_config(), "policy": self.policy}
