"""What a gradient check costs: against `tf.test.compute_gradient`, and on a million elements.

python benchmarks/check_cost.py
"""

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _measure import alone, peak_mib, print_amounts, quiet, resident_mib

quiet()

import numpy as np
import tensorflow as tf

from pullback.check import check


@tf.custom_gradient
def gelu(x: Any) -> Any:
    """The tanh form, with its derivative by hand."""
    c = tf.constant(np.sqrt(2 / np.pi), x.dtype)
    t = tf.tanh(c * (x + 0.044715 * x * x * x))

    def gelu_pullback(dy: Any) -> Any:
        slope = c * (1 + 3 * 0.044715 * x * x)
        return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)

    return 0.5 * x * (1 + t), gelu_pullback


@tf.custom_gradient
def square(x: Any) -> Any:
    """As cheap as a function gets, so that all the rest shows."""
    return x * x, lambda dy: 2 * x * dy


@tf.custom_gradient
def crossentropy(x: Any) -> Any:
    """Of rows of a hundred logits with the first class."""
    rows = tf.reshape(x, [-1, 100])
    loss = tf.reduce_logsumexp(rows, 1) - rows[:, 0]

    def crossentropy_pullback(dy: Any) -> Any:
        wanted = tf.one_hot(tf.zeros(tf.shape(rows)[0], tf.int32), 100, dtype=x.dtype)
        return tf.reshape(dy[:, None] * (tf.nn.softmax(rows) - wanted), tf.shape(x))

    return loss, crossentropy_pullback


FUNCTIONS = {f.__name__: f for f in (gelu, square, crossentropy)}


def points(n: int, dtype: str) -> Any:
    """Arguments for any of the functions."""
    return tf.constant(np.random.default_rng(0).normal(size=n), dtype)


def once(name: str, x: Any) -> None:
    """One forward and one backward pass."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = FUNCTIONS[name](x)
    tape.gradient(y, x)


def seconds(run: Callable[[], Any], times: int = 1) -> float:
    """The least time of several runs."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return min(taken)


def against_compute_gradient(name: str) -> list[tuple[str, float, float | None]]:
    """How many times as long as a check `tf.test.compute_gradient` takes."""
    rows: list[tuple[str, float, float | None]] = []
    for n in (1_000, 10_000):
        x = points(n, "float64")
        theirs = seconds(lambda x=x: tf.test.compute_gradient(FUNCTIONS[name], [x]))
        for label, quick in (("full", False), ("quick", True)):
            ours = seconds(lambda x=x, quick=quick: check(FUNCTIONS[name], x, quick=quick), 5)
            text = f"{name}, n = {n}, {label}: {1e3 * ours:.0f} ms against {theirs:.2f} s"
            rows.append((text, theirs / ours, None))
    return rows


def time_on_a_million(name: str, dtype: str) -> list[tuple[str, float, float | None]]:
    """Time of a check over that of one forward and backward pass."""
    x = points(1_000_000, dtype)
    check(FUNCTIONS[name], x[:100])
    pair = seconds(lambda: once(name, x), 15)
    rows: list[tuple[str, float, float | None]] = []
    for label, quick in (("full", False), ("quick", True)):
        ours = seconds(lambda quick=quick: check(FUNCTIONS[name], x, quick=quick), 3)
        text = f"{name}, {dtype}, {label}: {ours:.2f} s over {1e3 * pair:.1f} ms"
        rows.append((text, ours / pair, 200))
    return rows


def peak(name: str, dtype: str, what: str) -> float:
    """The most memory held above the start, for one pass or one check."""
    x = points(1_000_000, dtype)
    run: Callable[[Any], Any] = {
        "pass": lambda x: once(name, x),
        "full": lambda x: check(FUNCTIONS[name], x),
        "quick": lambda x: check(FUNCTIONS[name], x, quick=True),
    }[what]
    run(x[:100])
    gc.collect()
    # forget the highest mark so far
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    start = resident_mib()
    run(x)
    return peak_mib() - start


def memory_on_a_million(name: str, dtype: str) -> list[tuple[str, float, float | None]]:
    """Peak memory of a check over that of one forward and backward pass."""
    one, full, quick = (alone(peak, name, dtype, what) for what in ("pass", "full", "quick"))
    head = f"{name}, {dtype}"
    return [
        (f"{head}, full: {full:.0f} over {one:.0f} MiB", full / one, 6),
        (f"{head}, quick: {quick:.0f} over {one:.0f} MiB", quick / one, 6),
    ]


def main() -> None:
    """Print the three tables."""
    cases = [(name, dtype) for name in FUNCTIONS for dtype in ("float64", "float32")]
    rows = [row for case in cases for row in memory_on_a_million(*case)]
    print_amounts("a million elements: memory over that of one pass", rows, "×")
    rows = [row for case in cases for row in time_on_a_million(*case)]
    print_amounts("a million elements: time over that of one forward and backward pass", rows, "×")
    rows = [row for name in ("gelu", "square") for row in against_compute_gradient(name)]
    print_amounts("tf.test.compute_gradient over a check (20 and 1,000 wanted)", rows, "×")


if __name__ == "__main__":
    main()
