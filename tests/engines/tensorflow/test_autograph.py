"""AutoGraph converts the user's code wherever it runs, and nothing of ours."""

import functools
from collections.abc import Callable
from typing import Any

import keras
import pytest
import tensorflow as tf
from tensorflow.python.autograph.impl import api

import pullback as pb

X = tf.constant([[1.0, 2.0]])


def triple(dy):
    return 3.0 * dy


def triple_prediction(dy):
    return None, 3.0 * dy[:, None] * tf.ones_like(X)


def by_sign(factor, x):
    if tf.reduce_sum(x) > 0.0:
        return factor * tf.nn.relu(x)
    return -tf.nn.relu(x)


def doubled(x):
    return by_sign(2.0, x)


class Doubling:
    def __call__(self, x):
        return by_sign(2.0, x)

    def method(self, x):
        return by_sign(2.0, x)


class CallOfItsOwn(keras.Layer):
    def __call__(self, x):
        return by_sign(2.0, x)


class StepOfItsOwn(keras.Model):
    def call(self, x):
        return x

    def train_step(self, data):
        return by_sign(2.0, data)


class LossOfItsOwn(keras.losses.Loss):
    def call(self, y_true, y_pred):
        return tf.reduce_sum(by_sign(2.0, y_pred), -1)


override = pb.override({tf.nn.relu: triple})


@pb.custom_gradient
def decorated(x):
    def backward(dy):
        return 3.0 * dy

    return by_sign(2.0, x), backward


def loss(x):
    return pb.with_gradient(LossOfItsOwn(), triple_prediction)(x, x)


USERS: dict[str, tuple[Callable[..., Any], float]] = {
    "custom_gradient": (decorated, 3.0),
    "with_gradient": (pb.with_gradient(doubled, triple), 3.0),
    "with_gradient, method": (pb.with_gradient(Doubling().method, triple), 3.0),
    "with_gradient, object": (pb.with_gradient(Doubling(), triple), 3.0),
    "with_gradient, partial": (pb.with_gradient(functools.partial(by_sign, 2.0), triple), 3.0),
    "with_gradient, loss": (loss, 3.0),
    "override": (override(doubled), 6.0),
    "override, method": (override(Doubling().method), 6.0),
    "override, object": (override(Doubling()), 6.0),
    "override, partial": (override(functools.partial(by_sign, 2.0)), 6.0),
    "override, layer": (override(CallOfItsOwn()), 6.0),
    "override, training step": (override(StepOfItsOwn()).train_step, 6.0),
}


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that AutoGraph has converted, by module and name."""
    names: list[str] = []
    transform = api._TRANSPILER.transform

    def noting(function: Any, context: Any) -> Any:
        names.append(f"{function.__module__}.{function.__qualname__}")
        return transform(function, context)

    monkeypatch.setattr(api._TRANSPILER, "transform", noting)
    return names


@pytest.mark.parametrize("way", USERS)
def test_the_users_control_flow_is_converted_and_none_of_our_code(
    way: str, converted: list[str]
) -> None:
    function, slope = USERS[way]

    @tf.function
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x)

    assert gradient(X).numpy().tolist() == [[slope, slope]]
    assert f"{__name__}.by_sign" in converted
    assert not [name for name in converted if name.startswith("pullback.")]


@pytest.mark.parametrize("way", ["custom_gradient", "override"])
def test_none_of_our_code_is_converted_where_it_is_what_is_traced(
    way: str, converted: list[str]
) -> None:
    assert tf.function(USERS[way][0])(X).numpy().tolist() == [[2.0, 4.0]]
    assert f"{__name__}.by_sign" in converted
    assert not [name for name in converted if name.startswith("pullback.")]


def test_an_overridden_model_converts_no_more_than_the_plain_one(converted: list[str]) -> None:
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Dense(2, activation="relu")(inputs))
    counts = []
    for each in (model, override(model)):
        converted.clear()
        tf.function(lambda x, f=each: f(x))(X)
        counts.append(len(converted))
    assert counts[0] == counts[1]


def test_a_tf_function_with_another_gradient_is_left_as_it_is() -> None:
    plain = tf.function(doubled)
    before = plain.__wrapped__
    tf.function(pb.with_gradient(plain, triple))(X)
    assert plain.__wrapped__ is before
