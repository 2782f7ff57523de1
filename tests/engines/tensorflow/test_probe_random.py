"""Random numbers that a function draws are seen, wherever it draws them, and held fixed."""

import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from pullback.check import check
from pullback.errors import CheckError

HELD = "random: checked with its random numbers held fixed"
M = tf.constant(np.random.default_rng(1).normal(size=(6, 3)), tf.float32)


def test_pythons_random_numbers_are_held_fixed():
    report = check(lambda x: x * random.random(), M, quick=True)
    assert report.ok
    assert HELD in report.coverage.notes


HIDDEN = {
    "dropout": lambda x: tf.nn.dropout(x, 0.5),
    "dropout with a seed": lambda x: tf.nn.dropout(x, 0.5, seed=3),
    "dropout in a tf.function": tf.function(lambda x: tf.nn.dropout(x, 0.5)),
    "a new layer in each call": lambda x: keras.layers.Dropout(0.5)(x, training=True),
    "factors": lambda x: x * tf.random.normal([4]),
    "NumPy's": lambda x: x * tf.cast(np.random.normal(size=4), x.dtype),
    "Python's": lambda x: x * random.random(),
    "in a branch": lambda x: tf.nn.relu(x - 0.01) * tf.random.normal([4]),
    "in the other branch": lambda x: tf.nn.relu(-x - 0.01) * tf.random.normal([4]),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_random_numbers_that_zeros_hide_are_held_fixed(name: str):
    report = check(HIDDEN[name], tf.zeros([4]), order=1)
    assert report.ok, str(report)
    assert HELD in report.coverage.notes


def test_random_numbers_that_one_of_two_arguments_hides_are_held_fixed():
    start, scale = tf.constant([0.1, 0.2, 0.3]), tf.Variable(tf.zeros([3]))
    assert check(lambda x, s: x + s * tf.random.normal([3]), start, tf.zeros([3])).ok
    assert check(lambda x: x + scale * tf.random.normal([3]), start, order=1).ok
    np.testing.assert_array_equal(scale, np.zeros(3))


def test_what_stays_random_is_refused_where_zeros_hide_it():
    rng = np.random.default_rng()
    with pytest.raises(CheckError, match="Make its randomness an argument"):
        check(lambda x: x * rng.normal(), tf.zeros([4]))


def kept_or_turned(x: tf.Tensor) -> tf.Tensor:
    return tf.where(tf.random.uniform([], maxval=2, dtype=tf.int32) > 0, x, -x)


COINS = {
    "an integer": kept_or_turned,
    "a choice": lambda x: x * random.choice([1.0, 2.0]),
    "NumPy's": lambda x: x * np.random.randint(1, 3),
    "a category": lambda x: x * tf.cast(tf.random.categorical([[0.0, 0.0]], 1)[0, 0] + 1, x.dtype),
}


@pytest.mark.parametrize("name", COINS)
def test_what_is_one_of_two_is_random_each_time(name: str):
    # a few calls would give the same every fourth time, or so
    for seed in range(8):
        report = check(COINS[name], tf.constant([0.3, 0.7]), quick=True, order=1, seed=seed)
        assert report.ok, str(report)
        assert HELD in report.coverage.notes


def test_one_of_two_that_was_traced_before_is_refused_each_time():
    tf.random.set_seed(None)  # with a seed of the process, the trace can be repeated
    traced = tf.function(kept_or_turned)
    traced(tf.constant([0.3, 0.7]))
    for _ in range(8):
        with pytest.raises(CheckError, match="gives another value each time"):
            check(traced, tf.constant([0.3, 0.7]), quick=True, order=1)
