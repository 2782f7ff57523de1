"""The gradient is computed by a function that knows nothing of the forward pass."""

import numpy as np
import tensorflow as tf

import pullback as pb
from pullback.tour import Line, Story

x = tf.constant([0.5, 2.0, 30.0])


def bounded(dy, x):
    """Somebody's formula: it keeps the sign of 2x and saturates at 1."""
    return dy * tf.tanh(x)


@tf.custom_gradient
def stock_square(x):
    return tf.square(x), lambda dy: bounded(dy, x)


def bounded_rule(dy, *, inputs):
    return bounded(dy, inputs[0])


def backward(fn):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = fn(x)
    return tape.gradient(y, x)


def forward(fn):
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        y = fn(x)
    return accumulator.jvp(y)


story = Story(
    "How can the gradient of one function be the output of another?",
    stock=stock_square,
    ours=pb.with_gradient(tf.square, bounded_rule),
    lines=[
        Line("backward", backward, np.tanh([0.5, 2.0, 30.0])),
        Line("forward mode", forward, np.tanh([0.5, 2.0, 30.0])),
    ],
    moral="In stock forward mode the rule is ignored: 2x comes back.",
)

if __name__ == "__main__":
    story.show()
