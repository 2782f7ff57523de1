"""A backward function returned beside the value is the gradient, not a souvenir."""

import numpy as np
import tensorflow as tf

import pullback as pb
from pullback.tour import Line, Story

rows = [tf.Variable([1.0, 2.0]), tf.Variable([3.0, 4.0])]
weights = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32)


def loud_stack(values, axis=0):
    """Ten times the ordinary gradient, so that one sees whether it ran."""

    def backward(dy):
        return [10.0 * part for part in tf.unstack(dy, axis=axis)]

    return tf.stack(values, axis=axis), backward


def undecorated(values, axis=0):
    stacked, _never_called = loud_stack(values, axis)
    return stacked


def gradients(stack, axis):
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(weights * stack(rows, axis=axis))
    return tape.gradient(total, rows)


def traced(stack):
    return gradients(tf.function(stack), axis=1)


story = Story(
    "I return a gradient function beside my stacked value: does anybody call it?",
    stock=undecorated,
    ours=pb.custom_gradient(loud_stack),
    lines=[
        Line("in eager code", lambda stack: gradients(stack, axis=0), list(10 * weights)),
        Line("axis 1, in a tf.function", traced, list(10 * weights.T)),
    ],
    moral="One decorator turns the returned function into the gradient, keywords and all.",
)

if __name__ == "__main__":
    story.show()
