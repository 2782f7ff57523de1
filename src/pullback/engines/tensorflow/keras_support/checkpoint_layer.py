"""A Keras layer around another one, of which nothing but the inputs is kept for the gradient."""

from __future__ import annotations

from typing import Any

import keras

from pullback.extend import checkpoint


@keras.saving.register_keras_serializable("pullback")
class Checkpoint(keras.layers.Wrapper):
    """A layer that is computed again when its gradient is asked for (`pb.functions.checkpoint`).

    >>> import keras, pullback as pb
    >>> model = keras.Sequential([keras.Input([4]), pb.keras.Checkpoint(keras.layers.Dense(8, activation="gelu"))])
    >>> len(model.trainable_variables)
    2
    """

    def __init__(self, layer: Any, policy: Any = "nothing", **kwargs: Any) -> None:
        super().__init__(layer, **kwargs)
        self.policy = policy
        self._run = checkpoint(layer, policy=policy)

    def call(self, inputs: Any, **kwargs: Any) -> Any:
        """Call the wrapped layer."""
        # While Keras builds a functional model there are no values to compute again.
        symbolic = any(isinstance(t, keras.KerasTensor) for t in keras.tree.flatten(inputs))
        return (self.layer if symbolic else self._run)(inputs, **kwargs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """That of the wrapped layer."""
        return self.layer.compute_output_shape(input_shape)

    def get_config(self) -> dict[str, Any]:
        """Keras' way to make it again."""
        return {**super().get_config(), "policy": self.policy}
