"""What is said about maps that are of no use: NaN, and zero everywhere."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb


@pytest.mark.parametrize("method", ["gradient", "integrated", "lrp"])
def test_a_map_that_is_not_finite_is_a_warning(method: str) -> None:
    x = np.ones((3, 2), "f")
    x[1, 0] = np.nan
    with pytest.warns(UserWarning, match="not finite, of example 1:"):
        found = pb.saliency(lambda x: tf.nn.tanh(x @ tf.ones((2, 2))) ** 2, x, 0, method)
    assert "not finite" in found.note


def test_a_gap_is_said_beside_a_map_that_is_not_finite() -> None:
    x = np.array([[np.nan], [1.0]], "f")
    with pytest.warns(UserWarning, match="not finite"), pytest.warns(UserWarning, match="raise"):
        pb.saliency(lambda x: tf.nn.relu(x - 0.9), x, 0, steps=2, max_steps=4, tolerance=1e-6)


def test_what_the_stabiliser_took_counted() -> None:
    ones = keras.layers.Dense(1, kernel_initializer="zeros", bias_initializer="ones")
    model = keras.Sequential([keras.Input((3,)), ones])
    note = pb.saliency(model, np.ones((2, 3), "f"), 0, "lrp").note
    assert "zero everywhere: biases and stabilisers took all, see .leaks" in note
    assert "nothing counts" not in note


def test_nothing_counts_where_nothing_was_taken() -> None:
    found = pb.saliency(lambda x: tf.nn.relu(x), -np.ones((2, 3), "f"), 0, "gradient")
    assert "nothing counts for this target" in found.note
