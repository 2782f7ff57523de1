"""Graphs without Python source: a gradient that was loaded stays, and a changed one is not written to a file."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import ExportError
from tests.override.helpers import tenfold

X = tf.constant(np.random.default_rng(0).normal(size=(2, 3)), tf.float32)
SPEC = [tf.TensorSpec([2, 3])]


def plain() -> Any:
    layers = [keras.layers.Dense(4, activation="relu"), keras.layers.Dense(2)]
    return keras.Sequential([keras.Input((3,)), *layers])


def gradient(function: Callable[[Any], Any]) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = function(X)
    return tape.gradient(y, X)


ALIVE: list[Any] = []  # a function does not keep the variables that it reads


def loaded(path: Any) -> Any:
    plain().export(path, verbose=False)
    ALIVE.append(tf.saved_model.load(str(path)))
    return ALIVE[-1]


def layer(path: Any) -> Any:
    plain().export(path, verbose=False)
    return keras.layers.TFSMLayer(str(path), call_endpoint="serve")


def concrete(_: Any) -> Any:
    ALIVE.append(plain())
    return tf.function(ALIVE[-1]).get_concrete_function(*SPEC)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "loaded": lambda path: loaded(path).serve,
    "called": lambda path: loaded(path).serve.__call__,
    "signature": lambda path: (lambda signature: lambda x: signature(x)["output_0"])(
        loaded(path).signatures["serving_default"]
    ),
    "layer": layer,
    "model": lambda path: keras.Sequential([keras.Input((3,)), layer(path)]),
    "concrete": concrete,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_cannot_be_written_is_refused_with_the_reason(name: str, tmp_path: Any) -> None:
    function = FUNCTIONS[name](tmp_path / "first")
    changed = pb.override({"Relu": tenfold})(function)
    np.testing.assert_allclose(gradient(changed), 10 * gradient(function), rtol=1e-5)
    with pytest.raises(ExportError, match="has no Python source here") as refused:
        pb.export(changed, tmp_path / "second", signature=SPEC)
    assert "pb.export" not in str(refused.value)


def test_nor_does_tensorflow_write_it(tmp_path: Any) -> None:
    module: Any = tf.Module()
    module.inner = loaded(tmp_path / "first")
    module.serve = tf.function(pb.override({"Relu": tenfold})(module.inner.serve), SPEC)
    with pytest.raises(ExportError, match="in a graph that has no Python source here"):
        tf.saved_model.save(module, str(tmp_path / "second"))


def test_where_the_override_is_elsewhere_the_model_is_exported(tmp_path: Any) -> None:
    first = keras.layers.Dense(3)
    model = keras.Sequential([keras.Input((3,)), first, layer(tmp_path / "first")])
    changed = pb.override({first: pb.rules.scale(10.0)})(model)
    pb.export(changed, tmp_path / "second", signature=SPEC)
    again: Any = tf.saved_model.load(str(tmp_path / "second"))
    np.testing.assert_allclose(gradient(again.serve), 10 * gradient(model), rtol=1e-5)


@pytest.mark.parametrize("op_type", ["Relu", "MatMul", "BiasAdd"])
def test_an_exported_gradient_is_kept_under_an_override(op_type: str, tmp_path: Any) -> None:
    model = plain()
    pb.export(pb.override({"Relu": pb.rules.scale(10.0)})(model), tmp_path / "model")
    again: Any = tf.saved_model.load(str(tmp_path / "model"))
    with pb.override({op_type: pb.rules.scale(2.0)}, strict=False):
        found = gradient(again.serve)
    factor = {"Relu": 10, "MatMul": 10 * 2 * 2, "BiasAdd": 10 * 2 * 2}[op_type]
    np.testing.assert_allclose(found, factor * gradient(model).numpy(), rtol=1e-5)
