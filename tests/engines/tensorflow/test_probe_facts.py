"""Thresholds are those that values are compared with, not those of loops and lengths."""

import numpy as np
import pytest
import tensorflow as tf

from pullback.check.programs.facts import facts_of
from pullback.engines.tensorflow.probing import make_probe

X = tf.constant(np.linspace(0.1, 0.9, 6), tf.float32)


def in_a_loop(x):
    return tf.while_loop(lambda i, _: i < 5, lambda i, y: (i + 1, tf.sin(y)), (0, x))[1]


def until_it_is_large(x):
    return tf.while_loop(lambda y: tf.reduce_sum(y) < 40.0, lambda y: [2 * y], [x])[0]


def by_whole_numbers(x):
    return tf.where(tf.cast(x, tf.int32) > 7, x, 2 * x)


@pytest.mark.parametrize(
    "fn, constants, branches",
    [
        (in_a_loop, (), False),
        (until_it_is_large, (40.0,), True),
        (by_whole_numbers, (7.0,), True),
        (tf.nn.relu6, (0.0, 6.0), True),
        (tf.sin, (), False),
    ],
)
def test_what_values_are_compared_with(fn, constants, branches):
    probe = make_probe(fn, [X], {}, None, 0)
    ws = [np.ones(leaf.shape) for leaf in probe.outputs]
    facts = facts_of(probe.traced(probe.start(), ws, as_given=True))
    probe.close()
    assert set(constants) <= set(facts.constants)
    assert bool(constants) == bool(facts.constants)
    assert facts.branches is branches
