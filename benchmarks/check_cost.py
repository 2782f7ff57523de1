"""What a gradient check costs: calls, time against `tf.test.compute_gradient`, layers, and a million elements.

python benchmarks/check_cost.py [calls] [peer] [layers] [million] [memory]
"""

import gc
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from _measure import alone, peak_mib, print_amounts, quiet, resident_mib

quiet()

import keras
import numpy as np
import tensorflow as tf

from pullback.check import check

Rows = list[tuple[str, float, float | None]]


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
    """The least CPU time of several runs."""
    taken = []
    for _ in range(times):
        gc.collect()
        began = time.process_time()
        run()
        taken.append(time.process_time() - began)
    return min(taken)


# calls

RIGHT = {
    "tanh": tf.tanh,
    "softplus": tf.nn.softplus,
    "relu": tf.nn.relu,
    "clip": lambda x: tf.clip_by_value(x, -0.5, 0.5),
    "softmax": tf.nn.softmax,
    "logsumexp": tf.reduce_logsumexp,
    "cumsum": tf.cumsum,
    "sort": tf.sort,
    "maximum": lambda x: tf.maximum(x, x[::-1]),
    "product": tf.reduce_prod,
    "normalize": tf.math.l2_normalize,
    "matmul": lambda x: tf.matmul(tf.reshape(x, (4, 3)), tf.reshape(x, (3, 4))),
    **FUNCTIONS,
    "crossentropy": lambda x: tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(x[::-1]), x),
}


def calls() -> None:
    """Median over functions whose gradient is right."""
    rows: Rows = []
    for label, quickly, bar in (("full", False, 100), ("quick", True, 28)):
        reports = {
            name: check(f, points(12, "float32"), quick=quickly) for name, f in RIGHT.items()
        }
        found = [report.calls for report in reports.values()]
        alarms = ", ".join(name for name, report in reports.items() if not report.ok) or "none"
        text = f"{label}: {min(found)} to {max(found)}; not called right: {alarms}"
        rows.append((text, statistics.median(found), bar))
    print_amounts("calls of a check, median", rows, "calls")


# against tf.test.compute_gradient

PEER_SIZES = ((1_000, 25), (10_000, 500))
# Of longer vectors the peer does so many columns and rows, and its time is multiplied: it goes through them one by one.
PEER_PART = 1_000


def theirs(name: str, x: Any) -> float:
    """Seconds of `tf.test.compute_gradient`, extrapolated from a part of its columns and rows for a long vector."""
    part, rest = x[:PEER_PART], x[PEER_PART:]
    whole = FUNCTIONS[name]

    def of_part(some: Any) -> Any:
        return whole(tf.concat([some, rest], 0))[:PEER_PART]

    times = x.shape[0] / part.shape[0]
    return times * seconds(
        partial(tf.test.compute_gradient, of_part if times > 1 else whole, [part])
    )


def peer() -> None:
    """The share of the time of `tf.test.compute_gradient` that a check takes."""
    rows: Rows = []
    for name, n, bar in [(f, *size) for f in ("gelu", "square") for size in PEER_SIZES]:
        x = points(n, "float64")
        peers = theirs(name, x)
        for label, quickly in (("full", False), ("quick", True)):
            ours = seconds(partial(check, FUNCTIONS[name], x, quick=quickly), 7)
            text = f"{name}, n = {n}, {label}: {peers / ours:.0f} × faster, {bar} wanted"
            rows.append((text, 100 * ours / peers, 100 / bar))
    title = f"a check in percent of tf.test.compute_gradient (beyond n = {PEER_PART}, that of a part times n / part)"
    print_amounts(title, rows, "%")


# layers


def _ctc(logits: Any) -> Any:
    labels, lengths, times = map(tf.constant, ([[1, 2, 1], [2, 1, 0]], [3, 2], [6, 6]))
    loss: Any = tf.nn.ctc_loss
    return loss(labels, logits, lengths, times, logits_time_major=False, blank_index=3)


def layer(name: str) -> list[float]:
    """CPU seconds of the first check in a process and of the better of two, its verdict and calls."""
    keras.utils.set_random_seed(0)
    rng, quickly = np.random.default_rng(0), name == "MobileNetV2"
    shape = {"MobileNetV2": (1, 32, 32, 3), "ctc_loss": (2, 6, 4)}.get(name, (2, 5, 3))
    x = tf.constant(rng.normal(size=shape), tf.float32)
    mobile: Any = keras.applications.MobileNetV2  # Keras says that weights are a text
    fn: Any = {
        "LSTM": lambda: keras.layers.LSTM(8),
        "GRU": lambda: keras.layers.GRU(4),
        "MobileNetV2": lambda: mobile(weights=None, input_shape=shape[1:], classes=3),
        "ctc_loss": lambda: _ctc,
    }[name]()
    fn(x)
    run = partial(check, fn, x, quick=quickly)
    first, again, report = seconds(run), seconds(run), run()
    return [first, min(first, again), float(report.ok), report.calls]


def layers() -> None:
    """Seconds of CPU time of checks of layers, each in a process of its own."""
    rows: Rows = []
    for name, bar in {"LSTM": 2, "GRU": 2, "MobileNetV2": 8, "ctc_loss": 3}.items():
        first, best, ok, count = alone(layer, name)
        verdict = "right" if ok else "not right"
        rows.append((f"{name}: {count:.0f} calls, {verdict}; at first {first:.1f} s", best, bar))
    print_amounts("layers", rows, "s")


# a million elements


def million() -> None:
    """Time of a check over that of one forward and backward pass."""
    rows: Rows = []
    for name in FUNCTIONS:
        x = points(1_000_000, "float32")
        check(FUNCTIONS[name], x[:100])
        pair = seconds(partial(once, name, x), 15)
        for label, quickly in (("full", False), ("quick", True)):
            ours = seconds(partial(check, FUNCTIONS[name], x, quick=quickly), 2)
            text = f"{name}, {label}: {ours:.2f} s over {1e3 * pair:.1f} ms"
            rows.append((text, ours / pair, 200))
    print_amounts("a million float32: time over that of one forward and backward pass", rows, "×")


def peak(name: str, what: str) -> float:
    """The most memory held above the start, for one pass or one check."""
    x = points(1_000_000, "float32")
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


def memory() -> None:
    """Peak memory of a check over that of one forward and backward pass."""
    rows: Rows = []
    for name in FUNCTIONS:
        one, full, quickly = (alone(peak, name, what) for what in ("pass", "full", "quick"))
        rows.append((f"{name}, full: {full:.0f} over {one:.0f} MiB", full / one, 6))
        rows.append((f"{name}, quick: {quickly:.0f} over {one:.0f} MiB", quickly / one, 6))
    print_amounts("a million float32: memory over that of one pass", rows, "×")


PARTS = {part.__name__: part for part in (calls, peer, layers, million, memory)}


def main() -> None:
    """Print the tables that are asked for, or all of them."""
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main()
