"""Ready-made functions as nodes of functional models, in memory and in `.keras` files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import ExportError

f = pb.functions
ROWS = np.random.default_rng(0).uniform(0.5, 2.0, [2, 3, 3]).astype("f")
SYMMETRIC = (ROWS + np.transpose(ROWS, [0, 2, 1])).astype("f") + 4.0 * np.eye(3, dtype="f")
LABELS = np.array([[0, 1, 2], [2, 1, 0]], "int32")

CASES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "norm": (lambda x: f.norm(x, axis=-1), [ROWS]),
    "rms_norm": (f.rms_norm, [ROWS]),
    "layer_norm": (lambda x: f.layer_norm(x, epsilon=1e-3), [ROWS]),
    "gelu": (lambda x: f.gelu(x, approximate=True), [ROWS]),
    "polar": (lambda x: f.polar(x)[0], [SYMMETRIC]),
    "eigh": (lambda x: f.eigh(x)[0], [SYMMETRIC]),
    "logaddexp": (f.logaddexp, [ROWS, SYMMETRIC]),
    "attention": (lambda q: f.attention(q, q, q, causal=True), [ROWS]),
    "attention with a mask": (lambda q, m: f.attention(q, q, q, m), [ROWS, ROWS > 1.0]),
    "linear_cross_entropy": (
        lambda x, y: f.linear_cross_entropy(x, np.eye(3, dtype="f"), y, reduction="none"),
        [ROWS, LABELS],
    ),
    "sparse_categorical_cross_entropy": (
        lambda x, y: f.sparse_categorical_cross_entropy(y, x, from_logits=True),
        [ROWS, LABELS],
    ),
}
WITH_CODE: dict[str, Callable[..., Any]] = {
    "funm": lambda x: f.funm(x, tf.exp),
    "safe_where": lambda x: f.safe_where(x > 1.0, tf.math.log, tf.zeros_like, x),
    "score": lambda x: f.attention(x, x, x, score=lambda s, q, k: 2.0 * s),
    "external": f.external(np.sin, rule="differences"),
}


def model_of(function: Callable[..., Any], arrays: list[Any]) -> Any:
    inputs = [keras.Input(a.shape[1:], dtype=a.dtype.name) for a in arrays]
    return keras.Model(inputs, function(*inputs))


@pytest.mark.parametrize("name", CASES)
def test_a_model_is_saved_and_loaded(name: str, tmp_path: Path) -> None:
    function, arrays = CASES[name]
    model = model_of(function, arrays)
    wanted = function(*map(tf.constant, arrays))
    np.testing.assert_allclose(model(arrays), wanted, rtol=1e-5, atol=1e-6)
    model.save(tmp_path / "model.keras")
    loaded: Any = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(arrays), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", WITH_CODE)
def test_code_in_a_model_runs_and_is_not_saved(name: str, tmp_path: Path) -> None:
    model = model_of(WITH_CODE[name], [SYMMETRIC])
    wanted = WITH_CODE[name](tf.constant(SYMMETRIC))
    np.testing.assert_allclose(model(SYMMETRIC), wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(ExportError, match=r"cannot be written to a .keras file.*layer of your own"):
        model.save(tmp_path / "model.keras")


def by_name(x: Any) -> Any:
    return 2.0 * x


by_name = f.external(by_name, rule=lambda dy: 2.0 * dy)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_external_code_that_is_found_by_its_name_is_saved(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="by_name is not registered"):
        model_of(by_name, [ROWS]).save(tmp_path / "model.keras")
    loaded: Any = keras.models.load_model(
        tmp_path / "model.keras", custom_objects={"by_name": by_name}
    )
    np.testing.assert_allclose(loaded(ROWS), 2.0 * ROWS)


def dense() -> Any:
    return keras.layers.Dense(4)


def reversed_pair(x: Any) -> Any:
    one, two = pb.functions.reversible(dense(), dense())(x, x)
    return one + two


def settled(x: Any) -> Any:
    inner = dense()
    return pb.functions.fixed_point(lambda z, v: tf.tanh(0.1 * inner(z) + v), x, x)


def flowing(x: Any) -> Any:
    inner = dense()
    return pb.functions.odeint(lambda y, t: inner(y), x, [0.0, 1.0])[-1]


def ruled(x: Any) -> Any:
    inner = dense()
    return pb.with_gradient(lambda v: inner(v), lambda dy: 2.0 * dy)(x)


AROUND_LAYERS = {
    "reversible": (reversed_pair, 4),
    "fixed_point": (settled, 2),
    "odeint": (flowing, 2),
    "checkpoint": (lambda x: pb.functions.checkpoint(dense())(x), 2),
    "with_gradient": (ruled, 2),
}


@pytest.mark.parametrize("name", AROUND_LAYERS)
def test_layers_inside_of_a_node_are_trained(name: str) -> None:
    make, count = AROUND_LAYERS[name]
    x = keras.Input([4])
    model = keras.Model(x, keras.layers.Dense(1)(make(x)))
    assert len(model.trainable_variables) == count + 2
    before = [v.numpy() for v in model.trainable_variables]
    model.compile("sgd", "mse")
    data = np.random.default_rng(0).normal(size=[8, 4]).astype(np.float32)
    model.fit(data, data[:, :1], verbose=0)
    moved = [
        np.any(v.numpy() != old) for v, old in zip(model.trainable_variables, before, strict=True)
    ]
    assert all(moved)
