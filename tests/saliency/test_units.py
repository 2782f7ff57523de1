"""Relevance where a model puts its input into another unit: the map is that of the network behind it."""

from typing import Any

import keras
import numpy as np
import pytest

import pullback as pb

_SHAPE = (6, 5, 3)


def _normalization() -> Any:
    return keras.layers.Normalization(mean=[0.5, 0.4, 0.3], variance=[0.2, 0.3, 0.4])


def _rescaling() -> Any:
    return keras.layers.Rescaling(2.0, -1.0)


def _convolutional() -> list[Any]:
    return [
        keras.layers.Conv2D(4, 3, activation="relu", bias_initializer="ones"),
        keras.layers.Flatten(),
        keras.layers.Dense(2),
    ]


def _recurrent() -> list[Any]:
    return [keras.layers.Reshape((6, 15)), keras.layers.LSTM(3), keras.layers.Dense(2)]


@pytest.mark.parametrize("network", [_convolutional, _recurrent])
@pytest.mark.parametrize("unit", [_rescaling, _normalization])
def test_map_is_that_of_the_network_behind_a_change_of_unit(network: Any, unit: Any) -> None:
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).uniform(0, 1, (2, *_SHAPE)).astype("float32")
    change, layers = unit(), network()
    behind = keras.Sequential([keras.Input(_SHAPE), *layers])
    model = keras.Sequential([keras.Input(_SHAPE), change, *layers])
    wanted = pb.saliency(behind, change(x), 0, "lrp")
    found = pb.saliency(model, x, 0, "lrp")
    np.testing.assert_allclose(found.values, wanted.values, rtol=1e-4, atol=1e-6)
    assert found.gap.max() < 1e-4


def test_whole_numbers_are_put_into_another_unit() -> None:
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).integers(0, 256, (2, *_SHAPE)).astype("uint8")
    change, layers = keras.layers.Rescaling(1 / 127.5, -1.0), _convolutional()
    behind = keras.Sequential([keras.Input(_SHAPE), *layers])
    model = keras.Sequential([keras.Input(_SHAPE, dtype="uint8"), change, *layers])
    wanted = pb.saliency(behind, change(x), 0, "lrp").values
    np.testing.assert_allclose(pb.saliency(model, x, 0, "lrp").values, wanted, rtol=1e-4, atol=1e-6)


def test_positions_that_were_learnt_are_no_unit_of_what_is_looked_up() -> None:
    keras.utils.set_random_seed(0)
    places = np.ones((4, 3), "float32")
    inputs = keras.Input((4,), dtype="int32")
    table = keras.layers.Embedding(9, 3)(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Flatten()(table + places)))
    x = np.random.default_rng(0).integers(0, 9, (2, 4))
    kernel = model.layers[-1].kernel.numpy().reshape(4, 3)
    wanted = (model.layers[1].embeddings.numpy()[x] * kernel).sum(-1)
    np.testing.assert_allclose(pb.saliency(model, x, 0, "lrp").values, wanted, rtol=1e-3, atol=1e-5)
