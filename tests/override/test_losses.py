"""Keras' cross-entropies start from what a softmax or sigmoid was computed from; an overridden one is not passed by."""

import itertools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from tests.override.helpers import tenfold

X = np.random.default_rng(0).normal(size=(8, 3)).astype("f")
LABELS = np.array([0, 1, 2, 3] * 2)
ONE_HOT = np.eye(4, dtype="f")[LABELS]
BITS = np.random.default_rng(1).integers(0, 2, (8, 4)).astype("f")
KERNEL = np.random.default_rng(2).normal(size=(3, 4)).astype("f")


def zero(dy: Any) -> Any:
    return tf.zeros_like(dy)


class Plain(keras.Layer):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def call(self, x: Any) -> Any:
        return self.function(x)


def over_columns(x: Any) -> Any:
    """With transpositions around the softmax, so that its output is not that of the op."""
    return tf.transpose(keras.activations.softmax(tf.transpose(x), axis=0))


def dense(**options: Any) -> keras.layers.Dense:
    start = keras.initializers.Constant(KERNEL)
    return keras.layers.Dense(4, kernel_initializer=start, use_bias=False, **options)


def sequential(*layers: Any) -> Any:
    return keras.Sequential([keras.Input((3,)), *layers])


def functional(function: Callable[[Any], Any]) -> Any:
    inputs = keras.Input((3,))
    return keras.Model(inputs, function(dense()(inputs)))


SOFTMAX: dict[str, Callable[[], Any]] = {
    "string": lambda: sequential(dense(), keras.layers.Activation("softmax")),
    "Softmax layer": lambda: sequential(dense(), keras.layers.Softmax()),
    "of Dense": lambda: sequential(dense(activation="softmax")),
    "tf function": lambda: sequential(dense(), keras.layers.Activation(tf.nn.softmax)),
    "in a layer": lambda: sequential(dense(), Plain(tf.nn.softmax)),
    "keras.ops": lambda: functional(keras.ops.softmax),
    "another axis": lambda: sequential(dense(), Plain(over_columns)),
}
SIGMOID: dict[str, Callable[[], Any]] = {
    "string": lambda: sequential(dense(), keras.layers.Activation("sigmoid")),
    "of Dense": lambda: sequential(dense(activation="sigmoid")),
    "in a layer": lambda: sequential(dense(), Plain(tf.sigmoid)),
    "keras.ops": lambda: functional(keras.ops.sigmoid),
}
WAYS: dict[str, dict[str, Any]] = {"graph": {}, "eager": {"run_eagerly": True}}
CASES = [
    *itertools.product(
        SOFTMAX.values(),
        [tf.nn.softmax, "Softmax", keras.ops.softmax, keras.activations.softmax],
        [("categorical_crossentropy", ONE_HOT), ("sparse_categorical_crossentropy", LABELS)],
    ),
    *itertools.product(
        SIGMOID.values(),
        [tf.sigmoid, "Sigmoid", keras.ops.sigmoid, keras.activations.sigmoid],
        [("binary_crossentropy", BITS)],
    ),
]


def moved(model: Any, original: Any, loss: str, labels: Any, **options: Any) -> Any:
    """What one step of gradient descent takes off the kernel."""
    model.compile(keras.optimizers.SGD(1.0), loss, **options)
    model.fit(X, labels, batch_size=8, verbose=0)
    return KERNEL - original.get_weights()[0]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("make", "target", "loss"), CASES)
def test_a_rule_for_an_activation_runs_under_a_loss_that_looks_behind_it(
    make: Callable[[], Any], target: Any, loss: tuple[str, Any], way: str
) -> None:
    model = make()
    stopped = pb.override({target: zero})
    assert np.abs(moved(stopped(model), model, *loss, **WAYS[way])).max() == 0.0
    assert stopped.audit.rows[0].effective >= 1


@pytest.mark.parametrize("way", [*WAYS, "xla"])
@pytest.mark.parametrize("name", SOFTMAX)
def test_the_gradient_of_the_rule_is_the_one_that_mathematics_gives(name: str, way: str) -> None:
    if name == "another axis" and way == "xla":
        way = "graph"
    model = SOFTMAX[name]()
    options = {"jit_compile": True} if way == "xla" else WAYS[way]
    change = moved(
        pb.override({tf.nn.softmax: tenfold})(model),
        model,
        "categorical_crossentropy",
        ONE_HOT,
        **options,
    )
    logits = X.astype("d") @ KERNEL.astype("d")
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(change, 10 * X.T @ (p - ONE_HOT) / 8, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("traced", [False, True])
def test_in_a_block_the_loss_starts_from_the_activation(traced: bool) -> None:
    def step() -> Any:
        with tf.GradientTape() as tape, pb.override({"Softmax": tenfold}):
            tape.watch(x)
            loss = keras.losses.categorical_crossentropy(ONE_HOT, keras.ops.softmax(x))
        return tape.gradient(loss, x)

    x = tf.constant(X @ KERNEL)
    p = tf.nn.softmax(tf.cast(x, tf.float64)).numpy()
    found = (tf.function(step) if traced else step)()
    np.testing.assert_allclose(found, 10 * (p - ONE_HOT), rtol=1e-4, atol=1e-5)


def test_what_is_not_overridden_keeps_its_logits() -> None:
    with pb.override({tf.nn.relu: zero}):
        tf.nn.relu(tf.Variable([1.0]))
        found: Any = keras.activations.softmax(tf.constant(X))
    assert hasattr(found, "_keras_logits")


def test_a_loaded_model_is_not_passed_by(tmp_path: Any) -> None:
    path = tmp_path / "model.keras"
    pb.override({tf.nn.softmax: pb.rules.scale(0.0)})(SOFTMAX["string"]()).save(path)
    loaded = keras.models.load_model(path)
    change = moved(loaded, loaded, "categorical_crossentropy", ONE_HOT)
    assert np.abs(change).max() == 0.0


def test_the_audit_calls_nothing_effective_through_which_no_gradient_flowed() -> None:
    changed, x = pb.override({tf.nn.relu: zero}), tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape, changed:
        tf.nn.relu(x)
        y = x * 2.0
    assert tape.gradient(y, x).numpy().tolist() == [2.0, 2.0]
    row = changed.audit.rows[0]
    assert (row.matched, row.reachable, row.effective, row.ran) == (1, 1, 0, 0)
    assert "met 1 time (1 through which no gradient has flowed), rule ran 0 times" in str(
        changed.audit
    )
