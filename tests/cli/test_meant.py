"""The words for rules that were never meant to be derivatives."""

import numpy as np
import pytest
import tensorflow as tf

from pullback.cli.checking.meant import meaning

X = tf.constant(np.random.default_rng(0).normal(size=(3, 4)), tf.float32)
ALPHA = tf.constant(0.7)
TURN = tf.constant(1j, tf.complex64)
WEIGHTS = tf.constant(np.linspace(0.2, 2.0, 12).reshape(3, 4), tf.float32)


def identity(rule):
    """`x` as it is, with a rule of the upstream and the other arguments; none flows to these."""

    @tf.custom_gradient
    def unchanged(x, other=None):
        return tf.identity(x), lambda dy: (rule(dy, other), None)

    return unchanged


RULES = {
    "reversal": (lambda dy, alpha: -alpha * dy, ALPHA, "reverses the gradient: -1 times `other`"),
    "scale": (lambda dy, alpha: 2 * alpha * dy, ALPHA, "scales the gradient: 2 times `other`"),
    "square": (lambda dy, alpha: alpha**2 * dy, ALPHA, "a factor that depends on its inputs"),
    "turn": (lambda dy, turn: turn * dy, TURN, "times `other` times the upstream"),
    "weights": (lambda dy, w: w * dy, WEIGHTS, "in proportion to it: weighted, masked or mixed"),
    "constant": (lambda dy, _: -0.3 * dy, ALPHA, "reverses the gradient: -0.3 times the upstream"),
    "norm": (lambda dy, c: tf.clip_by_norm(dy, c), ALPHA, "clipped, normalised or noisy"),
    "value": (lambda dy, _: tf.clip_by_value(dy, -1, 1), ALPHA, "clipped, normalised or noisy"),
    "unit": (lambda dy, _: dy / tf.norm(dy), ALPHA, "clipped, normalised or noisy"),
    "mask": (lambda dy, w: tf.where(w > 1, dy, 0.0), WEIGHTS, "part of the upstream: a mask"),
    "stop": (lambda dy, _: None, ALPHA, "gives no gradient"),
}


@pytest.mark.parametrize("name", RULES)
def test_what_a_rule_does_to_its_upstream(name):
    rule, other, words = RULES[name]
    x = tf.cast(X, other.dtype)
    told = meaning(identity(rule), (x, other), {})
    assert told.startswith("returns `x` as it is, and ")
    assert words in told
