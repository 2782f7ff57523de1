"""Keras: every way to write an activation, every kind of model, call and fit, before and after a trace."""

import re
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import ExportError, UnmatchedOverride
from tests.define.test_keras import in_a_fresh_process
from tests.override.helpers import tenfold, times_seven

ROWS = np.ones((4, 3), "f")
ZEROS = np.zeros((4, 1), "f")
ACTIVATIONS = ["string", "keras function", "tf function", "lambda", "ReLU layer", "keras.ops"]
MODELS = ["sequential", "functional", "subclassed", "nested"]


class Rectify(keras.Layer):
    def call(self, x: Any) -> Any:
        return keras.ops.relu(x)


class Chain(keras.Model):
    def __init__(self, parts: list[Any]) -> None:
        super().__init__()
        self.parts = parts

    def call(self, x: Any, training: bool = False) -> Any:
        for part in self.parts:
            x = part(x)
        return x


def parts_with(activation: str) -> list[Any]:
    dense = {"use_bias": False, "kernel_initializer": "ones"}
    plain = {
        "string": "relu",
        "keras function": keras.activations.relu,
        "tf function": tf.nn.relu,
        "lambda": lambda x: tf.nn.relu(x),
    }
    if activation in plain:
        first = [keras.layers.Dense(2, activation=plain[activation], **dense)]
    else:
        follow = keras.layers.ReLU() if activation == "ReLU layer" else Rectify()
        first = [keras.layers.Dense(2, **dense), follow]
    return [*first, keras.layers.Dense(1, **dense)]


def model_of(kind: str, activation: str) -> Any:
    parts = parts_with(activation)
    if kind == "sequential":
        return keras.Sequential([keras.Input((3,)), *parts])
    if kind == "subclassed":
        return Chain(parts)
    inputs = keras.Input((3,))
    inner = keras.Sequential(parts) if kind == "nested" else None
    outputs = inputs
    for part in [inner] if inner else parts:
        outputs = part(outputs)
    return keras.Model(inputs, outputs)


def kernels(model: Any) -> list[Any]:
    return [v for v in model.trainable_variables if "kernel" in v.path]


def input_gradient(model: Any, rows: Any = ROWS) -> list[float]:
    x = tf.constant(rows)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = model(x)
    return tape.gradient(y, x).numpy()[0].tolist()


def step_of(model: Any, fitted: Any) -> float:
    """How far one step of descent on the mean square moves the first kernel; the kernels are put back."""
    before = [k.numpy() for k in kernels(model)]
    fitted.fit(ROWS, ZEROS, batch_size=4, verbose=0)
    moved = kernels(model)[0].numpy() - before[0]
    for kernel, value in zip(kernels(model), before, strict=True):
        kernel.assign(value)
    assert np.allclose(moved, moved[0, 0])
    return float(moved[0, 0])


@pytest.mark.parametrize("target", ["Relu", tf.nn.relu])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("kind", MODELS)
def test_calling(kind: str, activation: str, target: Any) -> None:
    model, changed = model_of(kind, activation), pb.override({target: times_seven})
    twin = changed(model)
    assert input_gradient(twin) == [-14.0] * 3
    assert input_gradient(tf.function(lambda x: twin(x))) == [-14.0] * 3
    assert input_gradient(model) == [2.0] * 3
    with changed:
        assert input_gradient(model) == [-14.0] * 3


@pytest.mark.parametrize("traced_before", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"jit_compile": True}, {"jit_compile": False}, {"run_eagerly": True}], ids=str
)
@pytest.mark.parametrize("activation", ["string", "ReLU layer"])
@pytest.mark.parametrize("kind", MODELS)
def test_fitting(kind: str, activation: str, options: Any, traced_before: bool) -> None:
    # Loss (2 · 3)², so the gradient is 2 · 6 for each weight, and −7 times that under the override.
    model, changed = model_of(kind, activation), pb.override({tf.nn.relu: times_seven})
    model(ROWS)
    model.compile(keras.optimizers.SGD(1e-3), "mse", **options)
    if traced_before:
        assert step_of(model, model) == pytest.approx(-0.012, rel=1e-3)
    twin = changed(model)
    assert step_of(model, twin) == pytest.approx(0.084, rel=1e-3)
    with changed:
        assert step_of(model, model) == pytest.approx(0.084, rel=1e-3)
    assert step_of(model, model) == pytest.approx(-0.012, rel=1e-3)


