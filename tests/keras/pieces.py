"""Small models with every gradient layer in them, and small data."""

from typing import Any

import keras
import numpy as np

import pullback as pb

K = pb.keras
_rng = np.random.default_rng(0)
ROWS = _rng.normal(size=(16, 4)).astype("f")
TARGETS = ROWS[:, :1]
IMAGES = _rng.normal(size=(16, 6, 6, 1)).astype("f")
LABELS = np.arange(16) % 3
QUIET: Any = 0  # Keras takes a number here, and says a text


def gradient_layers() -> list[Any]:
    return [
        K.GradientReversal(0.5, name="reversal"),
        K.GradientScale(0.25, name="scale"),
        K.GradientClip(norm=1e-3, name="clip"),
        K.StraightThrough("round", "tanh", name="rounded"),
        K.Tap(name="tap"),
        K.Quantize(4, name="learned"),
        K.Quantize(3, "uniform", low=-2.0, high=2.0, name="uniform"),
        K.Spike("fast_sigmoid", threshold=-0.1, name="spike"),
    ]


def functional() -> Any:
    inputs = keras.Input((4,))
    x = keras.layers.Dense(6)(inputs)
    for layer in gradient_layers():
        x = layer(x)
    return keras.Model(inputs, keras.layers.Dense(1)(x))


def sequential() -> Any:
    parts = [keras.layers.Dense(6), *gradient_layers(), keras.layers.Dense(1)]
    return keras.Sequential([keras.Input((4,)), *parts])


@keras.saving.register_keras_serializable("tests.keras")
class Subclassed(keras.Model):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.first, self.last = keras.layers.Dense(6), keras.layers.Dense(1)
        self.parts = gradient_layers()

    def call(self, x: Any) -> Any:
        x = self.first(x)
        for layer in self.parts:
            x = layer(x)
        return self.last(x)


FORMS = {"functional": functional, "sequential": sequential, "subclassed": Subclassed}


def cnn() -> Any:
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((6, 6, 1)),
            keras.layers.Conv2D(4, 3, name="first"),
            keras.layers.BatchNormalization(),
            keras.layers.ReLU(name="relu"),
            keras.layers.Conv2D(4, 3, activation="relu", name="second"),
            keras.layers.Flatten(),
            keras.layers.Dense(3, activation="softmax", name="last"),
        ]
    )


@keras.saving.register_keras_serializable("tests.keras")
class Recurrent(keras.Model):
    """Layers that its configuration does not tell, one of them with layers inside itself."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(5, activation="relu")
        self.lstm = keras.layers.LSTM(3, dropout=0.5)
        self.out = keras.layers.Dense(1)

    def call(self, x: Any, training: bool = False) -> Any:
        return self.out(self.lstm(self.dense(x)[:, None, :], training=training))


def fit(model: Any, x: Any, y: Any, loss: str, callbacks: Any = (), **options: Any) -> Any:
    model.compile("sgd", loss, **options)
    return model.fit(x, y, batch_size=8, epochs=2, verbose=QUIET, callbacks=list(callbacks))
