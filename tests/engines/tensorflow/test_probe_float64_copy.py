"""Functions that hold float32 variables, tensors and layers are checked in float64 all the same."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.check import check
from pullback.engines.tensorflow.probing.float64_copy import float64_copy

X = tf.constant(np.random.default_rng(0).normal(size=(4, 3)), tf.float32)
WEIGHT = tf.Variable(np.random.default_rng(1).normal(size=3), dtype=tf.float32, name="weight")
MASK = tf.constant([1.0, 0.5, 2.0])
# drawn anew, weights might make what is wrong too small a part of the whole
DENSE = keras.layers.Dense(2, "tanh", kernel_initializer=keras.initializers.GlorotUniform(seed=0))
DENSE(X)
LOSS = keras.losses.MeanSquaredError()
FLOAT32 = "runs in float32 only: small errors cannot be told from rounding"
# far below what float32 could tell, far above what float64 can
OFF = 1.00001


def uses_global(x, scale):
    @tf.custom_gradient
    def product(x):
        return x * WEIGHT, lambda dy, variables=None: (
            scale * dy * WEIGHT,
            [tf.reduce_sum(dy * x, 0)],
        )

    return product(x) * MASK


def closure(scale):
    weight = tf.Variable([1.0, 2.0, 3.0])

    @pb.custom_gradient
    def product(x):
        def back(dy, *, variables):
            return scale * dy * weight, [tf.reduce_sum(dy * x, 0)]

        return x * weight, back

    return product


def ruled(scale):
    return pb.with_gradient(lambda x: x * MASK, lambda dy: scale * dy * MASK)


class Plain:
    """Holds its variable as an ordinary attribute."""

    def __init__(self, scale):
        self.scale, self.held = scale, {"w": [tf.Variable([1.0, 2.0, 3.0])]}

    def method(self, x):
        weight = self.held["w"][0]
        return x * weight + (self.scale - 1) * tf.stop_gradient(x)


class Module(tf.Module):
    """TensorFlow's own holder of variables."""

    def __init__(self, scale):
        super().__init__()
        self.scale, self.weight = scale, tf.Variable([1.0, 2.0, 3.0])

    def __call__(self, x):
        return x * self.weight + (self.scale - 1) * tf.stop_gradient(x)


def step(x, scale):
    x = x + (scale - 1) * tf.stop_gradient(x)
    return LOSS(tf.ones([4, 2], x.dtype), DENSE(x))


HOLDERS = {
    "global": lambda scale: functools.partial(uses_global, scale=scale),
    "closure": closure,
    "ruled": ruled,
    "method": lambda scale: Plain(scale).method,
    "module": Module,
    "layer and loss": lambda scale: lambda x: step(x, scale),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_errors_far_below_single_precision_are_found(name):
    report = check(HOLDERS[name](1.0), X, order=1)
    assert report.ok, str(report)
    assert FLOAT32 not in report.coverage.notes
    assert not check(HOLDERS[name](OFF), X, quick=True)


def test_what_the_function_holds_is_left_alone():
    function = closure(1.0)
    made, variables = float64_copy(function)
    (twin,) = variables.values()
    assert twin.dtype == tf.float64
    assert made(tf.cast(X, tf.float64)).dtype == tf.float64
    assert function(X).dtype == tf.float32
    assert WEIGHT.dtype == tf.float32
    assert float64_copy(tf.sin) is None


def test_a_function_that_assigns_to_names_outside_is_not_taken_apart():
    count, weight = 0, tf.Variable([1.0, 2.0, 3.0])

    def counting(x):
        nonlocal count
        count += 1
        return x * weight

    report = check(counting, X, quick=True)
    assert report.ok
    assert FLOAT32 in report.coverage.notes
    assert count > 1


def test_what_a_rule_keeps_in_a_dict_stays_shared():
    kept, weight = {}, tf.Variable([1.0, 2.0, 3.0])

    @tf.custom_gradient
    def stale(x):
        kept["x"] = x

        def back(dy, variables=None):
            return dy * weight, [tf.reduce_sum(dy * kept["x"], 0)]

        return x * weight, back

    assert check(stale, X).findings[0].kind == "stale"


def test_a_keras_variable_is_copied_as_one():
    weight = keras.Variable([1.0, 2.0, 3.0])
    made, variables = float64_copy(lambda x: x * weight)
    assert made(tf.cast(X, tf.float64)).dtype == tf.float64
    assert [v.dtype for v in variables.values()] == [tf.float64]
