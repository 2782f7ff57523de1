"""What TensorFlow would print on its own account stays out of the output of a command."""

import logging
import os

_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}


def hush_tensorflow() -> None:
    """Keep TensorFlow's start-up messages and hints away, unless the user has asked for them."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
