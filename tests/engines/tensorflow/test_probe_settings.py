"""Settings of the whole process that the engine knows of."""

import subprocess
import sys

from pullback.engines.tensorflow.probing import changed_settings

PROGRAM = """
import keras
import tensorflow as tf
import pullback
from pullback.engines.tensorflow.probing import changed_settings

with pullback.override({tf.nn.elu: lambda dy: dy}):
    tf.nn.elu(tf.ones([2]))
tf.function(lambda x: x * 2)(keras.layers.Dense(2)(tf.ones([2, 2])))
SWITCHES = {
    "tf.config.run_functions_eagerly": lambda: tf.config.run_functions_eagerly(True),
    "tf.config.optimizer.set_jit": lambda: tf.config.optimizer.set_jit(True),
    "tf.config.experimental.enable_tensor_float_32_execution": (
        lambda: tf.config.experimental.enable_tensor_float_32_execution(False)
    ),
    "tf.experimental.numpy.experimental_enable_numpy_behavior": (
        tf.experimental.numpy.experimental_enable_numpy_behavior
    ),
    "tf.debugging.enable_check_numerics": tf.debugging.enable_check_numerics,
    "keras.config.set_dtype_policy": (
        lambda: keras.mixed_precision.set_global_policy("mixed_bfloat16")
    ),
    "keras.config.set_floatx": lambda: tf.keras.backend.set_floatx("float64"),
    "keras.config.set_epsilon": lambda: keras.config.set_epsilon(1e-5),
    "tf.nn.relu": lambda: setattr(tf.nn, "relu", lambda x: x),
    "tf.compat.v1.disable_control_flow_v2": tf.compat.v1.disable_control_flow_v2,
    "tf.compat.v1.disable_resource_variables": tf.compat.v1.disable_resource_variables,
    "tf.compat.v1.disable_eager_execution": tf.compat.v1.disable_eager_execution,
}
known = changed_settings()
assert known == [], known
for name, switch in SWITCHES.items():
    switch()
    assert name in changed_settings(), name
print("all seen")
"""


def test_every_switch_is_seen() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert ran.stdout.strip() == "all seen", ran.stderr


def test_nothing_is_changed_here() -> None:
    assert changed_settings() == []
