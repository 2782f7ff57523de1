"""A targeted layer is not passed by where Keras runs something else than its `call`: quantised, or recomputed."""

import re
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from tests.override.helpers import tenfold

X = np.random.default_rng(0).normal(size=(8, 3)).astype("f")


def plain() -> Any:
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(4, name="first"), keras.layers.Dense(4, name="second")]
    return keras.Sequential([keras.Input((3,)), *layers])


def quantized() -> Any:
    model = plain()
    model.get_layer("second").quantize("int8")
    return model


def recomputed() -> Any:
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(4, name="first")(inputs)
    with keras.RematScope(mode="full"):
        second = keras.layers.Dense(4, name="second")
    return keras.Model(inputs, second(hidden))


def gradient(model: Any) -> Any:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(X) ** 2)
    return tape.gradient(loss, model.get_layer("first").kernel.value)


TARGETS: dict[str, Callable[[Any], Any]] = {
    "layer": lambda model: model.get_layer("second"),
    "name": lambda _: re.compile("second"),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", [plain, quantized, recomputed])
def test_a_layer_is_a_target_whatever_keras_runs_for_it(
    make: Callable[[], Any], target: str
) -> None:
    model = make()
    changed = pb.override({TARGETS[target](model): tenfold})
    wanted = 10.0 * gradient(model).numpy()
    np.testing.assert_allclose(gradient(changed(model)), wanted, rtol=1e-5)
    assert changed.audit.rows[0].ran == 1


@pytest.mark.parametrize("options", [{}, {"run_eagerly": True}, {"jit_compile": True}])
def test_all_layers_of_a_class_are_reached_where_some_are_quantized(options: Any) -> None:
    model = quantized()
    before = model.get_layer("first").get_weights()[0]
    changed = pb.override({keras.layers.Dense: pb.rules.scale(0.0)})
    overridden = changed(model)
    overridden.compile("sgd", "mse", **options)
    overridden.fit(X, np.ones([8, 4]), verbose=0)
    assert np.array_equal(model.get_layer("first").get_weights()[0], before)
    assert changed.audit.rows[0].matched == 2


def test_a_rule_sees_the_arguments_by_the_names_of_call() -> None:
    seen: list[Any] = []

    def looking(dy: Any, *, inputs: Any, original: Any) -> Any:
        seen.append(inputs["inputs"].shape)
        return original(dy)

    model = quantized()
    gradient(pb.override({model.get_layer("second"): looking})(model))
    assert seen == [(8, 4)]
