"""Keras where layers are reached in other ways: wrappers, blocks inside `call`, integers; Grad-CAM on real models."""

import re
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import UnmatchedOverride, UnreachableOverride
from tests.define.test_keras import in_a_fresh_process
from tests.override.helpers import times_seven
from tests.override.keras_models import ONES, ROWS, functional, input_gradient

STEPS = np.random.default_rng(1).normal(size=(2, 5, 4)).astype("f")


def doubled(*dy: Any, original: Any) -> Any:
    return tf.nest.map_structure(lambda g: 2.0 * g, original(*dy))


def sequence_gradient(model: Any) -> Any:
    x = tf.constant(STEPS)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(model(x) ** 2)
    return tape.gradient(y, x).numpy()


def time_distributed() -> Any:
    return keras.layers.TimeDistributed(keras.layers.Dense(2, name="inner"))


def bidirectional() -> Any:
    return keras.layers.Bidirectional(keras.layers.LSTM(3))


class Past(keras.Layer):
    """Runs the `call` of another layer without calling the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = keras.layers.Dense(2, name="inner")

    def build(self, shape: Any) -> None:
        self.layer.build(shape)

    def call(self, x: Any) -> Any:
        return self.layer.call(x)


WRAPPED: dict[str, tuple[Any, Any]] = {
    "layer": (time_distributed, lambda w: w.layer),
    "class": (time_distributed, lambda w: keras.layers.Dense),
    "name": (time_distributed, lambda w: re.compile("inner")),
    "inside": (time_distributed, lambda w: pb.inside(w.layer, "MatMul")),
    "both directions": (bidirectional, lambda w: keras.layers.LSTM),
    "a wrapper of the user's": (Past, lambda w: w.layer),
    "its class": (Past, lambda w: keras.layers.Dense),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_layers_inside_wrappers(name: str) -> None:
    make, target = WRAPPED[name]
    wrapper = make()
    inputs = keras.Input((5, 4))
    model = keras.Model(inputs, wrapper(inputs))
    twin = pb.override({target(wrapper): doubled})(model)
    wanted = 2.0 * sequence_gradient(model)
    for function in (twin, tf.function(lambda x: twin(x))):
        np.testing.assert_allclose(sequence_gradient(function), wanted, rtol=1e-4, atol=1e-6)


def test_a_class_that_calls_the_one_it_inherits_from_is_one_unit() -> None:
    class Twice(keras.layers.Dense):
        def call(self, x: Any) -> Any:
            return 2.0 * super().call(x)

    class Outer(keras.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.plain, self.twice = keras.layers.Dense(3, **ONES), Twice(1, **ONES)

        def call(self, x: Any) -> Any:
            return self.twice(self.plain(x))

    model = Outer()
    assert input_gradient(model) == 6.0
    assert input_gradient(pb.override({keras.layers.Dense: doubled})(model)) == 24.0


# An override in the `call` of a layer.


class OpensBlock(keras.Layer):
    def call(self, x: Any) -> Any:
        with pb.override({self.target: times_seven}):
            return tf.nn.relu(x)

    target = staticmethod(tf.nn.relu)


class CallsOverridden(keras.Layer):
    function = staticmethod(pb.override({tf.nn.relu: times_seven})(tf.nn.relu))

    def call(self, x: Any) -> Any:
        return self.function(x)


@pytest.mark.parametrize("layer", [OpensBlock, CallsOverridden])
def test_an_override_inside_a_layer(layer: Any) -> None:
    inputs = keras.Input((3,))
    model = keras.Model(inputs, layer()(keras.layers.Dense(2, **ONES)(inputs)))
    assert input_gradient(model) == -14.0
    model.compile(keras.optimizers.SGD(1e-3), "mse")
    before = model.layers[1].kernel.numpy()
    model.fit(ROWS, np.zeros((4, 2), "f"), verbose=0)
    # Two outputs of 3: the gradient of their mean square is 3 for each weight, and −7 times that here.
    np.testing.assert_allclose(model.layers[1].kernel - before, 0.021, rtol=1e-3)


def test_an_override_inside_a_layer_is_judged_when_it_runs_in_earnest() -> None:
    class Wrong(OpensBlock):
        target = staticmethod(tf.nn.gelu)

    inputs = keras.Input((3,))
    model = keras.Model(inputs, Wrong()(inputs))
    with pytest.raises(UnmatchedOverride, match="gelu did not run here"):
        model(ROWS)


def test_building_a_model_in_a_block_is_still_refused() -> None:
    refused = pytest.raises(UnreachableOverride, match="a Keras model was built here")
    with refused, pb.override({tf.nn.relu: times_seven}):
        functional()


# Integers in, weights to train.


def fives(dy: Any, *, variables: Any) -> Any:
    return None, [5.0 * tf.ones(v.shape) for v in variables]


def table_gradient(function: Any, table: Any) -> float:
    with tf.GradientTape() as tape:
        y = function(tf.constant([[0, 1, 1]]))
    return float(tf.reduce_sum(tf.convert_to_tensor(tape.gradient(y, table))))


def test_an_embedding_as_target() -> None:
    embedding = keras.layers.Embedding(4, 2)
    model = keras.Sequential([keras.Input((3,), dtype="int32"), embedding])
    for target in (embedding, keras.layers.Embedding):
        changed = pb.override({target: fives})
        twin = changed(model)
        for function in (twin, tf.function(lambda x, twin=twin: twin(x))):
            assert table_gradient(function, embedding.embeddings.value) == 40.0
        assert changed.audit.rows[0].effective >= 1
    assert table_gradient(model, embedding.embeddings.value) == 6.0
    twin.compile(keras.optimizers.SGD(1.0), "mse")
    before = embedding.embeddings.numpy()
    twin.fit(np.zeros((2, 3), "i"), np.zeros((2, 3, 2), "f"), verbose=0)
    np.testing.assert_allclose(embedding.embeddings - before, -5.0, rtol=1e-5)


def test_a_rule_that_does_not_ask_for_variables_has_nothing_to_do_there() -> None:
    embedding = keras.layers.Embedding(4, 2)
    model = keras.Sequential([keras.Input((3,), dtype="int32"), embedding])
    with pytest.raises(UnreachableOverride, match="without any floating-point tensor"):
        pb.override({embedding: times_seven})(model)(np.zeros((1, 3), "i"))


def test_another_gradient_for_functions_of_integers() -> None:
    embedding = keras.layers.Embedding(4, 2)
    embedding.build((None, 3))
    table = tf.Variable(tf.ones([4, 2]))
    pairs = [
        (pb.with_gradient(embedding, fives), embedding.embeddings.value),
        (pb.with_gradient(lambda i: tf.gather(table, i), fives), table),
    ]
    for function, variable in pairs:
        for each in (function, tf.function(lambda i, f=function: f(i))):
            assert table_gradient(each, variable) == 40.0


# Grad-CAM.


def guided(dy: Any, *, original: Any) -> Any:
    return tf.where(dy > 0, original(dy), tf.zeros_like(dy))


def made_by_hand(model: Any) -> Any:
    """The model with its ReLU layers replaced by functions with the guided gradient, by tf.custom_gradient."""

    def rectified(most: float | None) -> Any:
        @tf.custom_gradient
        def guided_relu(x: Any) -> Any:
            y = tf.nn.relu(x) if most is None else tf.nn.relu6(x)
            passes = (x > 0) if most is None else (x > 0) & (x < most)
            return y, lambda dy: tf.where((dy > 0) & passes, dy, tf.zeros_like(dy))

        return guided_relu

    def replaced(layer: Any) -> Any:
        is_relu = getattr(layer, "activation", None) is keras.activations.relu
        if isinstance(layer, keras.layers.ReLU):
            return keras.layers.Lambda(rectified(6.0), name=layer.name)
        if isinstance(layer, keras.layers.Activation) and is_relu:
            return keras.layers.Lambda(rectified(None), name=layer.name)
        return type(layer).from_config(layer.get_config())

    clone = keras.models.clone_model(model, clone_function=replaced)
    clone.set_weights(model.get_weights())
    return clone


def lively(model: Any) -> Any:
    """The model with other statistics than new ones, which let next to nothing through so many layers."""
    chance = np.random.default_rng(0)
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            scale, shift, mean, _ = (w.shape for w in layer.get_weights())
            moved = [chance.uniform(0.5, 2.0, scale), chance.normal(0.0, 0.3, shift)]
            layer.set_weights([*moved, np.zeros(mean), np.full(mean, 0.05)])
    return model


@pytest.mark.parametrize(
    ("architecture", "target", "layer"),
    [("MobileNetV2", tf.nn.relu6, "block_13_expand"), ("ResNet50", tf.nn.relu, "conv4_block1_out")],
)
def test_grad_cam(architecture: str, target: Any, layer: str) -> None:
    keras.utils.set_random_seed(2)
    make = getattr(keras.applications, architecture)
    model = lively(make(weights=None, input_shape=(64, 64, 3), classifier_activation=None))
    picture = np.random.default_rng(0).normal(size=(1, 64, 64, 3)).astype("f")

    @tf.function
    def gradients(cut: Any, x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            features, scores = cut(x)
            score = tf.reduce_max(scores)
        return tape.gradient(score, [features, x])

    found, wanted, plain = (
        gradients(keras.Model(m.input, [m.get_layer(layer).output, m.output]), tf.constant(picture))
        for m in (pb.override({target: guided})(model), made_by_hand(model), model)
    )
    for one, other in zip(found, wanted, strict=True):
        largest = float(np.abs(other).max())
        assert largest > 0.0
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4 * largest)
    assert np.abs(wanted[1] - plain[1]).max() > 0.1 * np.abs(plain[1]).max()


# Files.


@pytest.mark.parametrize("imports", ["pullback, keras", "keras, pullback", "pullback, tensorflow"])
def test_importing_pullback_is_enough_to_load(imports: str, tmp_path: Any) -> None:
    model = pb.override({tf.nn.relu: times_seven})(functional())
    model.save(tmp_path / "whole.keras")
    keras.Model(model.input, model.output).save(tmp_path / "cut.keras")
    found = in_a_fresh_process(
        f"import {imports}\n"
        "import tests.override.helpers, tensorflow as tf\n"
        "def gradient(name):\n"
        f"    model = tf.keras.models.load_model(r'{tmp_path}/' + name)\n"
        "    x = tf.ones([1, 3])\n"
        "    with tf.GradientTape() as tape:\n"
        "        tape.watch(x)\n"
        "        y = model(x)\n"
        "    return tape.gradient(y, x).numpy().tolist()\n"
        "print(gradient('whole.keras') + gradient('cut.keras'))"
    )
    np.testing.assert_allclose(eval(found), -686.0, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_rule_of_a_script_is_saved_with_a_warning(tmp_path: Any, monkeypatch: Any) -> None:
    import __main__

    def rule_of_main(dy: Any) -> Any:
        return dy

    rule_of_main.__module__, rule_of_main.__qualname__ = "__main__", "rule_of_main"
    monkeypatch.setattr(__main__, "rule_of_main", rule_of_main, raising=False)
    model = pb.override({tf.nn.relu: rule_of_main})(functional())
    with pytest.warns(UserWarning, match="'rule_of_main' is defined in __main__.*no other process"):
        model.save(tmp_path / "model.keras")
