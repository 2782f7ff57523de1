"""Loading the engine: versions, the canary, and what TensorFlow and Keras must be told once."""

from __future__ import annotations

from pullback._engine import Engine
from pullback.errors import EngineError


def load() -> Engine:
    """The engine, or an error that names the supported versions."""
    import tensorflow as tf

    try:
        from pullback.engines.tensorflow import tf_private

        tf_private.canary()
    except (ImportError, AttributeError, TypeError) as error:
        raise EngineError(
            f"this is TensorFlow {tf.__version__}; pullback works with {'2.16 to 2.21'}, and an internal part that it "
            f"builds on is not as it was there ({error!r}). Install a TensorFlow of that range."
        ) from error
    from pullback._rule import ORIGINS
    from pullback.engines.tensorflow import keras_saving, vectorized
    from pullback.engines.tensorflow.engine import TensorFlowEngine

    vectorized.install()
    keras_saving.install()
    ORIGINS.append(tf_private.origin_of_line)
    return TensorFlowEngine()