def test_the_twin_is_a_model_of_its_own() -> None:
    model = model_of("functional", "string")
    model.compile("sgd", "mse", metrics=["mae"])
    twin = pb.override({tf.nn.relu: times_seven})(model)
    assert isinstance(twin, type(model))
    assert twin.optimizer is not model.optimizer
    assert twin.count_params() == model.count_params()
    assert twin.predict(ROWS, verbose=0).tolist() == model.predict(ROWS, verbose=0).tolist()
    assert set(twin.fit(ROWS, ZEROS, verbose=0).history) == {"loss", "mae"}
    assert all(a is b for a, b in zip(twin.weights, model.weights, strict=True))
    twin.summary(print_fn=lambda *_, **__: None)


def test_an_unbuilt_model_shares_the_weights_that_are_made_later() -> None:
    model = keras.Sequential([keras.layers.Dense(2, activation="relu")])
    twin = pb.override({tf.nn.relu: times_seven})(model)
    twin(ROWS)
    assert model.built
    assert twin.weights[0] is model.weights[0]


def test_a_training_step_of_the_users_own() -> None:
    class Own(Chain):
        def train_step(self, data: Any) -> Any:
            x, _ = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(self.parts[1](self.parts[0](x)) ** 2)
            grads = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(grads, self.trainable_variables, strict=True))
            return {"loss": loss}

    model = Own(parts_with("string"))
    model(ROWS)
    twin = pb.override({tf.nn.relu: times_seven})(model)
    twin.compile(keras.optimizers.SGD(1e-3), "mse")
    assert step_of(model, twin) == pytest.approx(0.084, rel=1e-3)


def two_layers() -> Any:
    """Two dense layers of ones, the first with a ReLU by name and one by keras.ops: the plain gradient is 2."""
    dense = {"use_bias": False, "kernel_initializer": "ones"}
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(2, activation="relu", name="dense_first", **dense)(inputs)
    return keras.Model(
        inputs, keras.layers.Dense(1, name="dense_second", **dense)(keras.ops.relu(hidden))
    )


TARGETS: dict[str, tuple[Any, float]] = {
    "layer class": (lambda m: keras.layers.Dense, 200.0),
    "names": (lambda m: re.compile("dense.*"), 200.0),
    "one name": (lambda m: re.compile("dense_second"), 20.0),
    "op name": (lambda m: re.compile(".*dense_first/Relu"), 20.0),
    "layer": (lambda m: m.layers[1], 20.0),
    "keras op": (lambda m: keras.ops.relu, 200.0),
    "keras activation": (lambda m: keras.activations.relu, 200.0),
    "inside a layer": (lambda m: pb.inside(m.layers[1], "Relu"), 20.0),
    "inside a class": (lambda m: pb.inside(keras.layers.Dense, tf.nn.relu), 20.0),
    "inside a name": (lambda m: pb.inside(re.compile("dense_first"), "Relu"), 20.0),
    "inside a function": (lambda m: pb.inside(keras.activations.relu, "Relu"), 20.0),
    "where": (
        lambda m: pb.where(lambda op: op.type == "Relu" and "first" in (op.layer or "")),
        20.0,
    ),
    "everywhere": (lambda m: "Relu", 200.0),
}


@pytest.mark.parametrize(
    "wrap", [lambda m: m, lambda m: tf.function(lambda x: m(x))], ids=["eager", "graph"]
)
@pytest.mark.parametrize("name", TARGETS)
def test_targets_in_a_model(name: str, wrap: Any) -> None:
    target, wanted = TARGETS[name]
    model = two_layers()
    assert input_gradient(wrap(pb.override({target(model): tenfold})(model))) == [wanted] * 3


@pytest.mark.parametrize("architecture", ["ResNet50", "MobileNetV2", "EfficientNetB0"])
def test_guided_backpropagation_in_one_line(architecture: str) -> None:
    target = {"ResNet50": tf.nn.relu, "MobileNetV2": tf.nn.relu6, "EfficientNetB0": tf.nn.silu}[
        architecture
    ]
    model = getattr(keras.applications, architecture)(
        weights=None, include_top=False, input_shape=(32, 32, 3)
    )
    picture = np.random.default_rng(0).normal(size=(1, 32, 32, 3)).astype("f")
    twin = pb.override({target: stopped})(model)
    plain, changed = (_picture_gradient(m, picture) for m in (model, twin))
    assert np.abs(plain).max() > 0.0
    assert np.abs(changed).max() == 0.0
    if target is not tf.nn.relu:
        with pytest.raises(UnmatchedOverride, match="did not run here"):
            pb.override({tf.nn.relu: stopped})(model)(picture)


