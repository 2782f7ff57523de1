"""Keras models are checked in float64 through a copy, which must be the same in every respect."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.check import check

M = tf.constant(np.random.default_rng(1).normal(size=(4, 5)), tf.float32)
FLOAT32 = "runs in float32 only: small errors cannot be told from rounding"


def functional():
    inputs = keras.Input((5,))
    hidden = keras.layers.Dense(3, activation="tanh")(inputs)
    return keras.Model(inputs, {"a": keras.layers.Dense(2)(hidden), "b": hidden})


class Subclassed(keras.Model):
    """Layers without a dtype of their own."""

    def __init__(self):
        super().__init__()
        self.inner = keras.layers.Dense(3, activation="tanh")
        self.outer = keras.layers.Dense(2)

    def call(self, x):
        return self.outer(self.inner(x))


MODELS = {
    "functional": functional,
    "sequential": lambda: keras.Sequential(
        [keras.layers.Dense(3, activation="gelu"), keras.layers.Dense(2)]
    ),
    "wrapped": lambda: keras.Sequential([functional()]),
    "subclassed": Subclassed,
}


@pytest.mark.parametrize("name", MODELS)
def test_models_are_checked_in_double_precision(name):
    report = check(MODELS[name](), M, quick=True)
    assert report.ok, str(report)
    assert FLOAT32 not in report.coverage.notes
    assert {line.leaf.dtype for line in report.inputs} == {"float32"}


def test_a_function_is_not_replaced_by_its_namesake():
    @tf.custom_gradient
    def relu(x):
        return tf.nn.relu(x), lambda dy: tf.where(x > 50.0, 3 * dy, dy * tf.cast(x > 0, dy.dtype))

    layer = keras.layers.Dense(3, activation=relu)
    assert not check(layer, 100 * M)


def test_an_override_is_not_lost_in_the_copy():
    def double(dy, *, original):
        return 2 * original(dy)

    model = keras.Sequential([keras.layers.Dense(3, activation="tanh")])
    model(M)
    assert not check(pb.override({"Tanh": double})(model), M, quick=True)
    assert check(model, M, quick=True)


def test_wrt_limits_a_layer_as_well():
    layer = keras.layers.Dense(3)
    report = check(layer, M, wrt="inputs", quick=True)
    assert [line.leaf.name for line in report.inputs] == ["inputs"]
    report = check(layer, M, wrt=[layer.kernel.path], quick=True)
    assert [line.leaf.name for line in report.inputs] == [layer.kernel.path]


def test_the_default_precision_of_keras_is_given_back():
    before = keras.config.dtype_policy().name
    check(functional(), M, quick=True)
    assert keras.config.dtype_policy().name == before
