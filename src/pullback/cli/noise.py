"""What libraries write to stderr on their own account, which says nothing of the user's code."""

from __future__ import annotations

import os
import re

_SOURCE = (
    r"\S+\.(?:cc|cpp|cu|c|h|hpp|inc)(?:\.\w+)?:\d+\] "  # a line of C or C++: Python's own logs stay
)
_NOISE = re.compile(
    "|".join(
        (
            rf"[IWE]\d{{4}} \d\d:\d\d:\d+\.\d+ +\d+ {_SOURCE}",  # absl; F, which ends the process, stays
            rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWE] {_SOURCE}",  # TensorFlow's own format
            r"WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR",
            r"To enable the following instructions: .* rebuild TensorFlow",
            r" *\*\* On entry to \w+ *parameter number +-?\d+ had an illegal value",  # LAPACK
            r"Intel (?:oneAPI )?MKL ERROR: Parameter -?\d+ was incorrect on entry to \w+",
        )
    )
)
_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


def is_asked_for() -> bool:
    """Whether the user has said how much of it there is to be."""
    return _LEVEL in os.environ


def silence() -> None:
    """What TensorFlow need not write at all."""
    os.environ.setdefault(_LEVEL, "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")


def is_noise(line: str) -> bool:
    """Whether a line is from a library's log, and not an error that ends the process.

    >>> is_noise("E0000 00:00:1795030276.381774   20056 svd_op_impl.h:112] Eigen::BDCSVD failed with error code 3")
    True
    >>> is_noise("F0000 00:00:1795030276.381774   20056 tensor.cc:112] Check failed: 1 == 2")
    False
    """
    return _NOISE.match(line) is not None
