"""A function that Keras and TensorFlow know under several names is one target, met once by each call."""

import inspect
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import TargetError, UnmatchedOverride
from tests.override.helpers import gradient, tenfold, times_seven

ROWS = np.array([[1.0, -1.0, 2.0]], np.float32)
FAMILIES = {
    "relu": [tf.nn.relu, keras.ops.relu, keras.activations.relu],
    "softmax": [tf.nn.softmax, keras.ops.softmax, keras.activations.softmax],
    "silu": [tf.nn.silu, keras.ops.silu, keras.activations.silu, keras.activations.swish],
    "sigmoid": [tf.sigmoid, keras.ops.sigmoid, keras.activations.sigmoid],
    "leaky_relu": [tf.nn.leaky_relu, keras.ops.leaky_relu, keras.activations.leaky_relu],
}
PAIRS = [
    pytest.param(target, called, id=f"{name}: {i} meets {k}")
    for name, family in FAMILIES.items()
    for i, target in enumerate(family)
    for k, called in enumerate(family)
]


@pytest.mark.parametrize(("target", "called"), PAIRS)
def test_each_name_means_the_function(target: Any, called: Any) -> None:
    override = pb.override({target: times_seven})
    assert gradient(override(called), ROWS) == [[-7.0] * 3]
    assert gradient(override(tf.function(lambda x: called(x))), ROWS) == [[-7.0] * 3]
    assert override.audit.rows[0].effective == 2


@pytest.mark.parametrize("target", FAMILIES["softmax"])
@pytest.mark.parametrize(
    "layer",
    [
        keras.layers.Softmax(),
        keras.layers.Activation("softmax"),
        keras.layers.Activation(tf.nn.softmax),
    ],
)
def test_layers_call_it_once(layer: Any, target: Any) -> None:
    override = pb.override({target: times_seven})
    assert gradient(override(layer), ROWS) == [[-7.0] * 3]
    assert override.audit.rows[0].effective == 1


def test_in_a_functional_model() -> None:
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.ops.relu(inputs))
    for target in FAMILIES["relu"]:
        assert gradient(pb.override({target: times_seven})(model), ROWS) == [[-7.0] * 3]


@pytest.mark.parametrize("called", FAMILIES["softmax"])
@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "graph"])
def test_a_rule_speaks_of_the_arguments_by_the_names_of_its_target(called: Any, wrap: Any) -> None:
    def rule(dy: Any, *, inputs: Any) -> Any:
        assert inputs["axis"] == -1
        return {"x": dy * inputs["x"] * 5.0}

    override = pb.override({keras.ops.softmax: rule})
    found = gradient(override(wrap(lambda x: called(x, axis=-1))), ROWS)
    assert found == (ROWS * 5.0).tolist()


def test_the_original_is_there_under_each_name() -> None:
    wanted = [[10.0, 0.0, 10.0]]
    for target in FAMILIES["relu"]:
        for called in FAMILIES["relu"]:
            assert gradient(pb.override({target: tenfold})(called), ROWS) == wanted


def test_two_names_are_one_target() -> None:
    with pytest.raises(
        TargetError, match=r"the same as keras\.activations\.relu, is a target twice"
    ):
        pb.override({keras.activations.relu: times_seven, tf.nn.relu: tenfold})
    with pytest.raises(TargetError, match=r"the same as tf\..*tanh, is a target twice"):
        pb.override({tf.tanh: times_seven, keras.ops.tanh: tenfold})


def test_arguments_that_only_one_name_has() -> None:
    override = pb.override({keras.activations.relu: times_seven})
    with override:
        found = gradient(lambda x: keras.activations.relu(x, negative_slope=0.5), ROWS)
    assert found == [[-7.0] * 3]
    assert override.audit.rows[0].effective == 1


@pytest.mark.parametrize(
    ("target", "called"),
    [
        (keras.ops.hard_silu, lambda x: tf.multiply(x, x)),
        (keras.ops.tanh_shrink, lambda x: tf.subtract(x, x)),
        (keras.ops.hard_tanh, lambda x: tf.clip_by_value(x, -1.0, 1.0)),
        (keras.ops.ravel, lambda x: tf.reshape(x, [-1])),
        (keras.ops.dot, lambda x: tf.matmul(x, x, transpose_b=True)),
        (keras.layers.Softmax, tf.nn.softmax),
    ],
)
def test_what_is_computed_with_a_function_is_not_that_function(target: Any, called: Any) -> None:
    with pytest.raises(UnmatchedOverride, match="did not run here"):
        pb.override({target: times_seven})(called)(tf.constant(ROWS))


def test_one_target_twice_is_refused() -> None:
    with pytest.raises(TargetError, match=r"tf.nn.relu is a target twice, with the rules times_se"):
        pb.override([(tf.nn.relu, times_seven), (tf.nn.relu, tenfold)])
    with pytest.raises(TargetError, match="'Relu' is a target twice"):
        pb.override([("Relu", times_seven), ("Relu", tenfold)])
    with pytest.raises(TargetError, match="is a target twice"):
        pb.override({tf.nn.silu: times_seven, inspect.unwrap(tf.nn.silu): tenfold})
