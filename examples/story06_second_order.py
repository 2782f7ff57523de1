"""A backward function that brings its own second order.

relu(x)²/2 has the derivative relu(x), and that has a kink: its symmetric derivative at 0 is ½.
"""

import tensorflow as tf

import pullback as pb
from pullback.tour import Line, Story

x = tf.constant([-1.0, 0.0, 2.0])
truth = [[0.0, 0.0, 2.0], [0.0, 0.5, 1.0]]


def half_squared_relu(x):
    def backward(dy):
        def second(ddx):
            return ddx * dy * 0.5 * (1.0 + tf.sign(x))

        return dy * tf.nn.relu(x), second

    return 0.5 * tf.square(tf.nn.relu(x)), backward


def derivatives(fn, x=x):
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = fn(x)
        first = inner.gradient(y, x)
    return first, outer.gradient(first, x)


def traced(fn):
    return tf.function(lambda x: derivatives(fn, x))(x)


story = Story(
    "Can a gradient function return its own second-order gradient?",
    stock=tf.custom_gradient(half_squared_relu),
    ours=pb.custom_gradient(half_squared_relu),
    lines=[
        Line("first and second, eager", derivatives, truth),
        Line("both in a tf.function", traced, truth),
    ],
    moral="Differentiating the first rule would say 0 at the kink; the second rule says ½.",
)

if __name__ == "__main__":
    story.show()
