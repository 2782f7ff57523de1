"""A ReLU whose gradient is half the upstream, on both sides of zero, however it is run."""

import tensorflow as tf

import pullback as pb
from pullback.tour import Line, Story

x = tf.constant([[-1.0, 2.0], [3.0, -4.0]])
half = [[0.5, 0.5], [0.5, 0.5]]


def half_of_upstream(dy):
    return 0.5 * dy


@tf.custom_gradient
def stock_relu(x):
    return tf.nn.relu(x), half_of_upstream


def gradient(fn):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = fn(x)
    return tape.gradient(y, x)


def compiled(relu):
    return gradient(tf.function(relu, jit_compile=True))


def mapped(relu):
    return gradient(lambda rows: tf.vectorized_map(relu, rows))


story = Story(
    "How do I replace the gradient of ReLU by half of what comes in?",
    stock=stock_relu,
    ours=pb.with_gradient(tf.nn.relu, half_of_upstream),
    lines=[
        Line("in eager code", gradient, half),
        Line("compiled by XLA", compiled, half),
        Line("in vectorized_map", mapped, half),
    ],
    moral="Stock vectorized_map drops the rule and says nothing.",
)

if __name__ == "__main__":
    story.show()
