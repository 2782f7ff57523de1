"""Where does the NaN come from? The operation that made it, not the weights in which it ended up."""

import tensorflow as tf

import pullback as pb
from pullback.tour import Line, Story

x, p = tf.constant([[0.0, 0.0], [3.0, 4.0]]), tf.constant([0.0, 0.5])
NAMES = {"Sqrt": "tf.sqrt", "Log": "tf.math.log"}


def lengths(x):
    return tf.reduce_sum(tf.norm(x, axis=-1))


def guarded_log(p):
    return tf.reduce_sum(tf.where(p > 0.0, tf.math.log(p), 0.0))


def guarded_root(p):
    return tf.reduce_sum(tf.where(p > 0.0, tf.sqrt(p), 0.0))


def anomaly(fn, x):
    """What stock TensorFlow has for it: an error at the first operation whose result is not finite, forward."""
    tf.debugging.enable_check_numerics()
    try:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = fn(x)
        tape.gradient(y, x)
    except tf.errors.InvalidArgumentError as error:
        return next((name for op, name in NAMES.items() if op in str(error)), "an error")
    finally:
        tf.debugging.disable_check_numerics()
    return "nothing"


def explained(fn, x):
    return pb.explain(fn, x).first_nonfinite().op


story = Story(
    "Where does the NaN come from?",
    stock=anomaly,
    ours=explained,
    lines=[
        Line("a norm at zero", lambda ask: ask(lengths, x), "tf.sqrt"),
        Line("the `where` trap", lambda ask: ask(guarded_log, p), "tf.math.log"),
        Line(
            "compiled by XLA",
            lambda ask: ask(tf.function(guarded_root, jit_compile=True), p),
            "tf.sqrt",
        ),
    ],
    moral="Forward or backward, the first operation that makes NaN of numbers, with its line and the rewrite to use.",
)

if __name__ == "__main__":
    story.show()
