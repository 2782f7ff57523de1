"""Custom gradients in a module, and tensors to try them with."""

from typing import Any

import numpy as np
import tensorflow as tf


def is_custom_gradient(value: Any) -> bool:
    """Whether a function was made by `tf.custom_gradient`."""
    decorator = getattr(value, "_tf_decorator", None)
    return getattr(decorator, "decorator_name", "") == "custom_gradient"


def sample(shape: tuple[int, ...], dtype: str, *, positive: bool, which: int = 0) -> Any:
    """A tensor of ordinary numbers, always the same ones for a shape and a number."""
    rng = np.random.default_rng([len(shape), which])
    kind = tf.as_dtype(dtype)
    if kind.is_integer:
        return tf.constant(rng.integers(0, 2, shape), kind)
    values = rng.uniform(0.3, 2, shape) if positive else rng.normal(size=shape)
    return tf.constant(values + 1j * rng.normal(size=shape) if kind.is_complex else values, kind)
