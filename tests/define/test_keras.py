"""Keras: functions in functional models, layers, models, losses and activations with another gradient."""

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import ExportError, LoadError, RuleSignatureError
from tests.define import keras_pieces as pieces
from tests.define.keras_pieces import ROWS, TARGETS, half, input_gradient, straight_through

ROOT = Path(__file__).parents[2]


def kernels(model: Any) -> list[np.ndarray]:
    return [w.numpy() for w in model.trainable_variables]


# A function in a functional model.


def test_a_function_on_symbolic_tensors_is_a_node_of_the_model():
    model = pieces.network(straight_through)
    first, second = model.layers[1].kernel.numpy(), model.layers[-1].kernel.numpy()
    hidden = ROWS @ first + model.layers[1].bias.numpy()
    np.testing.assert_allclose(model(ROWS), np.round(hidden) @ second, atol=1e-5)
    np.testing.assert_allclose(
        input_gradient(model), np.tile(2 * first @ second, [1, 8]).T, rtol=1e-5
    )


def test_symbolic_tensors_by_keyword_and_in_structures():
    @pb.custom_gradient
    def weighted(parts, scale):
        def backward(dy):
            return {"a": 5.0 * dy, "b": None}

        return parts["a"] * scale + parts["b"], backward

    inputs = keras.Input((4,))
    model = keras.Model(inputs, weighted(scale=3.0, parts={"b": inputs, "a": inputs}))
    np.testing.assert_allclose(model(ROWS), 4 * ROWS, rtol=1e-6)
    np.testing.assert_allclose(input_gradient(model), 5 + 0 * ROWS)


def test_several_symbolic_outputs():
    @pb.custom_gradient
    def split(x):
        def backward(da, db):
            return 2.0 * da + 7.0 * db

        return x * 1.0, x * 3.0, backward

    inputs = keras.Input((4,))
    first, second = split(inputs)
    model = keras.Model(inputs, first + second)
    np.testing.assert_allclose(model(ROWS), 4 * ROWS, rtol=1e-6)
    np.testing.assert_allclose(input_gradient(model), 9 + 0 * ROWS)


# Layers and models.


def test_a_layer_with_another_gradient_shares_its_weights():
    dense = keras.layers.Dense(3)
    wrapped = pb.with_gradient(dense, half)
    np.testing.assert_allclose(input_gradient(wrapped), 0.5 * input_gradient(dense), rtol=1e-6)
    assert all(a is b for a, b in zip(wrapped.variables, dense.variables, strict=True))
    np.testing.assert_allclose(wrapped(ROWS), dense(ROWS))


def test_the_weights_of_a_wrapped_layer_keep_their_ordinary_gradient():
    dense = keras.layers.Dense(3)
    wrapped = pb.with_gradient(dense, half)
    for call in (wrapped, tf.function(wrapped)):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(call(ROWS))
        kernel, bias = tape.gradient(loss, [w.value for w in dense.trainable_variables])
        np.testing.assert_allclose(kernel, np.tile(ROWS.sum(0)[:, None], [1, 3]), rtol=1e-5)
        np.testing.assert_allclose(bias, [8.0] * 3)


def test_a_rule_of_a_layer_may_ask_for_its_variables():
    def rule(dy, *, original, variables):
        return original(dy)[0], [tf.ones(v.shape) * 5.0 for v in variables]

    wrapped = pb.with_gradient(keras.layers.Dense(3), rule)
    wrapped.build((None, 4))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(wrapped(ROWS))
    found = tape.gradient(loss, [w.value for w in wrapped.trainable_variables])
    assert [np.unique(g).tolist() for g in found] == [[5.0], [5.0]]


def body_with_state() -> keras.Sequential:
    keras.utils.set_random_seed(5)
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(16, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(1),
        ]
    )


def test_a_model_with_another_gradient():
    inner = body_with_state()
    wrapped = pb.with_gradient(inner, half)
    np.testing.assert_allclose(input_gradient(wrapped), 0.5 * input_gradient(inner), rtol=1e-5)
    assert len(wrapped.trainable_variables) == len(inner.trainable_variables) == 6


