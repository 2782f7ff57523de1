"""Models of ones, whose gradients can be counted: so many paths, times what the rules on a path make of it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

ROWS = np.ones((4, 3), "f")
ONES: dict[str, Any] = {"use_bias": False, "kernel_initializer": "ones"}


def functional() -> Any:
    """Three ReLUs, of which one is an operation, one a layer; BatchNormalization and Dropout in between."""
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(2, activation="relu", name="conv", **ONES)(inputs)
    hidden = keras.layers.Dropout(0.5)(keras.ops.relu(hidden))
    hidden = keras.layers.BatchNormalization(epsilon=0.0)(hidden)
    hidden = keras.layers.ReLU(name="rectify")(hidden)
    outputs = keras.layers.Dense(1, name="out", **ONES)(hidden)
    return keras.Model(inputs, outputs, name="net")


def sequential() -> Any:
    return keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(2, activation="relu", name="conv", **ONES),
            keras.layers.Dense(1, name="out", **ONES),
        ]
    )


def nested() -> Any:
    inputs = keras.Input((3,))
    backbone = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(2, activation="relu", name="conv", **ONES)],
        name="backbone",
    )
    return keras.Model(inputs, keras.layers.Dense(1, name="out", **ONES)(backbone(inputs)))


def shared() -> Any:
    """One layer called twice, one after the other."""
    layer = keras.layers.Dense(3, activation="relu", name="conv", **ONES)
    inputs = keras.Input((3,))
    return keras.Model(inputs, layer(layer(inputs)))


@keras.saving.register_keras_serializable("tests")
class Subclassed(keras.Model):
    """Layers as an attribute and in a list; a ReLU of its own; methods that are not `call`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.encoder = keras.layers.Dense(2, activation="relu", name="conv", **ONES)
        self.parts = [keras.layers.Dense(1, name="out", **ONES)]

    def call(self, x: Any) -> Any:
        return self.parts[0](self.encode(x))

    def encode(self, x: Any) -> Any:
        return tf.nn.relu(self.encoder(x))

    @tf.function
    def encode_in_graph(self, x: Any) -> Any:
        return tf.nn.relu(self.encoder(x))


def subclassed() -> Any:
    model = Subclassed(name="own")
    model(ROWS)
    return model


class Kind(NamedTuple):
    make: Callable[[], Any]
    plain: float
    under_seven: float  # with −7 for each ReLU


KINDS = {
    "functional": Kind(functional, 2.0, -686.0),
    "sequential": Kind(sequential, 2.0, -14.0),
    "nested": Kind(nested, 2.0, -14.0),
    "shared": Kind(shared, 9.0, 441.0),
    "subclassed": Kind(subclassed, 2.0, 98.0),
}


def input_gradient(function: Any, rows: Any = ROWS) -> float:
    """The one number that all entries of the gradient are; of several outputs, the gradient of the last."""
    x = tf.constant(rows)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
        y = y[-1] if isinstance(y, (list, tuple)) else y
    found = tape.gradient(y, x).numpy()
    np.testing.assert_allclose(found, found.flat[0], rtol=1e-5)
    return round(float(found.flat[0]), 2)
