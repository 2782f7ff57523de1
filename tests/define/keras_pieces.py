"""Functions and rules with names, as saved Keras files need them; imported again by the process that loads."""

import keras
import numpy as np
import tensorflow as tf

import pullback as pb

DATA = np.random.default_rng(7)
ROWS = DATA.normal(size=(8, 4)).astype(np.float32)
TARGETS = DATA.normal(size=(8, 1)).astype(np.float32)


@keras.saving.register_keras_serializable("tests")
@pb.custom_gradient
def straight_through(x):
    def backward(dy):
        return 2.0 * dy

    return tf.round(x), backward


@keras.saving.register_keras_serializable("tests")
def half(dy, *, original):
    return 0.5 * original(dy)


@keras.saving.register_keras_serializable("tests")
def squared(y_true, y_pred):
    return tf.reduce_mean((y_true - y_pred) ** 2, -1)


@keras.saving.register_keras_serializable("tests")
def three_times(y_true, y_pred):
    return 3.0 * (y_pred - y_true)


steep_loss = pb.with_partials(squared, y_true=None, y_pred=three_times)


def input_gradient(model, rows=ROWS):
    rows = tf.constant(rows)
    with tf.GradientTape() as tape:
        tape.watch(rows)
        outputs = model(rows)
    return tape.gradient(outputs, rows).numpy()


def network(middle=None, activation=None):
    """A model of two dense layers with something in between."""
    keras.utils.set_random_seed(3)
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(3, activation=activation)(inputs)
    hidden = hidden if middle is None else middle(hidden)
    return keras.Model(inputs, keras.layers.Dense(1)(hidden))
