"""Inputs, targets, layers and outputs in every form in which they may come."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from tests.saliency.models import (
    SHAPE,
    Subclassed,
    by_hand,
    images,
    network,
    randomised,
    text_model,
    tokens,
)

layers = keras.layers
CLOSE: dict[str, float] = {"rtol": 1e-5, "atol": 1e-6}


def logit_gradient(model: Any, x: Any, score: Any) -> Any:
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        found = score(by_hand(model, x, tf.nn.relu)[1])
    return tape.gradient(found, x).numpy()


TARGETS: dict[str, tuple[Any, Any]] = {
    "a number": (1, lambda y: y[:, 1]),
    "one for each": ([0, 3, 1], lambda y: tf.gather(y, [0, 3, 1], batch_dims=1)),
    "an array": (np.array([2, 2, 0]), lambda y: tf.gather(y, [2, 2, 0], batch_dims=1)),
    "an index": ((3,), lambda y: y[:, 3]),
    "a slice": ((slice(1, 3),), lambda y: y[:, 1] + y[:, 2]),
    "a function": (lambda y: y[:, 0] - y[:, 2], lambda y: y[:, 0] - y[:, 2]),
    "the largest": (None, lambda y: tf.reduce_max(y, 1)),
}


@pytest.mark.parametrize("name", TARGETS)
def test_targets(name: str) -> None:
    model, x = network(), images()
    target, score = TARGETS[name]
    found = pb.saliency(model, x, target, "gradient")
    np.testing.assert_allclose(found.values, logit_gradient(model, x, score), **CLOSE)


def test_the_largest_score_is_said_and_kept_along_the_way() -> None:
    model, x = network(), images()
    chosen = model(x).numpy().argmax(1)
    found = pb.saliency(model, x, method="integrated")
    np.testing.assert_array_equal(found.target, chosen)
    assert f"largest score of each example, {', '.join(map(str, chosen))}" in found.note
    again = pb.saliency(model, x, chosen, "integrated")
    np.testing.assert_allclose(found.values, again.values, **CLOSE)


def in_dense() -> Any:
    return network(last="softmax")


def in_a_layer() -> Any:
    model = network(last=None)
    return keras.Sequential([keras.Input(SHAPE), *model.layers, layers.Softmax()], name="net")


def in_a_nested_model() -> Any:
    x = keras.Input(SHAPE)
    return keras.Model(x, layers.Activation("linear")(network()(x)))


def in_a_function() -> Any:
    model = network(last=None)
    return lambda x: tf.identity(tf.nn.softmax(model(x)))


def in_mixed_precision() -> Any:
    model = network(last=None)
    return lambda x: tf.cast(tf.nn.softmax(tf.cast(model(x), "float64")), "float32")


@pytest.mark.parametrize(
    "make", [in_dense, in_a_layer, in_a_nested_model, in_a_function, in_mixed_precision]
)
def test_a_softmax_is_looked_through(make: Any) -> None:
    model, x = make(), images()
    expected = logit_gradient(network(), x, lambda y: y[:, 1])
    found = pb.saliency(model, x, 1, "gradient")
    np.testing.assert_allclose(found.values, expected, **CLOSE)
    assert "softmax in the end is looked through" in found.note
    kept = pb.saliency(model, x, 1, "gradient", of="output")
    assert np.abs(kept.values - expected).max() > 1e-3
    assert "softmax" not in kept.note


def test_a_sigmoid_is_looked_through() -> None:
    model, x = network(last="sigmoid"), images()
    found = pb.saliency(model, x, 1, "gradient")
    np.testing.assert_allclose(found.values, logit_gradient(model, x, lambda y: y[:, 1]), **CLOSE)
    assert "sigmoid in the end" in found.note


def test_a_softmax_in_a_subclassed_model_is_looked_through() -> None:
    model, x = Subclassed(), images()
    found = pb.saliency(model, x, 1, "gradient")
    assert "softmax in the end is looked through" in found.note


def test_the_softmax_of_attention_is_not() -> None:
    x = keras.Input((6, 4))
    model = randomised(
        keras.Model(x, layers.Dense(3)(layers.Flatten()(layers.MultiHeadAttention(1, 4)(x, x))))
    )
    found = pb.saliency(model, np.ones((1, 6, 4), "f"), 0, "gradient")
    assert "softmax" not in found.note


def test_a_probability_of_unknown_origin_is_said_aloud() -> None:
    def model(x: Any) -> Any:
        return tf.stack([tf.sigmoid(x[:, 0]), 1 - tf.sigmoid(x[:, 0])], 1) * 1.0

    with pytest.warns(UserWarning, match="look like probabilities"):
        pb.saliency(model, np.ones((1, 2), "f"), 0, "gradient")


def test_several_inputs() -> None:
    a, b = keras.Input((4,), name="a"), keras.Input((6,), dtype="int32", name="b")
    words = layers.Flatten()(layers.Embedding(20, 2)(b))
    h = layers.Dense(5, activation="tanh")(layers.concatenate([a, words]))
    model = randomised(keras.Model({"a": a, "b": b}, layers.Dense(3)(h)))
    x = {"a": np.random.default_rng(0).normal(size=(3, 4)).astype("f"), "b": tokens()}
    score = (
        model(x)[:, 1].numpy() - model({"a": 0.5 + 0 * x["a"], "b": 0 * x["b"] + 3})[:, 1].numpy()
    )
    found = pb.saliency(model, x, 1, "integrated", baseline={"a": 0.5, "b": 3})
    assert {name: v.shape for name, v in found.values.items()} == {"a": (3, 4), "b": (3, 6)}
    total = found.values["a"].sum(1) + found.values["b"].sum(1)
    np.testing.assert_allclose(total, score, rtol=1e-4)
    listed = keras.Model([a, b], model({"a": a, "b": b}))
    again = pb.saliency(listed, [x["a"], x["b"]], 1, "integrated", baseline=[0.5, 3])
    np.testing.assert_allclose(again.values[1], found.values["b"], **CLOSE)


def test_images_of_bytes_are_images() -> None:
    model = network()
    bytes_ = np.random.default_rng(0).integers(0, 255, (2, *SHAPE)).astype("uint8")

    def on_bytes(x: Any) -> Any:
        return model(tf.cast(x, "float32") / 255.0)

    expected = pb.saliency(model, bytes_.astype("f") / 255.0, 1, "gradient").values / 255.0
    np.testing.assert_allclose(
        pb.saliency(on_bytes, bytes_, 1, "gradient").values, expected, **CLOSE
    )
    found = pb.saliency(on_bytes, bytes_, 1, "gradcam")
    assert found.values.shape == (2, *SHAPE[:2])


@pytest.mark.parametrize("kind", ["int32", "int64", "float32"])
def test_tokens_of_any_dtype(kind: str) -> None:
    """Keras casts tokens to floating-point numbers where the input says so, and back before it looks them up."""
    words = text_model()
    x = keras.Input((6,), dtype=kind)
    h = x
    for layer in words.layers:
        h = layer(h)
    model, ids = keras.Model(x, h), tokens()
    expected = pb.saliency(words, ids, 1, "integrated").values
    np.testing.assert_allclose(pb.saliency(model, ids.astype(kind), 1).values, expected, **CLOSE)


def nested() -> Any:
    base = keras.Sequential([keras.Input(SHAPE), layers.Conv2D(4, 3, name="conv5")], name="base")
    other = keras.Sequential([keras.Input(SHAPE), layers.Conv2D(4, 3, name="conv5")], name="other")
    x = keras.Input(SHAPE)
    h = layers.GlobalAveragePooling2D()(layers.Add()([base(x), other(x)]))
    return randomised(keras.Model(x, layers.Dense(2, name="scores")(h)))


def test_layers_by_path() -> None:
    model, x = nested(), images(2)
    kernel = model.get_layer("scores").kernel.numpy()[:, 1] / 56  # one of 8 × 7 places
    layer = model.get_layer("base").get_layer("conv5")
    for wanted in ("base/conv5", layer):
        found = pb.saliency(model, x, 1, "gradient", wanted)
        np.testing.assert_allclose(found.values, np.broadcast_to(kernel, (2, 8, 7, 4)), rtol=1e-5)
        assert found.layer == "conv5"


def test_a_layer_that_runs_twice_is_that_of_its_last_call() -> None:
    conv = layers.Conv2D(3, 3, padding="same", name="conv")
    x = keras.Input(SHAPE)
    model = randomised(keras.Model(x, layers.GlobalAveragePooling2D()(conv(conv(x)))))
    found = pb.saliency(model, images(1), 1, "gradient", "conv")
    np.testing.assert_allclose(found.values[..., 1], 1 / 90, rtol=1e-5)
    assert "ran 2 times: this is its last call" in found.note
