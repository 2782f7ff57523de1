"""Checkpoints of Keras layers with masks and with several arguments, against the layers themselves."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

IDS = tf.constant([[1, 2, 0, 0], [3, 4, 1, 0]])
RUNS: dict[str, Callable[..., Any]] = {
    "eager": lambda step: step,
    "graph": tf.function,
    "XLA": lambda step: tf.function(step, jit_compile=True),
}
WRAPS = {"function": pb.functions.checkpoint, "layer": pb.keras.Checkpoint}
LAYERS = {
    "ends the mask": lambda: keras.layers.LSTM(3),
    "passes it on": lambda: keras.layers.LSTM(3, return_sequences=True),
    "makes one": lambda: keras.layers.Masking(0.1),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_masks_go_in_and_come_out(make: Any, wrap: Any, run: Any) -> None:
    embedding, layer = keras.layers.Embedding(5, 4, mask_zero=True), make()
    layer(embedding(IDS))

    def step(called: Any) -> Any:
        with tf.GradientTape() as tape:
            y = called(embedding(IDS))
            total = tf.reduce_sum(y**2)
        mask = getattr(y, "_keras_mask", None)
        return y, tf.convert_to_tensor(tape.gradient(total, embedding.embeddings.value)), mask

    wanted, found = step(layer), run(lambda: step(wrap(layer)))()
    for one, other in zip(found[:2], wanted[:2], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert (found[2] is None) == (wanted[2] is None)
    if wanted[2] is not None:
        np.testing.assert_array_equal(found[2], wanted[2])


def test_the_layer_supports_what_its_layer_does() -> None:
    assert pb.keras.Checkpoint(keras.layers.LSTM(3)).supports_masking
    assert not pb.keras.Checkpoint(keras.layers.Flatten()).supports_masking


def test_a_layer_of_several_arguments_that_saves(tmp_path: Path) -> None:
    attention = keras.layers.MultiHeadAttention(2, 3)
    around = pb.keras.Checkpoint(attention)
    q, v = (tf.random.stateless_normal([2, n, 4], [n, 1]) for n in (3, 5))
    np.testing.assert_allclose(around(q, v), attention(q, v), rtol=1e-5)
    scores = around(q, value=v, return_attention_scores=True)[1]
    np.testing.assert_allclose(scores, attention(q, v, return_attention_scores=True)[1], rtol=1e-5)
    inputs = [keras.Input([3, 4]), keras.Input([5, 4])]
    inside = keras.layers.MultiHeadAttention(2, 3)
    model = keras.Model(inputs, pb.keras.Checkpoint(inside)(*inputs))
    assert model.output_shape == (None, 3, 4)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again([q, v]), inside(q, v), rtol=1e-5)


def test_a_layer_that_builds_itself_in_its_call() -> None:
    class Own(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(2)

        def call(self, x: Any, scale: float = 1.0) -> Any:
            return self.dense(x) * scale

    layer = Own()
    y = pb.keras.Checkpoint(layer)(tf.ones([1, 3]), scale=2.0)
    np.testing.assert_allclose(y, 2.0 * np.sum(layer.dense.kernel, 0, keepdims=True), rtol=1e-6)
