"""Which versions of TensorFlow the engine works with; apart from `tf_private`, which others cannot even import."""

from pullback.errors import EngineError

SUPPORTED = "2.16 to 2.22"


def unsupported(part: str) -> EngineError:
    """The error for a TensorFlow that lacks an internal part."""
    import tensorflow as tf

    return EngineError(
        f"this is TensorFlow {tf.__version__}; pullback works with {SUPPORTED}, and an internal part that it "
        f"builds on is not as it was there ({part}). Install a TensorFlow of that range; if it is, another package has "
        "replaced the part: import pullback before that."
    )