def test_training_is_passed_on():
    wrapped = pb.with_gradient(body_with_state(), half)
    trained, evaluated = wrapped(ROWS, training=True), wrapped(ROWS, training=False)
    assert not np.allclose(trained, evaluated)
    np.testing.assert_allclose(wrapped(ROWS), evaluated)


@pytest.mark.parametrize("options", [{}, {"run_eagerly": True}, {"jit_compile": True}], ids=str)
def test_statistics_move_once_a_step(options: dict[str, Any]):
    inner, plain = body_with_state(), body_with_state()
    wrapped = pb.with_gradient(inner, half)
    for model in (wrapped, plain):
        model.compile(keras.optimizers.SGD(0.0), "mse", **options)
        model.fit(ROWS, TARGETS, batch_size=8, epochs=2, verbose=0)
    np.testing.assert_allclose(inner.layers[1].moving_mean, plain.layers[1].moving_mean, rtol=1e-5)


def test_a_wrapped_model_trains():
    wrapped = pb.with_gradient(body_with_state(), half)
    wrapped.compile(keras.optimizers.Adam(0.01), "mse")
    losses = wrapped.fit(ROWS, TARGETS, epochs=30, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


def test_layers_with_several_inputs():
    two = pb.with_gradient(keras.layers.Add(), lambda dy: [2.0 * dy, 3.0 * dy])
    a, b = keras.Input((4,)), keras.Input((4,))
    model = keras.Model([a, b], two([a, b]))
    xs = [tf.constant(ROWS), tf.constant(ROWS)]
    with tf.GradientTape() as tape:
        tape.watch(xs)
        y = model(xs)
    found = tape.gradient(y, xs)
    assert [np.unique(g).tolist() for g in found] == [[2.0], [3.0]]


def test_layers_with_keyword_tensors():
    def only_query(dy, *, original):
        return {"query": original(dy)[0]}

    attention = keras.layers.MultiHeadAttention(2, 4)
    wrapped = pb.with_gradient(attention, only_query)
    query, value = tf.random.normal([2, 3, 4], seed=1), tf.random.normal([2, 5, 4], seed=2)
    mask = tf.ones([2, 3, 5], tf.bool)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([query, value])
        ours = wrapped(query, value, attention_mask=mask, training=False)
        theirs = attention(query, value, attention_mask=mask)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    wanted = tape.gradient(theirs, query)
    found, stopped = tape.gradient(ours, [query, value])
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    assert stopped is None or not np.any(stopped)


@pytest.mark.parametrize(
    "layer", [keras.layers.GRU(3), keras.layers.LSTM(3, return_sequences=True)]
)
def test_recurrent_layers(layer: Any):
    rows = np.random.default_rng(0).normal(size=(2, 5, 4)).astype(np.float32)
    wrapped = pb.with_gradient(layer, half)
    found, wanted = input_gradient(wrapped, rows), input_gradient(layer, rows)
    np.testing.assert_allclose(found, 0.5 * wanted, rtol=1e-4, atol=1e-6)


# Activations and losses.


def test_an_activation():
    dense = keras.layers.Dense(3, activation=straight_through)
    dense.build((None, 4))
    wanted = np.tile(2 * dense.kernel.numpy().sum(1), [8, 1])
    np.testing.assert_allclose(input_gradient(dense), wanted, rtol=1e-5)


def test_a_keras_activation_with_another_gradient():
    gelu = pb.with_gradient(keras.activations.gelu, half)
    wanted = 0.5 * input_gradient(keras.activations.gelu)
    np.testing.assert_allclose(input_gradient(gelu), wanted, rtol=1e-5)


def linear(loss: Any, **options: Any) -> keras.Model:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, use_bias=False)])
    model.set_weights([np.array([[1.0], [2.0], [-1.0], [0.5]], np.float32)])
    model.compile(keras.optimizers.SGD(1.0), loss, **options)
    return model


def step(model: keras.Model, **options: Any) -> np.ndarray:
    """What one step of training subtracts from the weights: the gradient itself."""
    before = kernels(model)[0]
    model.fit(ROWS, TARGETS, batch_size=8, epochs=1, verbose=0, **options)
    return before - kernels(model)[0]


