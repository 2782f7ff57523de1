"""TensorFlow Lite converts models with other gradients: inference needs none."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from tests.override.helpers import tenfold

X = np.random.default_rng(0).normal(size=(1, 3)).astype("f")


def plain() -> Any:
    layers = [keras.layers.Dense(4, activation="relu"), keras.layers.Dense(2)]
    return keras.Sequential([keras.Input((3,)), *layers])


def by_numpy(dy: Any, *, original: Any) -> Any:
    return tf.numpy_function(lambda g: g, [original(dy)], tf.float32)


def for_weights(dy: Any, *, original: Any, variables: Any) -> Any:
    del variables
    return original(dy)


def of_first(rule: Any) -> Callable[[Any], Any]:
    return lambda model: pb.override({model.layers[0]: rule})(model)


MODELS: dict[str, Callable[[Any], Any]] = {
    "op": lambda model: pb.override({"Relu": tenfold})(model),
    "function": lambda model: pb.override({tf.nn.relu: tenfold})(model),
    "layer": of_first(tenfold),
    "rule for weights": of_first(for_weights),
    "rule in NumPy": of_first(by_numpy),
    "op in NumPy": lambda model: pb.override({"Relu": by_numpy})(model),
    "part of a model": lambda model: keras.Sequential(
        [keras.Input((3,)), pb.override({"Relu": tenfold})(model), keras.layers.Dense(2)]
    ),
    "with_gradient": lambda model: pb.with_gradient(model, for_weights),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_keras_model_is_converted(name: str) -> None:
    model = MODELS[name](plain())
    wanted = model(X)
    written = tf.lite.TFLiteConverter.from_keras_model(model).convert()
    interpreter = tf.lite.Interpreter(model_content=written)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], X)
    interpreter.invoke()
    found = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_model_that_was_converted_keeps_its_gradient_and_is_exported_with_it(
    tmp_path: Any,
) -> None:
    model = plain()
    changed = pb.override({tf.nn.relu: pb.rules.scale(0.0)})(model)
    tf.lite.TFLiteConverter.from_keras_model(changed).convert()
    changed.export(tmp_path / "model", verbose=False)
    loaded: Any = tf.saved_model.load(str(tmp_path / "model"))
    for function in (changed, loaded.serve):
        x = tf.Variable(X)
        with tf.GradientTape() as tape:
            y = function(x)
        assert not np.any(tape.gradient(y, x))
