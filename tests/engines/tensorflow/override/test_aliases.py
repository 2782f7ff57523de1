"""Which functions are names of one function, found by trying them out."""

import subprocess
import sys
from typing import Any

import keras
import pytest
import tensorflow as tf

from pullback.engines.tensorflow.override.aliases import aliases_of
from pullback.engines.tensorflow.override.op_names import innermost


@pytest.mark.parametrize(
    ("function", "below", "names"),
    [
        (keras.activations.softmax, [keras.ops.softmax, tf.nn.softmax], {"logits": "x"}),
        (keras.activations.relu, [tf.nn.relu], {"features": "x"}),
        (keras.ops.matmul, [tf.matmul], {"a": "x1", "b": "x2"}),
        (keras.ops.stack, [tf.stack], {"values": "x"}),
        (keras.ops.expand_dims, [tf.expand_dims], {"input": "x"}),
        (keras.ops.dot, [], {}),  # for matrices only it is tf.matmul
        (keras.ops.hard_silu, [], {}),  # x times something
        (keras.ops.flip, [], {}),  # tf.reverse needs an axis
        (keras.activations.linear, [], {}),
        (keras.random.dropout, [], {}),  # keeps state, so it is not tried out
        (tf.nn.relu, [], {}),
    ],
)
def test_aliases(function: Any, below: list[Any], names: dict[str, str]) -> None:
    found = aliases_of(innermost(function))
    assert [alias.function for alias in found] == [innermost(f) for f in below]
    assert (found[-1].names if found else {}) == names


PROGRAM = """
import tensorflow as tf, keras, pullback as pb
pb.override({keras.activations.relu: lambda dy: dy})
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
print(len(tf.config.list_logical_devices("CPU")))
"""


def test_trying_out_runs_no_op_so_devices_can_still_be_set_up() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert ran.stdout.strip() == "2", ran.stderr
