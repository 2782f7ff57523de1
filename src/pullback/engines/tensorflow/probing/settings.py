"""Settings of the whole process that decide what functions compute."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private

# What switches them, and whether they are as TensorFlow and Keras have them by default.
_DEFAULT: dict[str, Callable[[], Any]] = {
    "tf.compat.v1.disable_eager_execution": tf.compat.v1.executing_eagerly_outside_functions,
    "tf.compat.v1.disable_control_flow_v2": tf.compat.v1.control_flow_v2_enabled,
    "tf.compat.v1.disable_resource_variables": tf.compat.v1.resource_variables_enabled,
    "tf.config.run_functions_eagerly": lambda: not tf.config.functions_run_eagerly(),
    "tf.config.optimizer.set_jit": lambda: not tf.config.optimizer.get_jit(),
    "tf.config.experimental.enable_tensor_float_32_execution": (
        tf.config.experimental.tensor_float_32_execution_enabled
    ),
    "tf.experimental.numpy.experimental_enable_numpy_behavior": lambda: "T" not in vars(tf.Tensor),
    "tf.debugging.enable_check_numerics": lambda: not private.op_callbacks(),
    "keras.config.set_dtype_policy": lambda: keras.config.dtype_policy().name == "float32",
    "keras.config.set_floatx": lambda: keras.config.floatx() == "float32",
    "keras.config.set_epsilon": lambda: keras.config.epsilon() == 1e-7,
}


# Where a file may have put a function of its own in place of the framework's.
_PLACES = {
    "tf": tf,
    "tf.nn": tf.nn,
    "tf.math": tf.math,
    "tf.linalg": tf.linalg,
    "tf.raw_ops": tf.raw_ops,
    "keras.activations": keras.activations,
    "keras.layers": keras.layers,
    "keras.losses": keras.losses,
    "keras.ops": keras.ops,
}

# The same functions once more: TensorFlow has them under other names as well, Keras as they are when this is imported,
# which is after the first file was.
_SAME: dict[str, dict[str, Any]] = {
    "tf": vars(tf.compat.v2),
    "tf.nn": vars(tf.compat.v2.nn),
    "tf.math": vars(tf.compat.v2.math),
    "tf.linalg": vars(tf.compat.v2.linalg),
    "tf.raw_ops": vars(tf.compat.v2.raw_ops),
    **{place: dict(vars(module)) for place, module in _PLACES.items() if place[:2] != "tf"},
}


def changed_settings() -> list[str]:
    """Those that are not as they are by default, by what switches them; and functions that were replaced."""
    switched = [name for name, is_default in _DEFAULT.items() if not is_default()]
    return [
        *switched,
        *(
            f"{place}.{name}"
            for place, module in _PLACES.items()
            for name, value in list(vars(module).items())
            if callable(value) and not name.startswith("_")
            if value is not _SAME[place].get(name, value) or _is_foreign(value)
        ),
    ]


def _is_foreign(value: Any) -> bool:
    home = getattr(value, "__module__", None)
    return isinstance(home, str) and home.partition(".")[0] not in ("tensorflow", "keras")
