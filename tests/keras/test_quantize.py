"""`pb.keras.quantize`: an existing model with quantised weights and activations."""

import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from pullback.errors import RuleError
from tests.keras.pieces import IMAGES, LABELS, ROWS, TARGETS, K, Recurrent, cnn, fit

KINDS = ["lsq", "uniform", "power_of_two", "ternary", "binary"]


def names(model: Any) -> list[str]:
    return [layer.name for layer in model.layers if type(layer).__name__.startswith("Quantized")]


@pytest.mark.parametrize("kind", KINDS)
def test_weights_and_activations_have_few_values_and_files_hold_them(
    kind: str, tmp_path: Path
) -> None:
    model = cnn()
    before = [w.copy() for w in model.get_weights()]
    small = K.quantize(model, 2, weights=kind, activations=kind, examples=IMAGES)
    history = fit(small, IMAGES, LABELS, "sparse_categorical_crossentropy")
    assert np.all(np.isfinite(history.history["loss"]))
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)  # the model is left as it is
    hidden = keras.Model(small.inputs, small.get_layer("second").output)(IMAGES)
    assert len(np.unique(hidden)) <= 4
    first = small.get_layer("first")
    assert len(np.unique(first.weight_quantizers["kernel"](first.kernel))) <= 4
    small.save(tmp_path / "small.keras")
    loaded = keras.models.load_model(tmp_path / "small.keras")
    cloned = keras.models.clone_model(small)
    cloned.set_weights(small.get_weights())
    for other in (loaded, cloned):
        np.testing.assert_array_equal(other(IMAGES), small(IMAGES))


def test_outputs_are_those_of_rounded_kernels() -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, use_bias=False)])
    small = K.quantize(model, 3)
    kernel = model.layers[0].kernel.numpy()
    step = 2 * np.abs(kernel).mean() / np.sqrt(3)
    rounded = np.round(np.clip(kernel / step, -4, 3)) * step
    np.testing.assert_allclose(small(ROWS), ROWS @ rounded, rtol=1e-5, atol=1e-6)


def test_the_first_batch_starts_the_steps_of_activations() -> None:
    small = K.quantize(cnn(), 2, weights=None, activations="lsq")
    step = small.get_layer("second").activation_quantizer.step
    assert float(step) == 0
    fit(small, IMAGES, LABELS, "sparse_categorical_crossentropy", jit_compile=True)
    assert float(step) > 0


def test_examples_start_the_steps_of_activations() -> None:
    model = cnn()
    small = K.quantize(model, 2, weights=None, activations="lsq", examples=IMAGES)
    relu = keras.Model(model.inputs, model.get_layer("relu").output)(IMAGES)
    step = small.get_layer("relu").activation_quantizer.step
    np.testing.assert_allclose(step, 2 * np.mean(relu) / np.sqrt(3), rtol=1e-5)


CHOICES = [
    ({}, ["first", "second", "last"]),
    ({"keep": ["first", "last"]}, ["second"]),
    ({"keep": "second"}, ["first", "last"]),
    ({"layers": [keras.layers.Conv2D]}, ["first", "second"]),
    ({"layers": [re.compile("first|last")]}, ["first", "last"]),
    ({"activations": "lsq"}, ["first", "relu", "second", "last"]),
    ({"weights": None, "activations": "lsq"}, ["relu", "second"]),
]


@pytest.mark.parametrize(("options", "wanted"), CHOICES, ids=lambda value: str(value))
def test_which_layers(options: Any, wanted: list[str]) -> None:
    assert names(K.quantize(cnn(), 4, **options)) == wanted


def test_outputs_of_the_model_are_not_rounded() -> None:
    small = K.quantize(cnn(), 2, activations="lsq", examples=IMAGES)
    assert small.get_layer("last").activation_quantizer is None


def test_a_subclassed_model_with_recurrent_layers(tmp_path: Path) -> None:
    model = Recurrent()
    model(ROWS)
    small = K.quantize(model, 4, activations="lsq")
    fit(small, ROWS, TARGETS, "mse")
    assert isinstance(small, Recurrent)
    assert set(small.lstm.cell.weight_quantizers) == {"kernel", "recurrent_kernel"}
    small.save(tmp_path / "small.keras")
    loaded = keras.models.load_model(tmp_path / "small.keras")
    np.testing.assert_array_equal(loaded(ROWS), small(ROWS))


def test_dropout_inside_is_drawn_anew() -> None:
    model = Recurrent()
    model(ROWS)
    small = K.quantize(model, 8)
    assert not np.array_equal(small(ROWS, training=True), small(ROWS, training=True))


def test_frozen_layers_are_rounded_too() -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, use_bias=False)])
    trained = K.quantize(model, 2)(ROWS)
    model.trainable = False
    np.testing.assert_array_equal(K.quantize(model, 2)(ROWS), trained)


class Collecting(keras.layers.Dense):
    def call(self, x: Any) -> Any:
        y = super().call(x)
        self.add_loss(keras.ops.sum(y))
        return y


def test_losses_that_a_layer_adds_count() -> None:
    small = K.quantize(keras.Sequential([keras.Input((4,)), Collecting(3)]), 4)
    total = np.sum(small(ROWS))
    np.testing.assert_allclose(small.losses, [total], rtol=1e-5)


def test_mixed_precision() -> None:
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        small = K.quantize(cnn(), 2, activations="lsq")
        history = fit(small, IMAGES, LABELS, "sparse_categorical_crossentropy")
    finally:
        keras.mixed_precision.set_global_policy("float32")
    assert np.all(np.isfinite(history.history["loss"]))
    assert small.get_layer("first").compute_dtype == "float16"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: K.quantize(3), "got 3; wanted a Keras model"),
        (lambda: K.quantize(Recurrent()), "has no weights yet"),
        (lambda: K.quantize(cnn(), 0), "bits=0"),
        (lambda: K.quantize(cnn(), weights="octal"), "kind='octal'"),
        (
            lambda: K.quantize(cnn(), layers=["third"]),
            "'third', which no layer is; there are first",
        ),
        (lambda: K.quantize(cnn(), layers=["flatten*"]), "which no layer is"),
        (lambda: K.quantize(cnn(), layers=["relu"]), "without anything to quantise: relu"),
        (lambda: K.quantize(cnn(), keep=keras.layers.Layer), "nothing to quantise in the model"),
        (lambda: K.quantize(cnn(), activations="uniform"), "no examples"),
    ],
)
def test_bad_options_are_refused_in_words(make: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError, RuleError), match=re.escape(words)):
        make()
