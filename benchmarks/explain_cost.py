"""What `pb.explain` costs: the time over tracing a gradient and running it once, and the memory over a plain gradient.

python benchmarks/explain_cost.py [time] [memory]
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from _measure import alone, peak_mib, print_amounts, quiet, resident_mib

quiet()

import keras
import tensorflow as tf

import pullback as pb

TURNS = 3
BATCH = 8  # for memory: activations matter beside the weights


def network(batch: int) -> tuple[Callable[[Any], Any], Any, list[Any]]:
    """The loss of ResNet50, an input, and the weights."""
    keras.utils.set_random_seed(0)
    model: Any = keras.applications.ResNet50(weights=None, input_shape=(64, 64, 3), classes=10)
    weights = [v.value for v in model.trainable_variables]
    return (
        lambda x: tf.reduce_sum(model(x)[:, 1] ** 2),
        tf.random.normal((batch, 64, 64, 3)),
        weights,
    )


def gradient(loss: Callable[[Any], Any], x: Any, weights: list[Any]) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = loss(x)
    return tape.gradient(value, [x, *weights])


def seconds(run: Callable[[], Any]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def one_turn() -> dict[str, float]:
    """Each in a process that has run everything once, but has traced nothing."""
    loss, x, weights = network(1)
    gradient(loss, x, weights)
    pb.explain(tf.sin, tf.constant(1.0))
    traced = tf.function(lambda x: gradient(loss, x, weights))
    base = seconds(lambda: traced(x))
    eager = seconds(lambda: pb.explain(loss, x))
    interpreted = seconds(lambda: pb.explain(tf.function(lambda x: loss(x)), x))
    return {"eager stream": eager / base, "interpreted, with tracing": interpreted / base}


def peak(kind: str) -> float:
    """The most memory that a gradient takes over what was there before."""
    loss, x, weights = network(BATCH)
    loss(x)
    before = resident_mib()
    kept = gradient(loss, x, weights) if kind == "plain" else pb.explain(loss, x)
    del kept
    return peak_mib() - before


def measure_time() -> bool:
    turns = [alone(one_turn) for _ in range(TURNS)]
    bars = {"eager stream": 0.5, "interpreted, with tracing": 1.0}
    rows = [
        (name, statistics.median(turn[name] for turn in turns), bar) for name, bar in bars.items()
    ]
    title = "ResNet50 64×64, statistics included, over tracing and running its gradient once"
    return print_amounts(title, [(n, 100 * a, 100 * b) for n, a, b in rows], "%")


def measure_memory() -> bool:
    plain, explained = alone(peak, "plain"), alone(peak, "explain")
    rows = [("plain gradient, MiB", plain, None), ("explain, MiB", explained, None)]
    rows.append(("explain, × plain", explained / plain, 3.0))
    return print_amounts(f"memory at its peak, {BATCH} images", rows, "amount")


PARTS = {"time": measure_time, "memory": measure_memory}

if __name__ == "__main__":
    wanted = sys.argv[1:] or list(PARTS)
    held = [PARTS[name]() for name in wanted]
    sys.exit(not all(held))
