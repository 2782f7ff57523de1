"""Gradient layers: in every form of model, in every way to train one, in copies and files."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import ExportError
from tests.keras.pieces import FORMS, QUIET, ROWS, TARGETS, K, fit, functional

ROOT = Path(__file__).parents[2]


def gradient(layer: Any, x: Any, upstream: Any) -> np.ndarray:
    x = tf.constant(x, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x)
    return np.asarray(tape.gradient(y, x, output_gradients=tf.constant(upstream, tf.float32)))


LAYERS = {
    "reversal": (lambda: K.GradientReversal(0.5), [-1.5, 2.0]),
    "scale": (lambda: K.GradientScale(3.0), [9.0, -12.0]),
    "clip values": (lambda: K.GradientClip(value=3.5), [3.0, -3.5]),
    "clip": (lambda: K.GradientClip(norm=1.0), [0.6, -0.8]),
    "straight through": (lambda: K.StraightThrough("sign"), [3.0, -4.0]),
    "surrogate": (lambda: K.StraightThrough("sign", "hard_tanh"), [3.0, 0.0]),
    "spike": (lambda: K.Spike("triangular", slope=0.5), [2.25, 0.0]),
    "tap": (K.Tap, [3.0, -4.0]),
    "quantize": (lambda: K.Quantize(2, "uniform"), [3.0, 0.0]),
    "binary": (lambda: K.Quantize(kind="binary", clip=5.0), [3.0, -4.0]),
}


@pytest.mark.parametrize("name", LAYERS)
def test_the_gradient(name: str) -> None:
    make, wanted = LAYERS[name]
    layer = make()
    for each in (layer, type(layer).from_config(layer.get_config())):
        np.testing.assert_allclose(gradient(each, [0.5, 2.5], [3.0, -4.0]), wanted, rtol=1e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("options", [{}, {"jit_compile": True}, {"run_eagerly": True}], ids=str)
def test_models_of_every_form_are_trained(form: str, options: Any) -> None:
    model = FORMS[form]()
    model(ROWS)
    before = model.get_weights()[0].copy()
    norms = K.GradientNorms()
    history = fit(model, ROWS, TARGETS, "mse", [K.GradientSchedule("linear"), norms], **options)
    assert np.all(np.isfinite(history.history["loss"]))
    assert not np.array_equal(before, model.get_weights()[0])
    np.testing.assert_allclose(history.history["reversal_k"], [0.25, 0.75])
    assert len(norms.history["tap"]) == 4
    assert min(norms.history["tap"]) > 0


def test_mixed_precision() -> None:
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        model = functional()
        history = fit(model, ROWS, TARGETS, "mse")
    finally:
        keras.mixed_precision.set_global_policy("float32")
    assert model.get_layer("learned").compute_dtype == "float16"
    assert np.all(np.isfinite(history.history["loss"]))
    assert float(model.get_layer("learned").step) > 0


def test_clones_are_the_same() -> None:
    model = functional()
    fit(model, ROWS, TARGETS, "mse")
    cloned = keras.models.clone_model(model)
    cloned.set_weights(model.get_weights())
    np.testing.assert_array_equal(cloned(ROWS), model(ROWS))


# In processes of their own: files load after `import pullback` alone, and a strategy starts its counts anew.

LOAD = """
import sys
import pullback, keras
import numpy as np
for path in sys.argv[2:]:
    model = keras.models.load_model(path)
    np.save(path + ".npy", model(np.load(sys.argv[1])))
    print(*[type(layer).__name__ for layer in model.layers])
"""

MIRRORED = """
import tensorflow as tf
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from tests.keras.pieces import *
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    one, two = functional(), K.quantize(cnn(), 3, activations="lsq")
    one.compile("sgd", "mse")
    two.compile("adam", "sparse_categorical_crossentropy")
