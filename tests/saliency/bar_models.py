"""Models of every kind that people explain: known architectures, attention, recurrence, classes, nested models."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

SIZE, CLASSES, LENGTH, WORDS = 64, 7, 4, 20
L = keras.layers


def randomised(model: Any, seed: int = 0) -> Any:
    """Biases, scales and statistics drawn anew; kernels so that activations keep their size."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        if "seed" in weight.path or weight.dtype != "float32":
            continue
        drawn = rng.standard_normal(weight.shape)
        if "variance" in weight.path:
            weight.assign(0.7 + 0.6 * np.abs(drawn))
        elif "gamma" in weight.path:
            weight.assign(1 + 0.2 * drawn)
        elif drawn.ndim < 2:
            weight.assign(0.2 * drawn)
        elif "depthwise" in weight.path:
            weight.assign(drawn * np.sqrt(1.3 / np.prod(drawn.shape[:2])))
        else:
            weight.assign(drawn * np.sqrt(1.3 / np.prod(drawn.shape[:-1])))
    scores = model.weights[-1]
    scores.assign(scores + 2.0)  # near zero, float32 would have few digits of a score
    return model


def application(name: str) -> Callable[[], Any]:
    def make() -> Any:
        known = getattr(keras.applications, name)
        return known(weights=None, input_shape=(SIZE, SIZE, 3), classes=CLASSES)

    return make


class LayerScale(L.Layer):
    def build(self, shape: Any) -> None:
        self.gamma = self.add_weight(shape=(shape[-1],), initializer="ones", name="gamma")

    def call(self, x: Any) -> Any:
        return x * self.gamma


def convnext() -> Any:
    """A small one; the large one is in benchmarks, because its depthwise convolutions are compiled one by one."""
    x = keras.Input((SIZE, SIZE, 3))
    y = L.Normalization(mean=[0.1, 0.2, 0.3], variance=[1.5, 1.0, 0.5])(x)
    y = L.LayerNormalization(epsilon=1e-6)(L.Conv2D(6, 8, strides=8)(y))
    z = L.LayerNormalization(epsilon=1e-6)(L.DepthwiseConv2D(3, padding="same")(y))
    z = LayerScale()(L.Dense(6)(L.Activation("gelu")(L.Dense(12)(z))))
    y = L.LayerNormalization()(L.GlobalAveragePooling2D()(L.Add()([y, z])))
    return keras.Model(x, L.Dense(CLASSES, activation="softmax")(y))


def transformer() -> Any:
    ids = keras.Input((LENGTH,), dtype="int32")
    x = L.Embedding(WORDS, 8)(ids)
    x = L.LayerNormalization()(x + L.MultiHeadAttention(2, 4)(x, x))
    x = L.LayerNormalization()(x + L.Dense(8)(L.Dense(12, activation="gelu")(x)))
    x = L.GlobalAveragePooling1D()(x)
    return keras.Model(ids, L.Dense(CLASSES, activation="softmax")(x))


def lstm() -> Any:
    ids = keras.Input((LENGTH,), dtype="int32")
    x = L.LSTM(6, return_sequences=True)(L.Embedding(WORDS, 8)(ids))
    return keras.Model(ids, L.Dense(CLASSES, activation="softmax")(L.GRU(5)(x)))


class Subclassed(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = L.Conv2D(6, 3, strides=2), L.BatchNormalization()
        self.more, self.scores = L.Conv2D(8, 3, activation="silu"), L.Dense(CLASSES)

    def call(self, x: Any, training: bool = False) -> Any:
        x = tf.nn.relu(self.norm(self.stem(x), training=training))
        return tf.nn.softmax(self.scores(tf.reduce_mean(self.more(x), [1, 2])))


def subclassed() -> Any:
    model = Subclassed()
    model(np.zeros((1, SIZE, SIZE, 3), "f"))
    return model


def nested_twice() -> Any:
    def inside(x: Any, name: str, *layers: Any) -> Any:
        within = keras.Input(x.shape[1:])
        y = within
        for layer in layers:
            y = layer(y)
        return keras.Model(within, y, name=name)(x)

    x = keras.Input((SIZE, SIZE, 3))
    first = keras.Input((SIZE, SIZE, 3))
    y = inside(first, "base", L.Rescaling(0.5, 0.1), L.Conv2D(6, 3, strides=2, activation="relu"))
    middle = keras.Model(first, L.Conv2D(8, 3, activation="relu")(y), name="middle")
    y = L.GlobalAveragePooling2D()(middle(x))
    return keras.Model(x, L.Dense(CLASSES, activation="softmax")(y))


def pictures(count: int, seed: int = 1) -> np.ndarray:
    drawn = np.random.default_rng(seed).normal(size=(count, SIZE, SIZE, 3))
    return (0.4 * drawn + 0.2).astype("f")


def sentences(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, WORDS, (count, LENGTH))


MODELS: dict[str, tuple[Callable[[], Any], Callable[..., np.ndarray]]] = {
    "ResNet50": (application("ResNet50"), pictures),
    "ConvNeXt": (convnext, pictures),
    "MobileNetV2": (application("MobileNetV2"), pictures),
    "transformer": (transformer, sentences),
    "LSTM and GRU": (lstm, sentences),
    "subclassed": (subclassed, pictures),
    "nested twice": (nested_twice, pictures),
}
