"""Cross-entropy on raw scores: the loss is finite, its autodiff gradient is not."""

import keras
import numpy as np
import tensorflow as tf

import pullback as pb
from pullback.tour import Line, Story

scores = np.array([[-80.0], [0.5], [80.0], [400.0]], np.float32)
labels = np.array([[0.0], [0.0], [0.0], [1.0]], np.float32)
exact = 1 / (1 + np.exp(-scores.astype(np.float64))) - labels


def cross_entropy(y_true, y_pred):
    """log(1 + eᶻ) - yz, with the usual precaution against overflow."""
    softplus = tf.where(y_pred > 20.0, y_pred, tf.math.log(1.0 + tf.exp(y_pred)))
    return tf.squeeze(softplus - y_true * y_pred, -1)


def d_cross_entropy(y_true, y_pred):
    return tf.sigmoid(y_pred) - y_true


def gradient(loss):
    z = tf.constant(scores)
    with tf.GradientTape() as tape:
        tape.watch(z)
        total = tf.reduce_sum(loss(labels, z))
    return tape.gradient(total, z)


def offset_after_fit(loss):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(1.0), loss=loss)
    model.fit(scores, labels, verbose=0)
    return model.get_weights()[1]


story = Story(
    "How do I replace a gradient that is numerically unstable?",
    stock=cross_entropy,
    ours=pb.with_partials(cross_entropy, y_pred=d_cross_entropy),
    lines=[
        Line("gradient", gradient, exact),
        Line("offset after one fit step", offset_after_fit, [-np.mean(exact)]),
    ],
    moral="`where` hides the overflow from the loss, not from autodiff: 0 · ∞ is NaN.",
)

if __name__ == "__main__":
    story.show()
