"""What of a picture counts? Where a score is saturated the gradient is zero, and the picture of it empty."""

import numpy as np
import tensorflow as tf

import pullback as pb
from pullback.tour import Line, Story

SIZE = 24
down, across = np.mgrid[:SIZE, :SIZE]
disc = (np.hypot(across - 7, down - 8) < 5).astype("f")
square = (np.maximum(abs(across - 17), abs(down - 15)) < 4.5).astype("f")
picture = tf.constant((disc + square)[None])


def saturated(x):
    """1 − relu(1 − x), which is flat above 1: the example by which integrated gradients were introduced."""
    return 1.0 - tf.nn.relu(1.0 - x)


def sees_a_disc(x):
    """How sure a detector of discs is, from 0 to 1."""
    there = tf.reduce_sum(x * disc, [1, 2]) - 0.5 * tf.reduce_sum(x * (1.0 - disc - square), [1, 2])
    return saturated(tf.nn.relu(there) / 40.0)


def gradient_times_input(fn, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = fn(x)
    return x * tape.gradient(y, x)


def shared_out(fn, x):
    return pb.saliency(fn, x, method="deeplift").tensor


def sums(share):
    found = share(sees_a_disc, picture)
    return [tf.reduce_sum(found * shape) for shape in (disc, square)]


story = Story(
    "What of a picture counts?",
    stock=gradient_times_input,
    ours=shared_out,
    lines=[
        Line("saturated", lambda share: share(saturated, tf.constant([[2.0]])), [[1.0]]),
        Line("disc, square", sums, [1.0, 0.0]),
    ],
    moral="Contributions that add up to the score; `found.show()` prints the picture, `found.save()` writes it.",
    picture=lambda: pb.saliency(sees_a_disc, picture, method="deeplift"),
)

if __name__ == "__main__":
    story.show()
