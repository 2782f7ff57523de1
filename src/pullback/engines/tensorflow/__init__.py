"""TensorFlow and Keras as an engine of pullback."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pullback.extend import Engine


def engine() -> Engine:
    """The engine, once its private parts have been seen to work in this TensorFlow."""
    from pullback.engines.tensorflow.loading import load

    return load()
