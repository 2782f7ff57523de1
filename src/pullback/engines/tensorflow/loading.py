"""Loading the engine: versions, the canary, and what is installed in TensorFlow and Keras once."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Generator

from pullback.engines.tensorflow.versions import unsupported
from pullback.extend import Engine


def load() -> Engine:
    """The engine; no op runs here, because devices and strategies may have to be set up before any op."""
    with _explained():
        from pullback.engines.tensorflow import tf_private
        from pullback.engines.tensorflow.attach import (
            as_argument,
            loss_scale,
            transposing,
            vectorized,
        )
        from pullback.engines.tensorflow.engine import TensorFlowEngine
        from pullback.engines.tensorflow.keras_support import quantized as keras_layers
        from pullback.engines.tensorflow.keras_support import saving as keras_saving
        from pullback.engines.tensorflow.override import saving_refused
        from pullback.engines.tensorflow.tf_private import autograph

        # Files with this layer in them are read after nothing but the import of pullback.
        importlib.import_module("pullback.engines.tensorflow.keras_support.checkpoint_layer")
        # Knows TensorFlow's own decorator, before a program puts ours in its place.
        importlib.import_module("pullback.engines.tensorflow.tf_private.recording")
        tf_private.stop_at_calls()
    autograph.leave_unconverted("pullback")
    in_tensorflow = (as_argument, loss_scale, vectorized, transposing, saving_refused)
    for part in (*in_tensorflow, keras_saving, keras_layers):
        part.install()
    return TensorFlowEngine(prove)


def prove() -> bool:
    """Run the canary, if this is not part of its run: does TensorFlow still do what the engine builds on?"""
    with _explained():
        from pullback.engines.tensorflow.tf_private import canary
    return canary.require()


@contextlib.contextmanager
def _explained() -> Generator[None]:
    """An error in here means a TensorFlow that is not supported."""
    try:
        yield
    except (ImportError, AttributeError, TypeError) as error:
        raise unsupported(repr(error)) from error
