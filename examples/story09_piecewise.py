"""A function with a kink, written with a plain `if`, run over a vector."""

import tensorflow as tf

import pullback as pb
from pullback.tour import Line, Story

x = tf.constant([-1.0, 0.0, 1.0])
truth = [1.0, 1.5, 2.0]


def kinked(x):
    """Slope 1 below zero and 2 above; at zero the mean of both."""
    if x > 0.0:
        y = 2.0 * x
    else:
        y = 1.0 * x

    def backward(dy):
        return dy * (1.5 + 0.5 * tf.sign(x))

    return y, backward


def gradient(fn):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = fn(x)
    return tape.gradient(y, x)


def element_by_element(fn):
    return gradient(lambda x: tf.stack([fn(element) for element in tf.unstack(x)]))


def mapped(fn):
    return gradient(tf.function(lambda x: tf.map_fn(fn, x)))


story = Story(
    "How do I write the gradient of a piecewise function of a vector?",
    stock=tf.custom_gradient(kinked),
    ours=pb.custom_gradient(kinked),
    lines=[
        Line("eager, element by element", element_by_element, truth),
        Line("map_fn in a tf.function", mapped, truth),
    ],
    moral="An `if` on a tensor works here as it does in any tf.function.",
)

if __name__ == "__main__":
    story.show()
