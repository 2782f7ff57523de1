"""Loading the engine: before any op runs, and not on a TensorFlow that is not what it was."""

import subprocess
import sys

import pytest

from pullback.engines.tensorflow import loading
from pullback.engines.tensorflow.versions import SUPPORTED
from pullback.errors import EngineError

DEVICES_AFTERWARDS = """
import tensorflow as tf
import pullback as pb
relu = pb.with_gradient(tf.nn.relu, lambda dy: 3.0 * dy)
override = pb.override({tf.nn.relu: lambda dy: dy})
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
x = tf.constant([1.0])
with tf.GradientTape() as tape:
    tape.watch(x)
    y = relu(x)
print(len(tf.config.list_logical_devices()), float(tape.gradient(y, x)[0]))
"""


def test_devices_can_be_set_up_after_definitions() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DEVICES_AFTERWARDS], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["2", "3.0"]


def test_a_missing_symbol_is_explained() -> None:
    with (
        pytest.raises(EngineError, match=f"works with {SUPPORTED}.*gone.*Install a TensorFlow"),
        loading._explained(),
    ):
        raise ImportError("gone")
