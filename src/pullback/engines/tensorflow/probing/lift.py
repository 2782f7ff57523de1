"""Keras layers and losses at a higher precision: rebuilt from their configuration."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.probing.arguments import Arguments


def lifted_layer(fn: Any, arguments: Arguments, lift: Any) -> tuple[Any, Sequence[Any]] | None:
    """A copy of a Keras layer, model or loss that computes in float64, and its variables."""
    if lift(tf.float32) is not tf.float64 or not hasattr(fn, "get_config"):
        return None
    try:
        copy = type(fn).from_config({**fn.get_config(), "dtype": "float64"})
        if not hasattr(fn, "get_weights"):
            return copy, ()
        args, kwargs = arguments.build(_doubled(arguments), lift)
        copy(*args, **kwargs)
        copy.set_weights(fn.get_weights())
        same = np.allclose(_plain(copy(*args, **kwargs)), _plain(fn(*args, **kwargs)), 1e-2, 1e-3)
    except Exception:
        return None
    return (copy, [w.value for w in copy.trainable_weights]) if same else None


def _doubled(arguments: Arguments) -> list[Any]:
    return [tf.constant(x) for x in arguments.start()]


def _plain(result: Any) -> Any:
    return np.concatenate([np.ravel(np.asarray(t, np.float64)) for t in tf.nest.flatten(result)])
