"""What is kept in memory for the backward pass, and by which line?"""

import tensorflow as tf

import pullback as pb
from pullback.tour import Line, Story

x = tf.random.normal([256, 256])
SQUARE = 256 * 256 * 4  # bytes of one tensor of that shape


def two_exponentials(x):
    a = tf.exp(x)
    b = tf.exp(-x)
    return tf.reduce_sum(a) + tf.reduce_sum(b)


def kept_bytes(fn):
    return pb.explain(fn, x).residuals().total


def line_of_largest(fn):
    return pb.explain(fn, x).residuals()[0].line.rpartition(":")[2]


def not_told(ask, fn):
    del ask, fn
    return "not told"


first = two_exponentials.__code__.co_firstlineno

story = Story(
    "What is kept in memory for the backward pass?",
    stock=not_told,
    ours=lambda ask, fn: ask(fn),
    lines=[
        Line("bytes", lambda side: side(kept_bytes, two_exponentials), 2 * SQUARE + 2 * 4),
        Line("the line", lambda side: side(line_of_largest, two_exponentials), str(first + 1)),
    ],
    moral="Each tensor that waits for the backward pass, largest first, with its line: what to recompute or rewrite.",
)

if __name__ == "__main__":
    story.show()
