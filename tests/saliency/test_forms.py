"""Activations in every form in which a model may have them: each is covered, and the map is not the plain gradient."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from tests.saliency.models import SHAPE, Subclassed, images, network, randomised

layers = keras.layers


def between(*activations: Any) -> Callable[[], Any]:
    """Convolutions with these between them: layers, or functions."""

    def make() -> Any:
        x = keras.Input(SHAPE)
        h = layers.Conv2D(4, 3)(x)
        for activation in activations:
            made = activation() if isinstance(activation, type) else activation
            h = layers.Conv2D(4, 1)(made(h))
        return randomised(keras.Model(x, layers.Dense(4)(layers.GlobalAveragePooling2D()(h))))

    return make


def subclassed() -> Any:
    model = Subclassed()
    model(images(1))
    return randomised(model)


def reused() -> Any:
    relu, conv = layers.ReLU(), layers.Conv2D(3, 3, padding="same", activation="relu")
    x = keras.Input(SHAPE)
    h = relu(conv(relu(conv(x))))
    return randomised(keras.Model(x, layers.Dense(4)(layers.GlobalAveragePooling2D()(h))))


def nested_twice() -> Any:
    base = keras.Sequential(
        [keras.Input(SHAPE), layers.Conv2D(4, 3, name="conv5"), layers.ReLU()], name="base"
    )
    middle = keras.Sequential(
        [keras.Input(SHAPE), base, layers.Conv2D(4, 3, activation="relu")], name="middle"
    )
    x = keras.Input(SHAPE)
    h = layers.GlobalAveragePooling2D()(middle(x))
    return randomised(keras.Model(x, layers.Dense(4, activation="softmax")(h)))


@keras.saving.register_keras_serializable("tests.saliency")
class InGraph(keras.Model):
    """A model whose call is a traced program."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.first, self.scores = layers.Conv2D(4, 3), layers.Dense(4)

    @tf.function
    def call(self, x: Any) -> Any:
        return self.scores(tf.reduce_mean(tf.nn.relu(self.first(x)), [1, 2]))


def in_graph() -> Any:
    model = InGraph()
    model(images(1))
    return randomised(model)


def plain_function() -> Any:
    model = network(None, last=None)
    return lambda x: tf.nn.relu(model(tf.nn.relu(x)) + 10.0)


STRINGS = ["relu", "relu6", "leaky_relu", "elu", "selu", "gelu", "silu", "softplus", "softsign", "tanh",
           "sigmoid", "mish", "hard_silu", "celu", "log_sigmoid"]  # fmt: skip
FORMS: dict[str, tuple[Callable[[], Any], int]] = {
    **{f"activation={name!r}": (lambda name=name: network(name), 2) for name in STRINGS},
    "ReLU": (between(layers.ReLU), 1),
    "ReLU(6)": (between(layers.ReLU(6.0)), 1),
    "ReLU(2)": (between(layers.ReLU(2.0)), 2),  # a ReLU, and a clip
    "LeakyReLU, ELU, PReLU": (between(layers.LeakyReLU, layers.ELU, layers.PReLU), 3),
    "Activation": (between(layers.Activation("relu"), layers.Activation("gelu")), 2),
    "keras.ops": (between(keras.ops.relu, keras.ops.silu), 2),
    "tf.nn": (subclassed, 1),
    "reused": (reused, 4),
    "nested twice": (nested_twice, 2),
    "in a traced call": (in_graph, 1),
    "plain function": (plain_function, 2),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_activation_is_covered(form: str) -> None:
    make, count = FORMS[form]
    model, x = make(), images(2)
    plain = pb.saliency(model, x, 1, "gradient").values
    for method in ("guided", "deconv"):
        found = pb.saliency(model, x, 1, method)
        assert found.audit is not None
        assert found.audit.complete
        assert sum(row.count for row in found.audit.rows) == count
        assert {row.rule for row in found.audit.rows} == {method}
        assert np.abs(found.values - plain).max() > 1e-3 * np.abs(plain).max()


def test_a_loaded_model(tmp_path: Path) -> None:
    model, x = nested_twice(), images(2)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    found = pb.saliency(loaded, x, 1, "guided")
    assert found.audit is not None
    assert found.audit.complete
    np.testing.assert_allclose(found.values, pb.saliency(model, x, 1, "guided").values, rtol=1e-6)


def test_what_is_written_by_hand_is_said_aloud() -> None:
    def model(x: Any) -> Any:
        return tf.reduce_sum(tf.maximum(tf.nn.relu(x), 0.1), 1)

    with pytest.warns(UserWarning, match="Maximum .*test_forms.py.*NOT COVERED"):
        found = pb.saliency(model, np.ones((1, 3), "f"), method="guided")
    assert found.audit is not None
    assert [row.name for row in found.audit.uncovered] == ["Maximum"]
    assert [row.name for row in found.audit.covered] == ["Relu"]
    assert "NOT COVERED" in found.note


def test_an_activation_inside_a_custom_gradient_is_said_aloud() -> None:
    @tf.custom_gradient
    def own(x: Any) -> Any:
        return tf.nn.relu(x), lambda dy: dy

    with pytest.warns(UserWarning, match="Relu.*NOT COVERED: it runs inside own"):
        pb.saliency(lambda x: tf.reduce_sum(own(x), 1), np.ones((1, 3), "f"), method="guided")


def test_a_model_without_activations_is_said_aloud() -> None:
    with pytest.warns(UserWarning, match="no activation ran in this model"):
        pb.saliency(lambda x: tf.reduce_sum(x, 1), np.ones((1, 3), "f"), method="deconv")


def test_masks_are_no_activations() -> None:
    model = keras.Sequential(
        [keras.Input((6,)), layers.Embedding(9, 4, mask_zero=True), layers.LSTM(3), layers.Dense(1)]
    )
    found = pb.saliency(randomised(model), np.array([[1, 2, 3, 0, 0, 0]]), method="guided")
    assert found.audit is not None
    assert found.audit.complete
    assert {row.name for row in found.audit.rows} == {"Tanh", "Sigmoid"}