def expected_step(weights: Any = 1.0) -> np.ndarray:
    kernel = np.array([[1.0], [2.0], [-1.0], [0.5]])
    error = 3.0 * (ROWS @ kernel - TARGETS) * np.reshape(weights, [-1, 1])
    return ROWS.T @ error / 8


EXECUTION = [{}, {"run_eagerly": True}, {"jit_compile": True}]


@pytest.mark.parametrize("options", EXECUTION, ids=str)
def test_partials_as_a_loss(options: dict[str, Any]):
    found = step(linear(pieces.steep_loss, **options))
    np.testing.assert_allclose(found, expected_step(), rtol=1e-4)


@pytest.mark.parametrize("options", EXECUTION, ids=str)
def test_loss_weights_and_sample_weights_reach_the_gradient(options: dict[str, Any]):
    weights = np.arange(8.0, dtype=np.float32)
    model = linear(pieces.steep_loss, loss_weights=[10.0], **options)
    found = step(model, sample_weight=weights)
    np.testing.assert_allclose(found, expected_step(10.0 * weights), rtol=1e-4)


def test_a_loss_object_keeps_reduction_and_weights():
    def tenfold(dy, *, original):
        return None, 10.0 * original(dy)[1]

    weights = np.arange(8.0, dtype=np.float32)
    plain = step(linear(keras.losses.MeanSquaredError(reduction="sum")), sample_weight=weights)
    loss = pb.with_gradient(keras.losses.MeanSquaredError(reduction="sum"), tenfold)
    np.testing.assert_allclose(step(linear(loss), sample_weight=weights), 10 * plain, rtol=1e-4)


def test_loss_scaling_reaches_a_custom_loss():
    """A rule that forgot its upstream would be divided by the scale and train next to nothing."""
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=64.0)
    model = linear(pieces.steep_loss)
    model.compile(optimizer, pieces.steep_loss)
    np.testing.assert_allclose(step(model), expected_step(), rtol=1e-4)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("options", [{}, {"run_eagerly": True}], ids=str)
def test_mixed_precision(policy: str, options: dict[str, Any]):
    """Small integers are exact in both low precisions, so the gradient is exact, too."""
    rows = np.array([[1.0, 2.0], [-1.0, 1.0]], np.float32)
    dense = keras.layers.Dense(1, use_bias=False, dtype=policy)
    model = keras.Sequential(
        [
            keras.Input((2,)),
            pb.with_gradient(dense, half),
            keras.layers.Activation(straight_through, dtype=policy),
        ]
    )
    model.set_weights([np.array([[2.0], [1.0]], np.float32)])
    model.compile(keras.optimizers.SGD(1.0), pieces.steep_loss, **options)
    model.fit(rows, np.zeros([2, 1], np.float32), batch_size=2, epochs=1, verbose=0)
    outputs = rows @ [[2.0], [1.0]]
    gradient = rows.T @ (2.0 * 3.0 * outputs) / 2
    assert dense.kernel.dtype == "float32"
    np.testing.assert_allclose(kernels(model)[0], [[2.0], [1.0]] - gradient)


def test_a_weight_captured_in_low_precision_gets_its_own_dtype():
    layer = keras.layers.Dense(1, use_bias=False, dtype="mixed_float16")
    layer.build((None, 4))
    wrapped = pb.with_gradient(lambda x: layer(x), lambda dy: tf.zeros([8, 4]))
    for call in (wrapped, tf.function(wrapped)):
        x = tf.constant(ROWS)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = call(x)
        assert tape.gradient(y, layer.kernel.value).dtype == tf.float32


# Files.


def in_a_fresh_process(code: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout.splitlines()[-1]


SAVED: dict[str, Callable[[], Any]] = {
    "a function": lambda: pieces.network(straight_through),
    "an activation": lambda: pieces.network(activation=straight_through),
    "an Activation layer": lambda: pieces.network(keras.layers.Activation(straight_through)),
    "a Lambda layer": lambda: pieces.network(keras.layers.Lambda(straight_through)),
    "a replaced function": lambda: pieces.network(pb.with_gradient(tf.nn.relu, half)),
    "a layer": lambda: pieces.network(pb.with_gradient(keras.layers.Dense(3), half)),
    "a model inside": lambda: pieces.network(pb.with_gradient(body_for_saving(), half)),
}


def body_for_saving() -> keras.Model:
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(3, activation="tanh")])


