"""Ready-made rules on layers with `weights=True` change the gradients of the weights too, and the audit says so."""

import pickle
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import RuleSignatureError

X = np.random.default_rng(0).normal(size=(5, 3)).astype("f")
Y = 1e3 * np.random.default_rng(1).normal(size=(5, 2)).astype("f")
KERNEL = np.random.default_rng(2).normal(size=(3, 2)).astype("f")
R = pb.rules
Gradients = tuple[Any, Any]  # of the kernel and of the bias


def layer_and_model() -> tuple[Any, Any]:
    layer = keras.layers.Dense(2)
    model = keras.Sequential([keras.Input((3,)), layer])
    layer.kernel.assign(KERNEL)
    return layer, model


def ordinary() -> Gradients:
    """Of the mean of squares, by hand."""
    upstream = 2.0 * (X.astype("d") @ KERNEL - Y) / Y.size
    return X.T @ upstream, upstream.sum(0)


def no_longer_than(limit: float) -> Callable[[Any], Any]:
    return lambda g: g * min(1.0, limit / np.linalg.norm(g))


def together(limit: float) -> Callable[[Any], Any]:
    dx = 2.0 * (X.astype("d") @ KERNEL - Y) / Y.size @ KERNEL.T
    length = np.sqrt(sum(np.sum(g**2) for g in (dx, *ordinary())))
    return lambda g: g * limit / length


CASES: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "value": (R.clip(value=1.0, weights=True), lambda g: np.clip(g, -1, 1)),
    "norm": (R.clip(norm=0.5, weights=True), no_longer_than(0.5)),
    "scale": (R.scale(0.0, weights=True), lambda g: 0.0 * g),
    "reverse": (R.reverse(2.0, weights=True), lambda g: -2.0 * g),
    "noise": (R.noise(0.0, weights=True), lambda g: g),
    "nan": (R.nan_to_zero(weights=True), lambda g: g),
    "not for weights": (R.scale(0.0, weights=False), lambda g: g),
    "nor by itself": (R.scale(0.0), lambda g: g),
    "again": (R.nan_to_zero(weights=True)(weights=False), lambda g: g),
}
WAYS: dict[str, dict[str, Any]] = {
    "graph": {}, "eager": {"run_eagerly": True}, "xla": {"jit_compile": True},
}  # fmt: skip


def moved(layer: Any, model: Any, **options: Any) -> Gradients:
    model.compile(keras.optimizers.SGD(1.0), "mse", **options)
    model.fit(X, Y, batch_size=5, verbose=0)
    kernel, bias = layer.get_weights()
    return KERNEL - kernel, -bias


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASES)
def test_weights_move_by_what_the_rule_makes_of_their_gradients(name: str, way: str) -> None:
    rule, meant = CASES[name]
    layer, model = layer_and_model()
    found = moved(layer, pb.override({layer: rule})(model), **WAYS[way])
    for one, gradient in zip(found, ordinary(), strict=True):
        np.testing.assert_allclose(one, meant(gradient), rtol=1e-4, atol=1e-4)


def test_the_length_of_all_together_is_that_of_inputs_and_weights() -> None:
    layer, model = layer_and_model()
    changed = pb.override({layer: R.clip(global_norm=1.0, weights=True)})(model)
    with tf.GradientTape() as tape:
        x = tf.constant(X)
        tape.watch(x)
        loss = tf.reduce_mean(tf.square(changed(x) - Y))
    found = tape.gradient(loss, [w.value for w in layer.trainable_weights])
    for one, gradient in zip(found, ordinary(), strict=True):
        np.testing.assert_allclose(one, together(1.0)(gradient), rtol=1e-4)


@pytest.mark.parametrize("options", WAYS.values())
@pytest.mark.parametrize(
    ("rule", "said", "counts"),
    [
        (R.clip(norm=1.0, weights=True), "; it is for 2 weights too", (2, 0)),
        (R.clip(norm=1.0), "; 2 weights of these layers keep their ordinary gradient", (0, 2)),
    ],
)
def test_the_audit_says_whether_weights_were_reached(
    rule: Any, said: str, counts: tuple[int, int], options: dict[str, Any]
) -> None:
    layer, model = layer_and_model()
    changed = pb.override({layer: rule})
    moved(layer, changed(model), **options)
    row = changed.audit.rows[0]
    assert (row.weights, row.ordinary_weights) == counts
    assert said in str(changed.audit)


def test_of_layers_without_weights_and_of_functions_it_says_nothing() -> None:
    changed = pb.override({tf.nn.relu: R.scale(2.0), keras.layers.ReLU: R.scale(2.0)})
    layer = keras.layers.ReLU()  # which runs tf.nn.relu
    with changed, tf.GradientTape() as tape:
        x = tf.Variable([1.0])
        y = layer(tf.nn.relu(x) + x)
    assert tape.gradient(y, x).numpy() == [2 * 2 * (2 + 1)]
    assert [(row.weights, row.ordinary_weights) for row in changed.audit.rows] == [(0, 0), (0, 0)]
    assert "ordinary gradient" not in str(changed.audit)


def test_a_rule_for_weights_on_an_op_is_refused() -> None:
    with pytest.raises(RuleSignatureError, match="which only functions and layers read"):
        pb.override({"MatMul": R.clip(norm=1.0, weights=True)})


@pytest.mark.parametrize("rule", [R.clip(norm=1.0, weights=True), R.nan_to_zero(weights=True)])
def test_it_pickles_and_is_read_from_files(rule: Any, tmp_path: Any) -> None:
    assert repr(pickle.loads(pickle.dumps(rule))) == repr(rule)
    assert "weights=True" in repr(rule)
    layer, model = layer_and_model()
    pb.override({layer: rule})(model).save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    again = loaded.layers[0]
    found = moved(again, loaded)
    plain = ordinary()[0]
    wanted = no_longer_than(1.0)(plain) if "clip" in repr(rule) else plain
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4)
