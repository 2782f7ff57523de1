"""tf.stack hands each input its slice of the upstream; a rule can ask for that and build on it."""

import numpy as np
import tensorflow as tf

import pullback as pb
from pullback.tour import Line, Story

rows = [tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])]
weights = np.array([[1.0, 10.0], [100.0, 1000.0]], dtype=np.float32)


def our_scaled_stack(factor):
    def scaled(dy, *, original):
        return [factor * part for part in original(dy)]

    return pb.with_gradient(tf.stack, scaled)


def stock_scaled_stack(factor):
    """Without `original` one writes TensorFlow's own gradient once more, axis and all."""

    def stack(values, axis):
        @tf.custom_gradient
        def run(*values):
            stacked = tf.stack(values, axis)
            return stacked, lambda dy: [factor * part for part in tf.unstack(dy, axis=axis)]

        return run(*values)

    return stack


def gradients(stack, axis):
    with tf.GradientTape() as tape:
        tape.watch(rows)
        total = tf.reduce_sum(weights * stack(rows, axis))
    return tape.gradient(total, rows)


story = Story(
    "What is the ordinary gradient of tf.stack, and can my own rule build on it?",
    stock=stock_scaled_stack,
    ours=our_scaled_stack,
    lines=[
        Line("ordinary", lambda scaled: gradients(scaled(1.0), axis=0), list(weights)),
        Line("half, axis 1", lambda scaled: gradients(scaled(0.5), axis=1), list(weights.T / 2)),
    ],
    moral="`original` is the gradient that would have run: no need to write it again.",
)

if __name__ == "__main__":
    story.show()
