"""The way of integrated gradients: what its ends have in common, and where more steps are of no use."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb


def _masked() -> Any:
    keras.utils.set_random_seed(0)
    inputs = keras.Input((7,), dtype="int32")
    table = keras.layers.Embedding(50, 8, mask_zero=True)(inputs)
    return keras.Model(inputs, keras.layers.Dense(1)(keras.layers.LSTM(6)(table)))


def test_both_ends_have_the_mask_of_x() -> None:
    model, x = _masked(), np.random.default_rng(0).integers(1, 50, (3, 7))
    found = pb.saliency(model, x, 0, baseline=0)
    _, table, *rest = model.layers
    zeros = table(np.zeros_like(x))
    zeros._keras_mask = None
    unmasked = keras.Sequential(rest)(zeros)  # x has no padding: nothing is masked
    np.testing.assert_allclose(found.values.sum(1), (model(x) - unmasked)[:, 0], rtol=0.02)
    assert found.gap.max() < 0.01
    assert "masks are those of x" in found.note


def test_steps_that_are_of_no_use_are_not_taken() -> None:
    doubled = tf.custom_gradient(lambda x: (x * x, lambda dy: 4 * dy * x))

    with pytest.warns(UserWarning, match="more steps do not change that"):
        found = pb.saliency(
            lambda x: tf.reduce_sum(doubled(x), 1, keepdims=True), np.ones((2, 3), "f"), 0, steps=8
        )
    assert found.steps == 32
    np.testing.assert_allclose(found.gap, 1.0, rtol=1e-5)


def test_steps_that_are_too_few_are_said_to_be() -> None:
    with pytest.warns(UserWarning, match="raise max_steps="):
        pb.saliency(
            lambda x: tf.nn.relu(x - 0.9),
            np.ones((1, 1), "f"),
            0,
            steps=2,
            max_steps=4,
            tolerance=1e-6,
        )
