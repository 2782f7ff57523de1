"""Which op a function runs, and what it is called in public."""

from typing import Any

import keras
import pytest
import tensorflow as tf

from pullback.engines.tensorflow.override.op_names import op_types_of, public_name


@pytest.mark.parametrize(
    ("function", "types", "name"),
    [
        (tf.nn.relu, ("Relu",), "tf.nn.relu"),
        (tf.stack, ("Pack",), "tf.stack"),
        (tf.exp, ("Exp",), "tf.exp"),
        (tf.nn.gelu, (), "tf.nn.gelu"),
        (keras.activations.silu, (), "keras.activations.silu"),
    ],
)
def test_which_op_a_function_runs(function: Any, types: tuple[str, ...], name: str) -> None:
    assert op_types_of(function) == types
    assert public_name(function) == name