@pytest.mark.parametrize("name", SAVED)
def test_a_saved_model_keeps_its_gradient(name: str, tmp_path: Path):
    model = SAVED[name]()
    model.compile("sgd", pieces.steep_loss)
    model.fit(ROWS, TARGETS, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(ROWS), model(ROWS), rtol=1e-6)
    np.testing.assert_allclose(input_gradient(loaded), input_gradient(model), rtol=1e-6)
    assert np.any(input_gradient(loaded))
    for both in (model, loaded):
        both.fit(ROWS, TARGETS, epochs=1, verbose=0, shuffle=False)
    np.testing.assert_allclose(kernels(loaded)[0], kernels(model)[0], rtol=1e-5)


def test_files_load_in_a_fresh_process(tmp_path: Path):
    wanted = []
    for index, make in enumerate(SAVED.values()):
        model = make()
        model.compile("sgd", pieces.steep_loss)
        model.save(tmp_path / f"{index}.keras")
        wanted.append(float(np.abs(input_gradient(model)).sum()))
    found = in_a_fresh_process(
        "import keras, numpy as np\n"
        "from tests.define.keras_pieces import input_gradient\n"
        f"paths = [r'{tmp_path}/%d.keras' % i for i in range({len(SAVED)})]\n"
        "models = [keras.models.load_model(path) for path in paths]\n"
        "assert models[0].loss.__name__ == 'squared', models[0].loss\n"
        "print([float(np.abs(input_gradient(m)).sum()) for m in models])"
    )
    np.testing.assert_allclose(eval(found), wanted, rtol=1e-5)


def test_a_loss_object_is_saved_with_its_model(tmp_path: Path):
    def in_no_module(dy, *, original):
        return None, original(dy)[1]

    model = linear(pb.with_gradient(keras.losses.MeanSquaredError(), second_only))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(step(loaded), step(model), rtol=1e-5)
    nameless = linear(pb.with_gradient(keras.losses.MeanSquaredError(), in_no_module))
    with pytest.raises(ExportError, match="Define it at the top level of a module"):
        nameless.save(tmp_path / "nameless.keras")


@keras.saving.register_keras_serializable("tests")
def second_only(dy, *, original):
    return None, original(dy)[1]


def of_nobody(dy, *, original):
    return 0.5 * original(dy)


SAYS_HOW = r"custom_objects=\{'of_nobody': \.\.\.\}.*safe_mode=False"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_function_that_is_not_registered_asks_for_trust(tmp_path: Path):
    path = tmp_path / "model.keras"
    model = pieces.network(pb.with_gradient(tf.nn.relu, of_nobody))
    with pytest.warns(UserWarning, match=f"of_nobody.* is not registered with Keras.*{SAYS_HOW}"):
        model.save(path)
    with pytest.raises(LoadError, match=f"the file names 'of_nobody' of {__name__},.*{SAYS_HOW}"):
        keras.models.load_model(path)
    passed = {"custom_objects": {"of_nobody": of_nobody}}
    for trust in (passed, {"safe_mode": False}):
        loaded = keras.models.load_model(path, **trust)
        np.testing.assert_allclose(input_gradient(loaded), input_gradient(model), rtol=1e-6)


