"""Two rules that look right, and what a check says about them."""

import tensorflow as tf

import pullback as pb


@pb.custom_gradient
def softmax(x):
    y = tf.nn.softmax(x)

    def softmax_pullback(dy):
        return dy * y * (1 - y)

    return y, softmax_pullback


@pb.custom_gradient
def log_cosh(x):
    def log_cosh_pullback(dy):
        return dy * tf.where(tf.abs(x) > 20.0, 0.0, tf.tanh(x))

    return tf.abs(x) + tf.math.log1p(tf.exp(-2 * tf.abs(x))) - tf.math.log(2.0), log_cosh_pullback


@pb.custom_gradient
def round_straight_through(x):
    return tf.round(x), lambda dy: dy


x = tf.constant([0.3, -1.2, 0.7, 2.1])

report = pb.check(softmax, x)
print(report)
assert report.findings[0].kind == "term"

report = pb.check(log_cosh, x)
print(report)
assert report.findings[0].kind == "condition"

report = pb.check(round_straight_through, x, against=tf.identity)
print(report)
assert report.ok
