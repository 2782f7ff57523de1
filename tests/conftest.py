"""Set-up for every test: quiet TensorFlow, and two logical CPUs before its runtime starts."""

import functools
import os
import re
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

_USES_TENSORFLOW = re.compile(r"\b(tensorflow|keras|modes)\b")


@functools.cache
def use_two_logical_cpus() -> None:
    """Distribution strategies need two devices, chosen before TensorFlow runs its first op."""
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


def pytest_pycollect_makemodule(module_path: Path) -> None:
    """Runs before a test module is imported; modules without TensorFlow stay free of it."""
    if _USES_TENSORFLOW.search(module_path.read_text(encoding="utf-8")):
        use_two_logical_cpus()


@pytest.fixture
def two_logical_cpus() -> list[str]:
    use_two_logical_cpus()
    return ["CPU:0", "CPU:1"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--fuzz=20000` makes the fuzzers long; `--fuzz-seed` replays one of their runs."""
    parser.addoption("--fuzz", type=int, default=0, help="examples of each fuzzer; 0: a short run")
    parser.addoption("--fuzz-seed", type=int, default=None, help="the seed that a long run printed")
