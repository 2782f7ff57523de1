"""Which layer Grad-CAM takes where none is named: one whose own output has the examples in front, and places."""

from typing import Any

import keras
import numpy as np
import pytest

import pullback as pb
from pullback.errors import SaliencyError

L = keras.layers
WORDS = 30


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape).astype("f")


def vit() -> Any:
    x = keras.Input((16, 16, 3))
    y = L.Reshape((16, 8))(L.Conv2D(8, 4, 4, name="patches")(x))
    y = y + L.MultiHeadAttention(2, 4)(y, y)
    return keras.Model(x, L.Dense(3)(L.GlobalAveragePooling1D()(y)))


def vit_by_hand() -> Any:
    """Attention of layers that are the model's own: the axis of heads is no axis of places."""
    x = keras.Input((16, 16, 3))
    y = L.Reshape((16, 8))(L.Conv2D(8, 4, 4, name="patches")(x))
    q, k = (L.Reshape((16, 2, 4))(L.Dense(8)(y)) for _ in range(2))
    v = L.EinsumDense("btc,chd->bthd", (None, 2, 4))(y)
    weights = L.Softmax()(keras.ops.einsum("bihd,bjhd->bhij", q, k))
    y = L.Reshape((16, 8))(keras.ops.einsum("bhij,bjhd->bihd", weights, v))
    return keras.Model(x, L.Dense(3)(L.GlobalAveragePooling1D()(y)))


@pytest.mark.parametrize("make", [vit, vit_by_hand])
def test_the_inside_of_attention_is_no_image(make: Any) -> None:
    model, x = make(), drawn(2, 16, 16, 3)
    found = pb.saliency(model, x, 1, "gradcam")
    assert "layer: patches" in found.note
    expected = pb.saliency(model, x, 1, "gradcam", "patches").values
    np.testing.assert_allclose(found.values, expected, atol=1e-6)


def test_without_a_convolution_attention_is_refused() -> None:
    x = keras.Input((4, 4, 3))
    y = L.Reshape((16, 3))(x)
    y = L.MultiHeadAttention(2, 4)(y, y)
    model = keras.Model(x, L.Dense(3)(L.GlobalAveragePooling1D()(y)))
    with pytest.raises(SaliencyError, match=r"no features of this model have places(.|\n)*layer="):
        pb.saliency(model, drawn(2, 4, 4, 3), 1, "gradcam")


def recurrent(sequences: bool) -> Any:
    x = keras.Input((7,), dtype="int32")
    y = L.Embedding(WORDS, 8, name="words")(x)
    if sequences:
        y = L.GRU(5, return_sequences=True, name="steps")(y)
    return keras.Model(x, L.Dense(2)(L.LSTM(6)(y)))


@pytest.mark.parametrize(("sequences", "layer"), [(False, "words"), (True, "steps")])
def test_recurrent_layers_give_one_map_for_each_example(sequences: bool, layer: str) -> None:
    model, x = recurrent(sequences), np.random.default_rng(0).integers(1, WORDS, (3, 7))
    found = pb.saliency(model, x, 0, "gradcam")
    assert found.values.shape == (3, 7)
    assert f"layer: {layer}" in found.note
    other = x.copy()
    other[2] = other[2] % (WORDS - 2) + 1
    assert (other[2] != x[2]).any()
    maps = [pb.saliency(model, each, 0, "guided_gradcam").values for each in (x, other)]
    np.testing.assert_allclose(maps[0][:2], maps[1][:2], atol=1e-6)


@pytest.mark.parametrize("method", ["gradcam", "guided_gradcam"])
@pytest.mark.parametrize("count", [3, 4])
def test_steps_on_their_own_are_refused(method: str, count: int) -> None:
    x = keras.Input((4, 6, 6, 1))
    frame = keras.Sequential([L.Conv2D(3, 3, activation="relu"), L.GlobalAveragePooling2D()])
    y = L.GlobalAveragePooling1D()(L.TimeDistributed(frame)(x))
    model = keras.Model(x, L.Dense(2)(y))
    with pytest.raises(SaliencyError, match=r"inside TimeDistributed(.|\n)*layer="):
        pb.saliency(model, drawn(count, 4, 6, 6, 1), 0, method)


def test_a_named_layer_must_have_the_examples_in_front() -> None:
    x = keras.Input((6, 6, 2))
    halves = L.Conv2D(3, 3, name="halves")
    y: Any = keras.ops.concatenate([x, keras.ops.negative(x)], axis=0)
    both: Any = keras.ops.split(L.GlobalAveragePooling2D()(halves(y)), 2, axis=0)
    model = keras.Model(x, L.Dense(2)(both[0] - both[1]))
    with pytest.raises(SaliencyError, match="first axis is not that of the examples"):
        pb.saliency(model, drawn(3, 6, 6, 2), 0, "gradcam", "halves")


@pytest.mark.parametrize("end", ["inside", "after", "none"])
def test_the_end_of_a_segmentation_is_not_its_features(end: str) -> None:
    layers = [L.Conv2D(4, 3, activation="relu", name="last_features")]
    layers += [L.Conv2D(2, 1, activation="softmax" if end == "inside" else None)]
    layers += [L.Activation("softmax")] if end == "after" else []
    model = keras.Sequential([keras.Input((8, 8, 3)), *layers])
    x, target = drawn(2, 8, 8, 3), (slice(None), slice(None), 1)
    found = pb.saliency(model, x, target, "gradcam")
    assert "last_features, the last with features" in found.note
    expected = pb.saliency(model, x, target, "gradcam", "last_features").values
    np.testing.assert_allclose(found.values, expected, atol=1e-6)
