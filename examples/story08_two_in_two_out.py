"""Two inputs, two outputs, returned flat, with the backward function as the last."""

from math import cos, sin

import tensorflow as tf

import pullback as pb
from pullback.tour import Line, Story

point = [tf.constant(2.0), tf.constant(0.5)]
truth = [3 * cos(0.5) + sin(0.5), 2 * (-3 * sin(0.5) + cos(0.5))]


def cartesian(radius, angle):
    x, y = radius * tf.cos(angle), radius * tf.sin(angle)

    def backward(dx, dy):
        d_radius = dx * tf.cos(angle) + dy * tf.sin(angle)
        d_angle = dy * x - dx * y
        return d_radius, d_angle

    return x, y, backward


def gradients(fn, point=point):
    with tf.GradientTape() as tape:
        tape.watch(point)
        x, y = fn(*point)
        loss = 3.0 * x + y
    return tape.gradient(loss, point)


def traced(fn):
    return tf.function(lambda point: gradients(fn, point))(point)


def by_keyword(fn):
    return gradients(lambda radius, angle: fn(angle=angle, radius=radius))


story = Story(
    "How do I give a gradient to a function with several inputs and outputs?",
    stock=tf.custom_gradient(cartesian),
    ours=pb.custom_gradient(cartesian),
    lines=[
        Line("in eager code", gradients, truth),
        Line("in a tf.function", traced, truth),
        Line("by keyword, other order", by_keyword, truth),
    ],
    moral="Return the outputs as you like; the last thing returned is the backward function.",
)

if __name__ == "__main__":
    story.show()
