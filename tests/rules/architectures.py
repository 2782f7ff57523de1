"""Small models of every kind, with random biases, statistics and scales: what Keras starts with proves nothing."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

L = keras.layers


def randomised(model: Any, seed: int = 0) -> Any:
    """All weights drawn anew, whatever they were: the same in every run."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        drawn = rng.standard_normal(weight.shape)
        if "seed" in weight.path:
            continue
        if "variance" in weight.path:
            weight.assign(np.abs(1 + 0.3 * drawn) + 0.1)
        elif any(word in weight.path for word in ("gamma", "factor")):
            weight.assign(1 + 0.3 * drawn)
        elif drawn.ndim < 2:
            weight.assign(0.3 * drawn)
        else:
            weight.assign(drawn * np.sqrt(1.5 / np.prod(drawn.shape[:-1])))
    return model


def examples(shape: tuple[int, ...], count: int = 2, seed: int = 1) -> tuple[Any, Any]:
    """Examples, and baselines that are not zero."""
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal((2, count, *shape)).astype(np.float32)
    return tf.constant(drawn[0]), tf.constant(0.3 * drawn[1])


def cnn() -> Any:
    i = keras.Input((8, 8, 3))
    x = L.BatchNormalization()(L.Conv2D(6, 3, activation="relu")(i))
    x = L.Conv2D(4, 2, activation="silu")(L.MaxPooling2D()(x))
    return keras.Model(i, L.Dense(3)(L.Dense(5, activation="gelu")(L.Flatten()(x))))


def resnet() -> Any:
    i = keras.Input((8, 8, 3))
    x = L.Conv2D(6, 3, padding="same", use_bias=False)(i)
    x = L.ReLU()(L.BatchNormalization()(x))
    y = L.BatchNormalization()(L.Conv2D(6, 3, padding="same")(x))
    y = L.Conv2D(6, 3, padding="same")(L.Activation("relu")(y))
    x = L.ReLU()(L.Add()([x, L.BatchNormalization()(y)]))
    return keras.Model(i, L.Dense(2)(L.GlobalAveragePooling2D()(x)))


def mobilenet() -> Any:
    i = keras.Input((9, 9, 3))
    x = L.Conv2D(8, 3, strides=2)(L.Rescaling(0.5)(i))
    x = L.ReLU(6.0)(L.BatchNormalization()(x))
    x = L.BatchNormalization()(L.DepthwiseConv2D(3, padding="same")(x))
    x = L.Activation("hard_silu")(x)
    gate = L.Conv2D(4, 1, activation="relu")(L.GlobalAveragePooling2D(keepdims=True)(x))
    gate = L.Conv2D(8, 1, activation="hard_sigmoid")(gate)
    x = L.GlobalMaxPooling2D()(L.Conv2D(8, 1)(L.Multiply()([x, gate])))
    return keras.Model(i, L.Dense(2)(L.Dropout(0.3)(x)))


class Scale(L.Layer):
    def build(self, shape: Any) -> None:
        self.factor = self.add_weight(shape=(shape[-1],), initializer="ones", name="factor")

    def call(self, x: Any) -> Any:
        return x * self.factor


def convnext() -> Any:
    i = keras.Input((8, 8, 3))
    x = L.LayerNormalization(epsilon=1e-6)(L.Conv2D(6, 4, strides=4)(i))
    y = L.LayerNormalization(epsilon=1e-6)(L.DepthwiseConv2D(3, padding="same")(x))
    y = Scale()(L.Dense(6)(L.Activation("gelu")(L.Dense(12)(y))))
    x = L.LayerNormalization()(L.GlobalAveragePooling2D()(L.Add()([x, y])))
    return keras.Model(i, L.Dense(4)(x))


def transformer() -> Any:
    i = keras.Input((4, 6))
    x = L.LayerNormalization()(i + L.MultiHeadAttention(2, 3)(i, i, use_causal_mask=True))
    x = L.LayerNormalization()(x + L.Dense(6)(L.Dense(8, activation="gelu")(x)))
    return keras.Model(i, L.Dense(3, activation="log_softmax")(L.GlobalAveragePooling1D()(x)))


def lstm() -> Any:
    i = keras.Input((3, 4))
    return keras.Model(i, L.Dense(3)(L.LSTM(5)(L.LSTM(4, return_sequences=True)(i))))


def gru() -> Any:
    i = keras.Input((3, 4))
    x = L.Bidirectional(L.GRU(4, return_sequences=True))(i)
    return keras.Model(i, L.Dense(3)(L.GRU(5, reset_after=False)(x)))


class Subclassed(keras.Model):
    """Operations of all kinds, some of them with the examples along the second axis."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.wide = L.Dense(3), L.Dense(6, activation="selu")
        self.start = L.Conv1D(6, 2, activation="elu")

    def call(self, x: Any) -> Any:
        x = self.wide(tf.transpose(self.start(x), [1, 0, 2]))
        x = tf.transpose(tf.tanh(x) * tf.sigmoid(x) / (1.0 + tf.exp(x)), [1, 0, 2])
        x = tf.maximum(x, 0.1) - tf.math.l2_normalize(x, -1)
        return self.head(tf.reduce_max(tf.where(x > 0.3, x, 0.2 * x), 1))


def subclassed() -> Any:
    model = Subclassed()
    model(tf.zeros((2, 5, 4)))
    return model


def nested() -> Any:
    i = keras.Input((8, 8, 3))
    inner = keras.Sequential(
        [keras.Input((8, 8, 3)), L.Conv2D(3, 1, activation="leaky_relu"), resnet()]
    )
    return keras.Model(i, L.Dense(3, activation="softplus")(inner(i)))


def mixture() -> Any:
    i = keras.Input((6, 6, 3))
    x = L.PReLU()(L.TimeDistributed(L.Dense(4, activation="mish"))(i))
    x = L.UnitNormalization()(L.GroupNormalization(2)(x))
    x = L.UpSampling2D()(L.SeparableConv2D(4, 2, activation="relu6")(x))
    x = L.Softmax(axis=-1)(L.Rescaling(5.0)(x))
    x = L.Reshape((-1, 4))(x)
    return keras.Model(i, L.Dense(3, activation="celu")(L.Flatten()(L.Attention()([x, x]))))


MODELS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "CNN": (cnn, (8, 8, 3)),
    "ResNet": (resnet, (8, 8, 3)),
    "MobileNet": (mobilenet, (9, 9, 3)),
    "ConvNeXt": (convnext, (8, 8, 3)),
    "transformer": (transformer, (4, 6)),
    "LSTM": (lstm, (3, 4)),
    "GRU": (gru, (3, 4)),
    "subclassed": (subclassed, (5, 4)),
    "nested": (nested, (8, 8, 3)),
    "mixture": (mixture, (6, 6, 3)),
}


def made(name: str) -> tuple[Any, Any, Any]:
    """A model, examples and baselines."""
    make, shape = MODELS[name]
    return randomised(make()), *examples(shape)