def test_copies_in_one_process_need_no_trust():
    model = pieces.network(activation=pb.with_gradient(tf.nn.relu, of_nobody))
    for copied in (keras.models.clone_model(model), copy.deepcopy(model)):
        copied.set_weights(model.get_weights())
        np.testing.assert_allclose(input_gradient(copied), input_gradient(model), rtol=1e-6)
    unpickled = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(input_gradient(unpickled), input_gradient(model), rtol=1e-6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_function_that_the_loading_process_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with pytest.warns(UserWarning, match="not registered"):
        pieces.network(pb.with_gradient(tf.nn.relu, of_nobody)).save(tmp_path / "model.keras")
    monkeypatch.setitem(sys.modules, __name__, None)  # cannot be imported
    said = "names 'of_nobody' of .*Make that module importable, or pass"
    with pytest.raises(LoadError, match=said):
        keras.models.load_model(tmp_path / "model.keras", safe_mode=False)


def test_weights_files_fit(tmp_path: Path):
    model, other = (SAVED["a layer"]() for _ in range(2))
    other.set_weights([w + 1.0 for w in other.get_weights()])
    model.save_weights(tmp_path / "model.weights.h5")
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_allclose(other(ROWS), model(ROWS), rtol=1e-6)


def test_a_clone_has_the_gradient_and_weights_of_its_own():
    model = SAVED["a layer"]()
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    np.testing.assert_allclose(input_gradient(clone), input_gradient(model), rtol=1e-6)
    assert clone.count_params() == model.count_params()
    assert all(a is not b for a, b in zip(clone.variables, model.variables, strict=True))


def wrapped_in_functional() -> Any:
    inputs = keras.Input((4,))
    return keras.Model(
        inputs, keras.layers.Dense(1)(pb.with_gradient(keras.layers.Dense(3), half)(inputs))
    )


def wrapped_in_sequential() -> Any:
    layer = pb.with_gradient(keras.layers.Dense(3), half)
    return keras.Sequential([keras.Input((4,)), layer, keras.layers.Dense(1)])


def wrapped_model() -> Any:
    model = pb.with_gradient(plain_model(), half)
    model(ROWS)
    return model


def plain_model() -> Any:
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])


def loaded_function(model: Any, folder: Path, write: Callable[[Any, str], Any]) -> Any:
    write(model, str(folder / "saved"))
    loaded = tf.saved_model.load(str(folder / "saved"))
    return lambda x: next(iter(loaded.signatures["serving_default"](x).values()))


USES: dict[str, Callable[[Any, Path], Any]] = {
    "called": lambda m, _: m,
    "its call": lambda m, _: m.call,
    "cloned": lambda m, _: with_weights_of(m, keras.models.clone_model(m)),
    "deepcopied": lambda m, _: copy.deepcopy(m),
    "pickled": lambda m, _: pickle.loads(pickle.dumps(m)),
    "model.export": lambda m, f: loaded_function(m, f, lambda m, p: m.export(p, verbose=False)),
    "tf.saved_model.save": lambda m, f: loaded_function(m, f, tf.saved_model.save),
    "cut": lambda m, _: keras.Model(m.inputs, m.outputs[0]),
    "one by one": lambda m, _: lambda x: m.layers[-1](m.layers[-2](x)),
}


def with_weights_of(model: Any, clone: Any) -> Any:
    clone(ROWS)
    clone.set_weights(model.get_weights())
    return clone


@pytest.mark.filterwarnings("ignore:The structure of `inputs`")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("make", [wrapped_in_functional, wrapped_in_sequential, wrapped_model])
def test_wrapped_layers_are_layers(make: Any, use: str, tmp_path: Path):
    model = make()
    if make is wrapped_model and use in ("cut", "one by one"):
        inputs = keras.Input((4,))
        model = keras.Model(inputs, keras.layers.Dense(1)(model(inputs)))
    kernels_of = [w.numpy() for w in model.weights if w.path.endswith("kernel")]
    wanted = 0.5 * np.tile(np.linalg.multi_dot(kernels_of), [1, 8]).T
    np.testing.assert_allclose(
        input_gradient(USES[use](model, tmp_path)), wanted, rtol=1e-4, atol=1e-6
    )


def test_rules_without_a_name_can_be_copied():
    inputs = keras.Input((4,))
    layer = pb.with_gradient(keras.layers.Dense(3), lambda dy, *, original: 0.5 * original(dy))
    model = keras.Model(inputs, layer(inputs))
    wanted = 0.5 * np.tile(layer.inner.kernel.numpy().sum(1), [8, 1])
    clone = with_weights_of(model, keras.models.clone_model(model))
    for copied in (clone, copy.deepcopy(layer)):
        np.testing.assert_allclose(input_gradient(copied), wanted, rtol=1e-5)
    with pytest.raises(ExportError, match="cannot be written to a file"):
        pickle.dumps(layer)


def test_a_string_is_not_a_loss_to_change():
    with pytest.raises(RuleSignatureError, match="no gradient to replace on 'mse'"):
        pb.with_gradient("mse", half)
