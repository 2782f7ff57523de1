"""A stack that lets nothing back: its inputs get zeros, whoever calls it and however."""

import tensorflow as tf

import pullback as pb
from pullback.tour import Line, Story

a, b = tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])
zeros = [[0.0, 0.0], [0.0, 0.0]]


def zero_stack(values, axis=0):
    def backward(dy):
        return [tf.zeros_like(value) for value in values]

    return tf.stack(values, axis=axis), backward


def gradients(stacked):
    with tf.GradientTape() as tape:
        tape.watch([a, b])
        total = tf.reduce_sum(stacked())
    return tape.gradient(total, [a, b])


def by_position(stack):
    return gradients(lambda: stack([a, b]))


def by_keyword(stack):
    return gradients(lambda: stack(values=[a, b]))


def traced(stack):
    return gradients(tf.function(lambda: stack([a, b], axis=1)))


story = Story(
    "Can the gradient of a stack be zero?",
    stock=tf.custom_gradient(zero_stack),
    ours=pb.custom_gradient(zero_stack),
    lines=[
        Line("by position", by_position, zeros),
        Line("by keyword", by_keyword, zeros),
        Line("axis=1 in a tf.function", traced, zeros),
    ],
    moral="A keyword must not decide whether a rule runs.",
)

if __name__ == "__main__":
    story.show()
