"""Every method against TensorFlow written by hand here: another forward pass, another backward pass."""

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from tests.saliency.models import by_hand, images, network, text_model, tokens

TARGET = 2
CLOSE: dict[str, float] = {"rtol": 1e-5, "atol": 1e-5}


@tf.custom_gradient
def guided_relu(x: Any) -> Any:
    return tf.maximum(x, 0.0), lambda dy: tf.where((x > 0) & (dy > 0), dy, 0.0)


@tf.custom_gradient
def deconv_relu(x: Any) -> Any:
    return tf.maximum(x, 0.0), lambda dy: tf.where(dy > 0, dy, 0.0)


def gelu_slope(x: Any) -> Any:
    density = tf.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return 0.5 * (1 + tf.math.erf(x / math.sqrt(2))) + x * density


@tf.custom_gradient
def guided_gelu(x: Any) -> Any:
    def backward(dy: Any) -> Any:
        passed = tf.maximum(dy, 0.0) * gelu_slope(x)
        return tf.maximum(passed, 0.0)

    return 0.5 * x * (1 + tf.math.erf(x / math.sqrt(2))), backward


def gradient(model: Any, x: Any, activation: Any = tf.nn.relu, of: str = "x") -> Any:
    """The gradient of the target's logit, and the features and the gradient there."""
    x = tf.constant(x)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        features, logits = by_hand(model, x, activation)
        score = logits[:, TARGET]
    if of == "x":
        return tape.gradient(score, x).numpy()
    return features.numpy(), tape.gradient(score, features).numpy()


def test_gradient() -> None:
    model, x = network(), images()
    found = pb.saliency(model, x, TARGET, "gradient")
    np.testing.assert_allclose(found.values, gradient(model, x), **CLOSE)


def test_input_x_gradient() -> None:
    model, x = network(), images()
    found = pb.saliency(model, x, TARGET, "input_x_gradient")
    np.testing.assert_allclose(found.values, x * gradient(model, x), **CLOSE)


def test_integrated_is_the_mean_gradient_at_the_nodes_of_legendre() -> None:
    model, x = network("tanh"), images(2)
    baseline = 0.3 * np.ones_like(x)
    nodes, weights = np.polynomial.legendre.leggauss(5)
    mean = sum(
        w / 2 * gradient(model, (baseline + (n + 1) / 2 * (x - baseline)).astype("f"), tf.tanh)
        for n, w in zip(nodes, weights, strict=True)
    )
    with pytest.warns(UserWarning, match="differs from the change of the score"):
        found = pb.saliency(
            model, x, TARGET, "integrated", baseline=0.3, steps=5, max_steps=5, tolerance=0
        )
    np.testing.assert_allclose(found.values, (x - baseline) * mean, **CLOSE)


def test_smoothgrad_is_the_mean_gradient_around_the_input() -> None:
    """Of many draws, to within what chance allows: the draws are not the same."""
    model, x = network("tanh"), images(1)
    draw = np.random.default_rng(9)
    noise = 0.1 * (x.max() - x.min())
    rows = x + noise * draw.normal(size=(4000, *x.shape[1:])).astype("f")
    each = gradient(model, rows, tf.tanh)
    error = each.std(0) * (1 / 4000 + 1 / 1000) ** 0.5
    found = pb.saliency(model, x, TARGET, "smoothgrad", samples=1000, noise=0.1)
    deviations = (found.values[0] - each.mean(0)) / error
    assert np.abs(deviations).max() < 5
    plain = (gradient(model, x, tf.tanh)[0] - each.mean(0)) / error
    assert np.abs(plain).max() > 5


@pytest.mark.parametrize(
    ("method", "activation", "reference"),
    [
        ("guided", "relu", guided_relu),
        ("deconv", "relu", deconv_relu),
        ("guided", lambda v: tf.nn.gelu(v), guided_gelu),
    ],
)
def test_backward_passes_of_activations(method: str, activation: Any, reference: Any) -> None:
    model, x = network(activation), images()
    expected = gradient(model, x, reference)
    found = pb.saliency(model, x, TARGET, method)
    np.testing.assert_allclose(found.values, expected, **CLOSE)
    assert np.abs(expected - pb.saliency(model, x, TARGET, "gradient").values).max() > 1e-2


def test_gradcam() -> None:
    model, x = network(), images()
    features, upstream = gradient(model, x, of="features")
    small = np.maximum(0, np.einsum("nhwc,nc->nhw", features, upstream.mean((1, 2))))
    expected = tf.image.resize(small[..., None], x.shape[1:3], "bilinear")[..., 0]
    assert expected.numpy().any()
    for layer in (None, "second", model.get_layer("second")):
        found = pb.saliency(model, x, TARGET, "gradcam", layer)
        np.testing.assert_allclose(found.values, expected, **CLOSE)


def test_gradcam_plus_plus() -> None:
    """Of exp(logit), as in the paper, whose derivatives are taken here one after the other."""
    model, x = network(), images()
    features, g = gradient(model, x, of="features")
    logit = by_hand(model, tf.constant(x), tf.nn.relu)[1][:, TARGET, None, None, None]
    y = np.exp(logit)
    total = features.sum((1, 2), keepdims=True)
    alpha = y * g**2 / (2 * y * g**2 + total * y * g**3)
    weights = (np.nan_to_num(alpha) * np.maximum(y * g, 0)).sum((1, 2), keepdims=True)
    small = np.maximum(0, (weights * features).sum(-1))
    expected = tf.image.resize(small[..., None], x.shape[1:3], "bilinear")[..., 0] / y[..., 0]
    found = pb.saliency(model, x, TARGET, "gradcam++")
    assert expected.numpy().any()
    np.testing.assert_allclose(found.values, expected, **CLOSE)


def test_guided_gradcam() -> None:
    model, x = network(), images()
    cam = pb.saliency(model, x, TARGET, "gradcam").values
    expected = gradient(model, x, guided_relu) * cam[..., None]
    found = pb.saliency(model, x, TARGET, "guided_gradcam")
    assert expected.any()
    np.testing.assert_allclose(found.values, expected, **CLOSE)


def test_tokens_through_their_embedding() -> None:
    model, ids = text_model(), tokens()
    table, kernel, bias, last, last_bias = (tf.convert_to_tensor(v) for v in model.variables)
    looked_up = tf.gather(table, ids)
    with tf.GradientTape() as tape:
        tape.watch(looked_up)
        hidden = tf.nn.gelu(looked_up @ kernel + bias)
        score = (tf.reduce_mean(hidden, 1) @ last + last_bias)[:, TARGET]
    expected = tape.gradient(score, looked_up)
    found = pb.saliency(model, ids, TARGET, "gradient")
    np.testing.assert_allclose(found.values, tf.reduce_sum(expected, -1), **CLOSE)
    found = pb.saliency(model, ids, TARGET, "input_x_gradient")
    np.testing.assert_allclose(found.values, tf.reduce_sum(expected * looked_up, -1), **CLOSE)


def test_features_of_a_layer() -> None:
    model, x = network(), images()
    features, upstream = gradient(model, x, of="features")
    found = pb.saliency(model, x, TARGET, "gradient", "second")
    np.testing.assert_allclose(found.values, upstream, **CLOSE)
    found = pb.saliency(model, x, TARGET, "input_x_gradient", "second")
    np.testing.assert_allclose(found.values, features * upstream, **CLOSE)
