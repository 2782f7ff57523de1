"""Why is a gradient `None`? The cause, with its line, instead of a shrug."""

import tensorflow as tf

import pullback as pb
from pullback.tour import Line, Story

scores = tf.constant([[0.2, 1.5, -0.3]])
weight = tf.Variable(2.0)
read_before = weight + 0.0


def picks(scores):
    best = tf.argmax(scores, axis=-1)
    return tf.reduce_sum(tf.cast(best, tf.float32))


def rounds(scores):
    return tf.reduce_sum(tf.round(scores) * 3.0)


def leaves_tensorflow(scores):
    return tf.reduce_sum(tf.constant(scores.numpy() ** 2))


def uses_an_old_value(scores):
    return tf.reduce_sum(scores * read_before)


def stock(fn, source):
    with tf.GradientTape() as tape:
        tape.watch(scores)
        y = fn(scores)
    found = tape.gradient(y, source)
    return "None" if found is None else str(found)


def explained(fn, source):
    said = pb.explain(fn, scores).why(source)
    return next((word for word in CAUSES if word in said), said)


CAUSES = ("tf.argmax", "tf.round", "NumPy", "before")

story = Story(
    "Why is my gradient None?",
    stock=stock,
    ours=explained,
    lines=[
        Line("indices", lambda ask: ask(picks, scores), "tf.argmax"),
        Line("a step", lambda ask: ask(rounds, scores), "tf.round"),
        Line("a detour", lambda ask: ask(leaves_tensorflow, scores), "NumPy"),
        Line("an old value", lambda ask: ask(uses_an_old_value, weight), "before"),
    ],
    moral="`None` is not an answer; `flow.why(x)` is a sentence with the cause, its line, and what to write instead.",
)

if __name__ == "__main__":
    story.show()
