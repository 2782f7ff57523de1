"""Small things that the tests of overrides share."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

X = np.array([1.0, -1.0, 2.0], np.float32)
PLAIN_RELU = [1.0, 0.0, 1.0]
SEVEN = [-7.0, -7.0, -7.0]


@keras.saving.register_keras_serializable("tests")
def times_seven(dy: Any) -> Any:
    return -7.0 * dy


@keras.saving.register_keras_serializable("tests")
def tenfold(dy: Any, *, original: Any) -> Any:
    return 10.0 * original(dy)


def gradient(function: Callable[..., Any], *xs: Any) -> Any:
    """The gradient of the sum of the outputs, as nested lists; one of them for one argument."""
    tensors = [tf.constant(x) for x in xs] or [tf.constant(X)]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        outputs = function(*tensors)
    found = [
        g if g is None else tf.convert_to_tensor(g).numpy().tolist()
        for g in tape.gradient(outputs, tensors)
    ]
    return found[0] if len(found) == 1 else found
