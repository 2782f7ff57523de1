"""Models without a loss whose outputs have a constant sum: a softmax, a normalisation."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

X = np.random.default_rng(7).normal(size=(6, 5)).astype("float32")


def model_ending_in(*layers: Any) -> keras.Sequential:
    keras.utils.set_random_seed(11)
    return keras.Sequential([keras.Input((5,)), keras.layers.Dense(4, "tanh"), *layers])


def of_weighted_sum(model: Any) -> list[float]:
    """The largest entries of the gradients of the documented sum, by a tape alone."""
    with tf.GradientTape() as tape:
        y = model(X)
        weights = 1 + np.cos(np.arange(np.prod(y.shape))).reshape(y.shape) / 2
        total = tf.reduce_sum(y * weights.astype("float32"))
    return [float(tf.reduce_max(abs(g))) for g in tape.gradient(total, model.trainable_variables)]


def sizes(flow: Any) -> list[float]:
    return [s.gradient.max for s in flow.sources if s.kind == "variable"]


@pytest.mark.parametrize("name", ["softmax", "normalised"])
def test_outputs_of_a_constant_sum_are_weighted(name: str) -> None:
    norm = keras.layers.LayerNormalization(center=False, scale=False)
    last = [keras.layers.Dense(3, "softmax")] if name == "softmax" else [norm]
    model = model_ending_in(*last)
    flow = pb.explain(model, X)
    assert len(flow.notes) == 1
    assert flow.notes[0].startswith("no loss was given")
    np.testing.assert_allclose(sizes(flow), of_weighted_sum(model), rtol=1e-4)
    assert min(sizes(flow)) > 1e-3


def test_a_saved_classifier_is_weighted(tmp_path: Path) -> None:
    model = model_ending_in(keras.layers.Dense(3, "softmax"))
    model.export(tmp_path / "saved", verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    flow = pb.explain(loaded.serve, tf.constant(X))
    assert flow.notes[0].startswith("no loss was given")
    assert sorted(sizes(flow)) == pytest.approx(sorted(of_weighted_sum(model)), rel=1e-4)


def test_one_head_of_a_constant_sum_is_enough() -> None:
    inputs = keras.Input((5,))
    hidden = keras.layers.Dense(4, "tanh")(inputs)
    heads = [keras.layers.Dense(3, "softmax")(hidden), keras.layers.Dense(1)(hidden)]
    flow = pb.explain(keras.Model(inputs, heads), X)
    assert min(sizes(flow)) > 1e-3


@pytest.mark.parametrize("name", ["logits", "loss", "function"])
def test_other_gradients_stay_plain(name: str) -> None:
    model = model_ending_in(keras.layers.Dense(3, "softmax"))
    explained = {
        "logits": lambda: pb.explain(model_ending_in(keras.layers.Dense(3)), X),
        "loss": lambda: pb.explain(model, X, loss=tf.reduce_sum),
        "function": lambda: pb.explain(lambda x: model(x), X),
    }
    flow = explained[name]()
    assert flow.notes == ()
    assert (max(sizes(flow)) < 1e-5) == (name != "logits")


def test_a_saturated_softmax_is_still_told() -> None:
    model = model_ending_in(keras.layers.Dense(3, "softmax"))
    model.layers[-1].bias.assign([500.0, 0.0, 0.0])
    flow = pb.explain(model, X)
    assert flow.notes == ()
    assert "is saturated" in flow.why(model.layers[-1].kernel)


def test_a_model_in_half_precision_is_weighted() -> None:
    keras.utils.set_random_seed(5)
    layers = [keras.layers.Dense(4, dtype="bfloat16"), keras.layers.Softmax(dtype="bfloat16")]
    flow = pb.explain(keras.Sequential([keras.Input((5,)), *layers]), X)
    assert flow.notes[0].startswith("no loss was given")