norms = K.GradientNorms()
found = one.fit(ROWS, TARGETS, batch_size=8, verbose=0, callbacks=[K.GradientSchedule(), norms])
found = two.fit(IMAGES, LABELS, batch_size=8, verbose=0)
steps = [float(keras.ops.convert_to_numpy(w)) for w in two.trainable_variables if w.name == "step"]
print(min(norms.history["tap"]) > 0, len(steps), min(steps) > 0, np.isfinite(found.history["loss"]).all())
"""


def run(program: str, *args: Any) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, args)],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_files_load_after_importing_pullback_alone(tmp_path: Path) -> None:
    model = functional()
    fit(model, ROWS, TARGETS, "mse")
    small = K.quantize(keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)]), 3)
    guided = pb.override({keras.layers.Dense: pb.rules.clip(value=0.5)})(model)
    np.save(tmp_path / "rows.npy", ROWS)
    saved = {"model": model, "small": small, "guided": guided}
    for name, each in saved.items():
        each.save(tmp_path / f"{name}.keras")
    paths = [tmp_path / f"{name}.keras" for name in saved]
    said = run(LOAD, tmp_path / "rows.npy", *paths).splitlines()
    assert said[0].split() == [type(layer).__name__ for layer in model.layers]
    assert said[1] == "QuantizedDense"
    for name, each in saved.items():
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.keras.npy"), each(ROWS))


def test_replicas() -> None:
    assert run(MIRRORED).splitlines()[-1] == "True 5 True True"


# Overrides with ready-made rules in files


def tripled(value: Any, op: Any) -> None:
    del value, op


RULES = {
    "guided": pb.rules.guided,
    "clip": pb.rules.clip(norm=0.5),
    "reverse": pb.rules.reverse(tf.constant(2.0)),
    "surrogate": pb.rules.surrogate("atan", slope=3.0),
    "straight through": pb.rules.straight_through(tf.tanh),
    "quantiser": pb.rules.quantizers.uniform(3, low=-2.0),
}


@pytest.mark.parametrize("name", RULES)
def test_an_override_with_a_ready_made_rule_is_saved(name: str, tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="relu")])
    changed = pb.override({tf.nn.relu: RULES[name]})(model)
    changed.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    upstream = np.linspace(-2, 2, 48).reshape(16, 3)
    found, wanted, plain = (gradient(each, ROWS, upstream) for each in (loaded, changed, model))
    np.testing.assert_array_equal(found, wanted)
    assert not np.allclose(found, plain)


def test_a_rule_on_a_tensor_of_a_functional_model_is_saved(tmp_path: Path) -> None:
    inputs = keras.Input((4,))
    model = keras.Model(inputs, pb.rules.quantizers.ternary()(pb.rules.reverse(2.0)(inputs)))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(ROWS), model(ROWS))
    wanted = np.where(np.abs(ROWS) <= 1, -2.0, 0.0)
    np.testing.assert_array_equal(gradient(loaded, ROWS, np.ones_like(ROWS)), wanted)


def test_a_variable_of_a_rule_is_not_saved_as_if_it_were_a_number(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="relu")])
    changed = pb.override({tf.nn.relu: pb.rules.reverse(tf.Variable(2.0))})(model)
    with pytest.raises(
        pb.PullbackError, match=r"reverse cannot be written .* a layer of pb\.keras"
    ):
        changed.save(tmp_path / "model.keras")


# Bad input


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: K.GradientReversal("much"), "k='much'; wanted one number"),
        (lambda: K.GradientScale(np.nan), "wanted one number"),
        (lambda: K.Quantize(2, "octal"), "kind='octal'; there are 'lsq', 'uniform'"),
        (lambda: K.Quantize(2, "ternary", low=1.0), "got low; it takes clip, threshold"),
        (lambda: K.Quantize(2, "ternary").start(ROWS), "has nothing to start"),
        (lambda: K.StraightThrough("roundish"), "wanted a function, or the name of one"),
        (lambda: K.Spike("tanh"), "'tanh'; there are 'atan'"),
        (lambda: K.Tap(of="gradient"), "no callback"),
        (lambda: K.GradientClip(), "no limit"),
    ],
)
def test_bad_options_are_refused_in_words(make: Any, words: str) -> None:
    with pytest.raises((ValueError, pb.PullbackError), match=words):
        make()


def test_what_the_door_does_not_have() -> None:
    with pytest.raises(AttributeError, match="has no 'Reversal'; it has Checkpoint, GradientClip"):
        pb.keras.Reversal


# A list, and a callback


@pytest.mark.parametrize("callback", ["list", "function"])
def test_a_tap_may_show_everything(callback: str) -> None:
    seen: list[Any] = []

    def see(value: Any, op: Any) -> None:
        seen.append((op, value))

    model = keras.Sequential(
        [keras.Input((4,)), K.Tap(seen if callback == "list" else see, "gradient", name="here")]
    )
    model.add(keras.layers.Dense(1))
    model.compile("sgd", "mse")
    model.fit(ROWS, TARGETS, batch_size=8, verbose=QUIET)
    assert seen == []  # nothing in front of it is trained, so that nothing flows
    gradient(model, ROWS, np.ones((16, 1)))
    ((op, value),) = seen
    assert op.name.endswith("here")
    np.testing.assert_allclose(
        value, np.tile(model.layers[-1].kernel.numpy().T, [16, 1]), rtol=1e-6
    )


@keras.saving.register_keras_serializable("tests.keras")
def remember(value: Any, op: Any) -> None:
    REMEMBERED.append((op, value))


REMEMBERED: list[Any] = []


def test_a_tap_is_saved_with_a_callback_that_can_be_found(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4,)), K.Tap(remember, "gradient")])
    model.save(tmp_path / "model.keras")
    loaded: Any = keras.models.load_model(tmp_path / "model.keras")
    REMEMBERED.clear()
    for each in (model, loaded, keras.models.clone_model(model)):
        gradient(each, ROWS[:1], np.ones((1, 4)))
    assert [np.shape(value) for _, value in REMEMBERED] == [(1, 4)] * 3


@pytest.mark.parametrize("callback", [list[Any](), lambda value, op: None], ids=["list", "lambda"])
def test_a_tap_is_not_saved_without_its_callback(callback: Any, tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4,)), K.Tap(callback, name="here")])
    with pytest.raises(ExportError, match=r"the callback of Tap 'here'.* cannot be written"):
        model.save(tmp_path / "model.keras")


@pytest.mark.parametrize(
    "function",
    ["floor", keras.ops.floor, tf.floor, tf.math.floor],
    ids=["name", "keras.ops", "tf", "tf.math"],
)
def test_straight_through_is_saved_with_its_function(function: Any, tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((2,)), K.StraightThrough(function, tf.tanh)])
    model.save(tmp_path / "model.keras")
    loaded: Any = keras.models.load_model(tmp_path / "model.keras")
    for each in (loaded, keras.models.clone_model(model)):
        np.testing.assert_array_equal(each(np.array([[0.7, -0.2]])), [[0.0, -1.0]])
        slopes = 1 - np.tanh([[0.5, 2.0]]) ** 2
        np.testing.assert_allclose(gradient(each, [[0.5, 2.0]], [[1, 1]]), slopes, rtol=1e-5)


@pytest.mark.parametrize("part", ["function", "surrogate"])
def test_straight_through_is_not_saved_without_its_function(part: str, tmp_path: Path) -> None:
    layer = K.StraightThrough(**{part: lambda x: x + 1}, name="here")
    words = rf"the {part} of StraightThrough 'here', .*lambda.* cannot be written to a file"
    with pytest.raises(ExportError, match=words):
        keras.Sequential([keras.Input((2,)), layer]).save(tmp_path / "model.keras")