def stopped(dy: Any) -> Any:
    return tf.zeros_like(dy)


def _picture_gradient(model: Any, picture: Any) -> Any:
    x = tf.constant(picture)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(model(x) ** 2)
    return tape.gradient(y, x).numpy()


@pytest.mark.parametrize(
    "layer",
    [
        lambda: keras.layers.LSTM(3),
        lambda: keras.layers.Bidirectional(keras.layers.GRU(3)),
        lambda: keras.layers.BatchNormalization(),
        lambda: keras.layers.TimeDistributed(keras.layers.Dense(2)),
        lambda: keras.layers.Conv1D(2, 2),
    ],
    ids=["LSTM", "Bidirectional", "BatchNormalization", "TimeDistributed", "Conv1D"],
)
def test_a_layer_as_one_unit(layer: Any) -> None:
    model = keras.Sequential([keras.Input((5, 4)), layer()])
    rows = np.random.default_rng(1).normal(size=(2, 5, 4)).astype("f")
    twin = pb.override({model.layers[0]: tenfold})(model)
    wanted = 10.0 * np.array(input_gradient(model, rows))
    for found in (twin, tf.function(lambda x: twin(x))):
        np.testing.assert_allclose(input_gradient(found, rows), wanted, rtol=1e-4)


def test_attention_whose_arguments_are_one_tensor() -> None:
    inputs = keras.Input((5, 4))
    attention = keras.layers.MultiHeadAttention(2, 3)
    model = keras.Model(inputs, attention(inputs, inputs))
    rows = np.random.default_rng(1).normal(size=(2, 5, 4)).astype("f")

    def each_tenfold(dy: Any, *, original: Any) -> Any:
        return tuple(10.0 * g for g in original(dy))

    twin = pb.override({attention: each_tenfold})(model)
    wanted = 10.0 * np.array(input_gradient(model, rows))
    for found in (twin, tf.function(lambda x: twin(x))):
        np.testing.assert_allclose(input_gradient(found, rows), wanted, rtol=1e-4, atol=1e-5)


def test_a_twin_inside_a_new_model() -> None:
    twin = pb.override({tf.nn.relu: times_seven})(model_of("functional", "string"))
    inputs = keras.Input((3,))
    outer = keras.Model(inputs, twin(inputs) * 2.0)
    assert input_gradient(outer) == [-28.0] * 3


def test_saving_and_loading(tmp_path: Any) -> None:
    model = model_of("functional", "string")
    pb.override({tf.nn.relu: times_seven})(model).save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert input_gradient(loaded) == [-14.0] * 3
    assert loaded.predict(ROWS, verbose=0).tolist() == model.predict(ROWS, verbose=0).tolist()


def test_loading_in_a_process_that_has_made_no_override(tmp_path: Any) -> None:
    model = model_of("functional", "string")
    pb.override({tf.nn.relu: times_seven})(model).save(tmp_path / "model.keras")
    found = in_a_fresh_process(
        "import keras, numpy, tests.override.helpers\n"
        "from tests.define.keras_pieces import input_gradient\n"
        f"model = keras.models.load_model(r'{tmp_path}/model.keras')\n"
        "print(input_gradient(model, numpy.ones((4, 3), 'f')).tolist())"
    )
    assert set(np.ravel(eval(found))) == {-14.0}


def test_a_rule_that_no_file_can_name_is_refused(tmp_path: Any) -> None:
    twin = pb.override({tf.nn.relu: lambda dy: dy})(model_of("functional", "string"))
    with pytest.raises(ExportError, match="Define it at the top level"):
        twin.save(tmp_path / "model.keras")


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision(policy: str) -> None:
    seen: list[Any] = []

    def rule(dy: Any) -> Any:
        seen.append(dy.dtype)
        return tf.cast(-7.0 * tf.cast(dy, tf.float32), tf.float32)

    dense = keras.layers.Dense(
        2, activation="relu", use_bias=False, kernel_initializer="ones", dtype=policy
    )
    model = keras.Sequential([keras.Input((3,)), dense])
    assert input_gradient(pb.override({tf.nn.relu: rule})(model)) == [-14.0] * 3
    assert seen[0] == tf.as_dtype(keras.DTypePolicy(policy).compute_dtype)
