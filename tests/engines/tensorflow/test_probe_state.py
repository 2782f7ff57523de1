"""A check leaves everything as it was, and follows variables wherever a function finds them."""

import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from pullback.check import check
from pullback.engines.tensorflow.probing.state import reachable_variables
from pullback.errors import CheckError

M = tf.constant(np.random.default_rng(1).normal(size=(6, 3)), tf.float32)
COUNTER = tf.Variable(0, trainable=False)


def test_running_statistics_of_a_layer_are_put_back():
    layer = keras.layers.BatchNormalization()
    layer.build(M.shape)
    before = [w.numpy() for w in layer.weights]
    check(layer, M, kwargs={"training": True}, order=1)
    for weight, old in zip(layer.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), old)


def test_the_random_state_of_a_layer_is_put_back():
    layer = keras.layers.Dropout(0.5, seed=3)
    before = layer.seed_generator.state.numpy()
    assert check(layer, M, kwargs={"training": True}, quick=True)
    np.testing.assert_array_equal(layer.seed_generator.state.numpy(), before)


def test_state_is_put_back_when_the_function_is_refused():
    total = tf.Variable(0.0, trainable=False)

    def counting(x):
        total.assign_add(1.0)
        return tf.argmax(x)

    with pytest.raises(CheckError, match="no floating-point tensor"):
        check(counting, M)
    assert total.numpy() == 0.0


def test_the_users_random_numbers_go_on_as_if_nothing_had_happened():
    def draw():
        return float(tf.random.normal([])), random.random(), float(np.random.normal())

    def start():
        tf.random.set_seed(7)
        random.seed(7)
        np.random.seed(7)

    start()
    wanted = [draw(), draw()]
    start()
    first = draw()
    check(tf.sin, M, quick=True)
    assert [first, draw()] == wanted


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x * random.random(),
        lambda x: x * np.random.normal(),
        lambda x: tf.nn.dropout(x, 0.5),
        lambda x: x + 0 * tf.random.normal([]),
    ],
)
@pytest.mark.parametrize("seed", [0, 7])
def test_random_numbers_go_on_as_if_nothing_had_been_drawn(fn, seed):
    def draws():
        tf.random.set_seed(7)
        random.seed(7)
        np.random.seed(7)
        yield float(tf.random.normal([])), random.random(), np.random.normal()
        yield float(tf.random.normal([])), random.random(), np.random.normal()

    wanted = list(draws())
    found = draws()
    first = next(found)
    check(fn, M, seed=seed)
    assert [first, next(found)] == wanted


def test_the_first_run_draws_what_all_others_do():
    drawn = []
    random.seed(3)  # as the check does

    def drawing(x):
        drawn.append(random.random())
        return x * drawn[-1]

    assert check(drawing, M, quick=True, seed=3)
    # one run with other numbers tells that they matter
    assert drawn[0] == drawn[2] == drawn[-1] != drawn[1]


def test_a_random_function_does_not_leave_its_seed_behind():
    tf.random.set_seed(5)
    tf.random.normal([])
    assert check(lambda x: tf.nn.dropout(x, 0.5), M, quick=True, seed=0)
    after = float(tf.random.normal([]))
    tf.random.set_seed(0)
    again = [float(tf.random.normal([])) for _ in range(3)]
    assert after not in again


def test_pythons_random_numbers_are_held_fixed():
    report = check(lambda x: x * random.random(), M, quick=True)
    assert report.ok
    assert "random: checked with its random numbers held fixed" in report.coverage.notes


def helper():
    COUNTER.assign_add(1)


def uses_helper(x):
    helper()
    return tf.sin(x)


class Plain:
    """Not a tf.Module: its variables are ordinary attributes."""

    def __init__(self):
        self.parts = {"a": [tf.Variable(1.0)]}
        self.generator = tf.random.Generator.from_seed(1)

    def method(self, x):
        def inner():
            return self.parts["a"][0] * x

        return inner()


def test_variables_are_found_through_helpers_and_attributes():
    thing = Plain()
    assert any(v is COUNTER for v in reachable_variables(uses_helper))
    found = reachable_variables(thing.method)
    assert any(v is thing.parts["a"][0] for v in found)
    assert any(v is thing.generator.state for v in found)


def test_a_variable_written_by_a_helper_is_put_back():
    assert check(uses_helper, M, quick=True)
    assert COUNTER.numpy() == 0


def test_integer_variables_are_held_fixed():
    steps = tf.Variable(3)
    report = check(lambda x: x * tf.cast(steps, x.dtype), M, quick=True)
    assert report.ok
    assert [line.leaf.name for line in report.inputs] == ["x"]


def test_a_variable_among_the_arguments_is_one_input():
    report = check(lambda v: v * v, tf.Variable([1.0, 2.0]), quick=True)
    assert [line.leaf.path for line in report.inputs] == ["args[0]"]


def test_variables_with_the_same_name_are_told_apart():
    first, second = tf.Variable([1.0], name="w"), tf.Variable([2.0], name="w")
    report = check(lambda x: x * first * second, M, quick=True)
    paths = [line.leaf.path for line in report.inputs]
    assert len(set(paths)) == 3


class Drifting(keras.layers.Layer):
    """Made by its first call, and another one with each."""

    def build(self, shape):
        self.scale = self.add_weight(shape=(), initializer="ones", trainable=False)

    def call(self, x):
        self.scale.assign(self.scale * 1.5)
        return tf.sin(x) * self.scale


def test_state_that_the_first_call_makes_is_put_back_too():
    layer = Drifting()
    assert check(layer, M, quick=True)
    after = layer.scale.numpy()
    assert check(layer, M, quick=True)
    assert layer.scale.numpy() == after
