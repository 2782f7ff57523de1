"""What a gradient check costs: against `tf.test.compute_gradient`, and on a million elements.

python benchmarks/check_cost.py
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

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


class Peak:
    """Resident memory above the start, sampled while a block runs, in MiB."""

    def __enter__(self) -> Peak:
        gc.collect()
        self.running, self.start, self.most = True, self._now(), 0.0
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.running = False
        self.thread.join()

    @property
    def mib(self) -> float:
        """The peak above the start."""
        return max(0.0, self.most - self.start)

    def _watch(self) -> None:
        while self.running:
            self.most = max(self.most, self._now())
            time.sleep(0.0005)

    @staticmethod
    def _now() -> float:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def seconds(run: Callable[[], Any], times: int = 1) -> float:
    """The least time of several runs."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return min(taken)


def against_compute_gradient() -> None:
    """Ratio of times at growing size; quick and full check."""
    print("n, tf.test.compute_gradient s, full check s, ratio, quick check s, ratio")
    for n in (100, 1_000, 10_000):
        x = tf.constant(np.random.default_rng(0).normal(size=n))
        full = seconds(lambda x=x: check(gelu, x), 3)
        quick = seconds(lambda x=x: check(gelu, x, quick=True), 3)
        theirs = seconds(lambda x=x: tf.test.compute_gradient(gelu, [x]))
        print(
            f"{n:>8} {theirs:8.2f} {full:7.3f} {theirs / full:7.0f}× {quick:7.3f} {theirs / quick:7.0f}×"
        )


def on_a_million(dtype: str) -> None:
    """Ratio of time to one forward and backward pass; peak memory of each."""
    x = tf.constant(np.random.default_rng(0).normal(size=1_000_000), dtype)
    upstream = tf.ones_like(x)

    def once() -> None:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = gelu(x)
        tape.gradient(y, x, upstream)

    with Peak() as plain:
        once()
    pair = seconds(once, 9)
    check(gelu, x[:10])
    for label, quick in (("full", False), ("quick", True)):
        with Peak() as peak:
            report = check(gelu, x, quick=quick)
        print(
            f"{dtype}, 10⁶ elements, {label}: {report.seconds:.2f} s = "
            f"{report.seconds / pair:.0f}× one forward+backward ({1e3 * pair:.1f} ms), {report.calls} "
            f"calls; peak {peak.mib:.0f} MiB against {plain.mib:.0f}"
        )


def main() -> None:
    """Print both."""
    against_compute_gradient()
    for dtype in ("float64", "float32"):
        on_a_million(dtype)


if __name__ == "__main__":
    main()
