"""The gradient of tf.stack itself, in code that knows nothing of it."""

import uuid

import tensorflow as tf

import pullback as pb
from pullback.tour import Line, Story

x = tf.constant([1.0, 2.0])
zeros = [0.0, 0.0]


def somebody_elses(x):
    return tf.reduce_sum(tf.stack([x, 3.0 * x]))


def no_gradient(dy, *, inputs):
    return [tf.zeros_like(value) for value in inputs["values"]]


def stock_override(fn):
    name = uuid.uuid4().hex  # a name can be registered once in the life of a process
    tf.RegisterGradient(name)(lambda op, dy: [tf.zeros_like(value) for value in op.inputs])

    def run(x):
        with tf.compat.v1.get_default_graph().gradient_override_map({"Pack": name}):
            return fn(x)

    return run


def gradient(fn, x=x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = fn(x)
    return tape.gradient(y, x)


def tape_inside(override):
    return tf.function(lambda x: gradient(override(somebody_elses), x))(x)


story = Story(
    "Why can the gradient of tf.stack not be overridden?",
    stock=stock_override,
    ours=pb.override({tf.stack: no_gradient}),
    lines=[
        Line("in eager code", lambda change: gradient(change(somebody_elses)), zeros),
        Line("tape outside", lambda change: gradient(tf.function(change(somebody_elses))), zeros),
        Line("tape inside, as in fit", tape_inside, zeros),
        Line("nested", lambda change: gradient(change(tf.function(somebody_elses))), zeros),
    ],
    moral="It can, under the name Pack; stock TensorFlow drops it in most places without a word.",
)

if __name__ == "__main__":
    story.show()
