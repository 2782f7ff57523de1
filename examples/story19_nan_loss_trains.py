"""A distance in a loss: one pair of equal points, and all weights are NaN after the first step."""

import keras
import numpy as np
import tensorflow as tf

import pullback as pb
from pullback.tour import Line, Story

# Differences of pairs of points, and which pairs are alike; the first pair is one point, twice.
pairs = np.array([[0.0, 0.0], [3.0, 4.0]], np.float32)
alike = np.array([[1.0], [0.0]], np.float32)


def distances_after_fit(norm):
    """Learn a linear map that pulls pairs together that are alike, and puts the others 5 apart."""

    def loss(y_true, y_pred):
        apart = norm(y_pred, axis=-1, keepdims=True)
        return y_true * apart + (1.0 - y_true) * (apart - 5.0) ** 2

    half = keras.initializers.Identity(0.5)
    layer = keras.layers.Dense(2, use_bias=False, kernel_initializer=half)
    model = keras.Sequential([keras.Input((2,)), layer])
    model.compile(keras.optimizers.SGD(0.02), loss=loss)
    model.fit(pairs, alike, batch_size=2, epochs=40, verbose=0)
    return np.linalg.norm(model.predict(pairs, verbose=0), axis=-1, keepdims=True)


def gradient_at_zero(norm):
    x = tf.constant(pairs)
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(norm(x, axis=-1))
    return tape.gradient(total, x)


story = Story(
    "My loss is NaN after one step. What now?",
    stock=tf.norm,
    ours=pb.functions.norm,
    lines=[
        Line("gradient of the distances", gradient_at_zero, [[0.0, 0.0], [0.6, 0.8]]),
        Line("distances after fit", distances_after_fit, [[0.0], [5.0]], rtol=1e-3),
    ],
    moral="The length of 0 has no slope, so differentiating its formula gives 0 / 0. `pb.functions` says 0 there.",
)

if __name__ == "__main__":
    story.show()
