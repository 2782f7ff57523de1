"""An operation with its own gradient and its own weight, inside a loss."""

import tensorflow as tf

import pullback as pb
from pullback.tour import Line, Story

x = tf.constant([1.0, -2.0])
target = tf.constant([3.0, 0.0])
strength = tf.Variable(2.0)
# s·x³ - t is [-1, -16]; ∂x of its squares is 2·(s·x³ - t)·3s·x², ∂s is Σ 2·(s·x³ - t)·x³
truth = [[2 * -1 * 6.0, 2 * -16 * 24.0], 2 * -1 * 1.0 + 2 * -16 * -8.0]


def scaled_cube(x):
    """The rule speaks of x alone; the weight is read from outside."""

    def backward(dy):
        return dy * strength * 3.0 * tf.square(x)

    return strength * x**3, backward


def gradients(operation, x=x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(tf.square(operation(x) - target))
    return tape.gradient(loss, [x, strength])


def traced(operation):
    return tf.function(lambda x: gradients(operation, x))(x)


story = Story(
    "How do I use an operation with its own gradient, and a weight in it, inside a loss?",
    stock=tf.custom_gradient(scaled_cube),
    ours=pb.custom_gradient(scaled_cube),
    lines=[
        Line("∂x and ∂weight, eager", gradients, truth),
        Line("both in a tf.function", traced, truth),
    ],
    moral="A variable read inside keeps its ordinary gradient, without ceremony.",
)

if __name__ == "__main__":
    story.show()
