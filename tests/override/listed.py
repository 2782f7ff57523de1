"""Calls whose targets are listed: models and functions, each with what it is called with."""

import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

import pullback as pb


class Block(keras.layers.Layer):
    """Attention and a small network, with a list of layers and a method of its own."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.attention = keras.layers.MultiHeadAttention(2, 4)
        self.norm = keras.layers.LayerNormalization()
        self.dense = [keras.layers.Dense(8, activation="gelu"), keras.layers.Dense(4)]

    def call(self, x: Any) -> Any:
        x = self.norm(x + self.attention(x, x))
        return x + self.mixed(x)

    def mixed(self, x: Any) -> Any:
        for layer in self.dense:
            x = layer(x)
        return x


def transformer() -> tuple[Any, tuple[Any, ...]]:
    ids = keras.Input((5,), dtype="int32")
    hidden = Block(name="block0")(keras.layers.Embedding(7, 4)(ids))
    pooled = keras.ops.mean(keras.ops.relu(hidden), axis=1)
    return keras.Model(ids, keras.layers.Dense(3)(pooled)), (tf.constant([[1, 2, 3, 4, 5]]),)


def lstm() -> tuple[Any, tuple[Any, ...]]:
    both = keras.layers.Bidirectional(keras.layers.LSTM(2, return_sequences=True), name="both")
    layers = [keras.Input((3, 2)), both, keras.layers.Dense(1, activation="softplus")]
    return keras.Sequential(layers), (tf.constant([[[1.0, -1.0], [0.5, 2.0], [0.1, 0.3]]]),)


def mobile() -> tuple[Any, tuple[Any, ...]]:
    model = keras.applications.MobileNetV2(weights=None, input_shape=(32, 32, 3), classes=3)
    return model, (tf.random.stateless_normal([2, 32, 32, 3], [1, 2]),)


def convnext() -> tuple[Any, tuple[Any, ...]]:
    model = keras.applications.ConvNeXtTiny(weights=None, input_shape=(32, 32, 3), classes=3)
    return model, (tf.random.stateless_normal([1, 32, 32, 3], [1, 2]),)


def helped(x: Any) -> Any:
    return tf.stack([x, x], 0)[0] * 2.0


@tf.function
def looping(x: Any) -> Any:
    if tf.reduce_sum(x) > 0.0:
        x = tf.nn.relu(x)
    for _ in tf.range(3):
        x = tf.sin(helped(x))
    return x


def flowing(x: Any) -> Any:
    """With a rounding, behind which nothing decides anything, and branches of integers."""
    count = tf.cast(tf.reduce_sum(tf.cast(x, tf.int32)), tf.float32)
    rounded = tf.nn.softplus(tf.exp(tf.constant(2.0)) * tf.round(x))
    return looping(x) + tf.nn.gelu(x) + rounded + tf.map_fn(tf.tanh, x) * count


@tf.function
def saliency(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.elu(x) ** 2
    return tape.gradient(y, x)


class Saved(tf.Module):
    def __init__(self) -> None:
        self.w = tf.Variable([[1.0, 2.0], [3.0, 4.0]])

    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def __call__(self, x: Any) -> Any:
        return tf.nn.relu(x @ self.w) + tf.sin(x)


def loaded() -> tuple[Any, tuple[Any, ...]]:
    folder = str(pathlib.Path(tempfile.mkdtemp()) / "saved")
    tf.saved_model.save(Saved(), folder)
    return tf.saved_model.load(folder), (tf.constant([[1.0, 2.0]]),)


@tf.custom_gradient
def straight(x: Any) -> Any:
    return tf.round(tf.sinh(x)), lambda dy: dy


def mine(x: Any) -> Any:
    return own_gradient(tf.exp(x)) + straight(tf.sin(x))


own_gradient = pb.with_gradient(tf.tanh, lambda dy, *, inputs: dy * inputs[0])

CALLS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "transformer": transformer,
    "lstm": lstm,
    "loaded": loaded,
    "flow": lambda: (flowing, (tf.constant([1.0, 2.0]),)),
    "inner tape": lambda: (saliency, (tf.constant([1.0, -2.0]),)),
    "own gradient": lambda: (mine, (tf.constant([1.0, -2.0]),)),
}
