"""What stays behind: memory, graphs and registry entries after many traces, calls, blocks and overridden models.

    python -m benchmarks.leaks

Each kind of run is warmed up first; the growth printed is that of the runs after it.
"""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import keras
import tensorflow as tf

import pullback as pb
from pullback.engines.tensorflow.tf_private import gradient_registry

WARM_UP = 0.2  # share of the runs that fill caches
X = tf.constant([[0.5, -1.5, 2.0]])


def negated(dy, *, original):  # noqa: ANN001, ANN201
    """A rule that asks for the ordinary gradient."""
    return -original(dy)


def gradient(function: Callable[..., object]) -> object:
    """The gradient of a function's sum."""
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = function(X)
    return tape.gradient(y, X)


def trace() -> None:
    """A new tf.function with a gradient of its own."""
    gradient(tf.function(pb.with_gradient(lambda x: tf.sin(x), negated)))


CALLED = pb.with_gradient(lambda x: tf.sin(x), negated)


def call() -> None:
    """An eager call."""
    gradient(CALLED)


def block() -> None:
    """A block with an op, a function and a traced function in it."""
    with pb.override({"Tanh": negated, tf.nn.gelu: negated}):
        gradient(lambda x: tf.tanh(tf.nn.gelu(x)))


MODEL = keras.Sequential(
    [keras.Input((3,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(2, name="last")]
)


def model() -> None:
    """An overridden model, and a part cut out of it."""
    overridden = pb.override({tf.nn.relu: negated})(MODEL)
    gradient(overridden)
    gradient(keras.Model(overridden.inputs, overridden.get_layer("last").output))


RUNS = {
    "traces": (trace, 300),
    "eager calls": (call, 5000),
    "blocks": (block, 1000),
    "models": (model, 200),
}


def megabytes() -> float:
    """The memory that the process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def counted() -> tuple[float, int, int]:
    """Memory, graphs that are alive, names in TensorFlow's registry of gradients."""
    gc.collect()
    graphs = sum(isinstance(thing, tf.Graph) for thing in gc.get_objects())
    return megabytes(), graphs, len(gradient_registry._registry)


def main() -> None:
    """Print the table."""
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    print(f"{'':14}{'runs':>6}{'MB':>8}{'graphs':>8}{'names':>8}")
    for name, (run, times) in RUNS.items():
        for _ in range(int(WARM_UP * times)):
            run()
        before = counted()
        for _ in range(times):
            run()
        grown = [after - start for after, start in zip(counted(), before, strict=True)]
        print(f"{name:14}{times:6}{grown[0]:8.1f}{grown[1]:8}{grown[2]:8}", flush=True)


if __name__ == "__main__":
    main()
