"""A loss with a replaced gradient in a training step: by hand with Adam, and by Keras."""

import keras
import numpy as np
import tensorflow as tf

import pullback as pb
from pullback.tour import Line, Story

x = np.array([[1.0, 2.0], [3.0, -1.0]], np.float32)
t = np.array([[1.0], [0.0]], np.float32)
w = np.array([[0.5], [0.25]], np.float32)
slope = 2 * x.T @ (x @ w - t) / len(x)  # of the mean of (xw - t)²


def squared(y_true, y_pred):
    return tf.squeeze(tf.square(y_pred - y_true), -1)


def d_squared(y_true, y_pred):
    return 2.0 * (y_pred - y_true)


@tf.custom_gradient
def forgetful(y_true, y_pred):
    return squared(y_true, y_pred), lambda dy: (None, d_squared(y_true, y_pred) / len(x))


def adam_by_hand(loss):
    weights = tf.Variable(w)
    with tf.GradientTape() as tape:
        mean = tf.reduce_mean(loss(t, x @ weights))
    keras.optimizers.Adam(0.01).apply([tape.gradient(mean, weights)], [weights])
    return weights


def keras_fit(loss):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, use_bias=False)])
    model.set_weights([w])
    model.compile(keras.optimizers.SGD(0.01), loss=loss, loss_weights=[10.0])
    model.fit(x, t, verbose=0)
    return model.get_weights()[0]


story = Story(
    "How do I replace the gradient of a loss and train with it?",
    stock=forgetful,
    ours=pb.with_partials(squared, y_pred=d_squared),
    lines=[
        Line("one Adam step", adam_by_hand, w - 0.01 * np.sign(slope)),
        Line("fit, loss weight 10", keras_fit, w - 0.01 * 10 * slope),
    ],
    moral="A rule that forgets its upstream trains as with loss weight 1; a partial cannot.",
)

if __name__ == "__main__":
    story.show()
