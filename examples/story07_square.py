"""The smallest custom gradient: a square and 2x."""

import pickle

import tensorflow as tf

import pullback as pb
from pullback.tour import Line, Story

x = tf.constant([1.0, 2.0, 3.0])
truth = [2.0, 4.0, 6.0]


@pb.custom_gradient
def square(x):
    def backward(dy):
        return 2.0 * x * dy

    return tf.square(x), backward


@tf.custom_gradient
def stock_square(x):
    def backward(dy):
        return 2.0 * x * dy

    return tf.square(x), backward


def gradient(fn):
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(fn(x))
    return tape.gradient(total, x)


def traced(fn):
    return gradient(tf.function(fn))


def pickled(fn):
    return gradient(pickle.loads(pickle.dumps(fn)))


story = Story(
    "How do I write a custom gradient?",
    stock=stock_square,
    ours=square,
    lines=[
        Line("in eager code", gradient, truth),
        Line("in a tf.function", traced, truth),
        Line("pickled, for a worker", pickled, truth),
    ],
)

if __name__ == "__main__":
    story.show()
