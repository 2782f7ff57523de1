"""Small models whose every parameter is random: zero biases and identity statistics make networks homogeneous.

They are built once for all tests: a map leaves its model as it is, which `test_running.py` holds it to.
"""

import functools
from typing import Any

import keras
import numpy as np
import tensorflow as tf

SHAPE = (10, 9, 3)


def randomised(model: Any, seed: int = 0) -> Any:
    """The model with random kernels, biases, scales and statistics; variances stay positive."""
    draw = np.random.default_rng(seed)
    for variable in model.variables:
        if variable.dtype == "float32":
            scale = 1.0 if len(variable.shape) < 2 else (2 / np.prod(variable.shape[:-1])) ** 0.5
            values = scale * draw.normal(size=variable.shape)
            is_variance = "variance" in variable.path
            variable.assign(np.abs(values) + 0.5 if is_variance else values)
    return model


def images(count: int = 3, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, *SHAPE)).astype("float32")


@functools.cache
def network(activation: Any = "relu", last: str | None = "softmax") -> Any:
    """Convolution, normalisation, convolution, pooling, and a dense layer in the end."""
    layers = keras.layers
    return randomised(
        keras.Sequential(
            [
                keras.Input(SHAPE),
                layers.Conv2D(4, 3, activation=activation, name="first"),
                layers.BatchNormalization(name="norm"),
                layers.Conv2D(5, 3, activation=activation, name="second"),
                layers.GlobalAveragePooling2D(),
                layers.Dense(4, activation=last, name="scores"),
            ],
            name="net",
        )
    )


def by_hand(model: Any, x: Any, activation: Any) -> tuple[Any, Any]:
    """The features of the second convolution and the logits of `network`, out of its weights."""
    weights = {v.path.removeprefix("net/"): tf.convert_to_tensor(v) for v in model.variables}
    h = tf.nn.conv2d(x, weights["first/kernel"], 1, "VALID") + weights["first/bias"]
    h = (activation(h) - weights["norm/moving_mean"]) / tf.sqrt(
        weights["norm/moving_variance"] + model.get_layer("norm").epsilon
    )
    h = h * weights["norm/gamma"] + weights["norm/beta"]
    h = tf.nn.conv2d(h, weights["second/kernel"], 1, "VALID") + weights["second/bias"]
    features = activation(h)
    pooled = tf.reduce_mean(features, [1, 2])
    return features, pooled @ weights["scores/kernel"] + weights["scores/bias"]


@keras.saving.register_keras_serializable("tests.saliency")
class Subclassed(keras.Model):
    """Functions of TensorFlow between layers, and a softmax that no layer has."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.first = keras.layers.Conv2D(4, 3, name="first")
        self.scores = keras.layers.Dense(4, name="scores")

    def call(self, x: Any) -> Any:
        h = tf.nn.relu(self.first(x))
        return tf.nn.softmax(self.scores(tf.reduce_mean(h, [1, 2])))


def tokens(count: int = 3, length: int = 6) -> np.ndarray:
    return np.random.default_rng(2).integers(1, 20, (count, length))


@functools.cache
def text_model() -> Any:
    """An embedding, a smooth layer, a mean and three scores."""
    layers = keras.layers
    return randomised(
        keras.Sequential(
            [
                keras.Input((6,), dtype="int32"),
                layers.Embedding(20, 5, name="words"),
                layers.Dense(7, activation="gelu", name="hidden"),
                layers.GlobalAveragePooling1D(),
                layers.Dense(3, activation="softmax", name="scores"),
            ],
            name="text",
        )
    )
