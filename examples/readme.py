import tensorflow as tf

import pullback as pb


def guided(dy, *, original):
    return tf.where(dy > 0, original(dy), 0.0)


def somebody_elses_model(x):
    return tf.reduce_sum(tf.nn.relu(x) * [1.0, -1.0, 1.0])


x = tf.constant([1.0, 2.0, -3.0])
for model in somebody_elses_model, pb.override({tf.nn.relu: guided})(somebody_elses_model):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = model(x)
    print(tape.gradient(y, x).numpy())


@pb.custom_gradient
def square(x):
    return x**2, lambda dy: 2.0 * x


print(pb.check(square, x).diagnosis)
