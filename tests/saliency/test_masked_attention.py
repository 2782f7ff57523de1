"""Relevance through attention with padding: masks take nothing, and all adds up."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb


def _tokens() -> np.ndarray:
    x = np.random.default_rng(0).integers(1, 50, (3, 7))
    x[:, 5:] = 0
    return x


@pytest.mark.parametrize("flash", [False, None])
def test_padding_takes_nothing(flash: Any) -> None:
    keras.utils.set_random_seed(0)
    inputs = keras.Input((7,), dtype="int32")
    table = keras.layers.Embedding(50, 8, mask_zero=True)(inputs)
    attention = keras.layers.MultiHeadAttention(2, 4, flash_attention=flash)
    outputs = keras.layers.Dense(2)(keras.layers.Flatten()(table + attention(table, table)))
    found = pb.saliency(keras.Model(inputs, outputs), _tokens(), 0, "lrp")
    assert found.gap.max() < 1e-5
    assert max(np.abs(each).max() for each in found.leaks.values()) < 1


@pytest.mark.parametrize("low", [-1e4, -1e9, -np.inf])
@pytest.mark.parametrize("is_added", [True, False])
def test_masks_made_by_hand(low: float, is_added: bool) -> None:
    """Of a row with all keys masked, −∞ makes NaN in any model: there, only keys are masked."""
    rng = np.random.default_rng(0)
    x = tf.constant(rng.normal(size=(3, 4, 5)), tf.float32)
    seen = np.ones((3, 4, 4), bool)
    seen[:, :, 3] = False
    seen[:, 3] &= not np.isfinite(low)
    kernel = tf.constant(rng.normal(size=(4 * 5, 2)), tf.float32)

    def model(x: Any) -> Any:
        scores = tf.matmul(x, x, transpose_b=True)
        added = tf.constant(np.where(seen, 0.0, low), tf.float32)
        masked = scores + added if is_added else tf.where(seen, scores, low)
        return tf.reshape(tf.matmul(tf.nn.softmax(masked), x), [-1, 20]) @ kernel

    found = pb.saliency(model, x, 0, "lrp")
    assert np.isfinite(found.values).all()
    assert found.gap.max() < 1e-5
