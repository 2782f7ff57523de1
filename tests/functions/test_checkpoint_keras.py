"""Checkpoints in Keras models: the context of a call, losses that layers add, variables that they make."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb


@keras.saving.register_keras_serializable("checkpoint_tests")
class Penalised(keras.layers.Layer):
    """Adds to the loss by itself and by a regulariser of what its inner layer gives."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(3, activity_regularizer=keras.regularizers.L2(0.1))

    def build(self, shape):
        self.dense.build(shape)

    def call(self, x):
        y = self.dense(x)
        self.add_loss(tf.reduce_mean(y**4))
        return tf.tanh(y)


def block(seed):
    return keras.Sequential(
        [
            keras.layers.Dense(6),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.3, seed=seed),
            keras.layers.ReLU(),
        ]
    )


def fitted(wrap, make_layer, **compiled):
    """The losses and weights of a model after a few steps."""
    keras.utils.set_random_seed(3)
    layers = [wrap(make_layer()), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input([5]), *layers])
    model.compile("sgd", "mse", **compiled)
    x = np.random.default_rng(0).normal(size=(24, 5)).astype("float32")
    history = model.fit(x, x[:, :1], batch_size=8, epochs=2, shuffle=False, verbose=0)
    return history.history["loss"], model


@pytest.mark.parametrize("compiled", [{}, {"run_eagerly": True}, {"jit_compile": True}], ids=str)
@pytest.mark.parametrize("make_layer", [lambda: block(1), Penalised], ids=["training", "losses"])
def test_fit_is_the_same_as_without(make_layer, compiled):
    wanted, plain = fitted(lambda layer: layer, make_layer, **compiled)
    found, model = fitted(pb.keras.Checkpoint, make_layer, **compiled)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert len(model.losses) == len(plain.losses)
    for a, b in zip(model.weights, plain.weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_a_loss_added_outside_of_a_model_has_its_gradient():
    layer = Penalised()
    x = tf.constant([[1.0, -2.0]])
    layer(x)
    with tf.GradientTape() as tape:
        pb.functions.checkpoint(layer)(x)
        added = tf.add_n(layer.losses)
    (gradient,) = tape.gradient(added, [layer.dense.bias])
    y = x.numpy() @ layer.dense.kernel.numpy()
    np.testing.assert_allclose(gradient, (0.2 * y + 4 * y**3 / 3)[0], rtol=1e-5)


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_layers_are_built_in_the_first_run(mode):
    dense, norm = keras.layers.Dense(3), keras.layers.BatchNormalization()
    run = pb.functions.checkpoint(lambda x: tf.tanh(norm(dense(x), training=True)))
    x = tf.random.stateless_normal([6, 4], [1, 2])

    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = run(x) ** 2
        return tape.gradient(y, x)

    found = (step if mode == "eager" else tf.function(step, jit_compile=mode == "xla"))(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.tanh(norm(dense(x), training=True)) ** 2
    np.testing.assert_allclose(found, tape.gradient(y, x), rtol=1e-4, atol=1e-6)


def test_an_exported_model_has_the_gradient(tmp_path):
    model = keras.Sequential([keras.Input([5]), pb.keras.Checkpoint(block(1)), Penalised()])
    model.export(tmp_path, verbose=False)
    x = tf.random.stateless_normal([2, 5], [1, 2])
    found = []
    loaded = tf.saved_model.load(tmp_path)
    for run in model, loaded.serve:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = run(x)
        found.append(tape.gradient(y, x))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-7)


def test_forward_mode_with_constants():
    x = tf.constant([0.3, 1.2])
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        y = pb.functions.checkpoint(lambda x: tf.sin(x) ** 3 * 2.0)(x)
    wanted = 6 * np.sin(x) ** 2 * np.cos(x)
    np.testing.assert_allclose(accumulator.jvp(y), wanted, rtol=1e-6)
