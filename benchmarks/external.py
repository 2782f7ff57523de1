"""What a call of external code costs beside tf.py_function under tf.custom_gradient, and what threads gain.

python benchmarks/external.py
"""

import sys
import time
from collections.abc import Callable
from typing import Any

from _measure import Console, Table, alone, quiet

quiet()

import numpy as np
import tensorflow as tf

import pullback as pb

SIZES = {"1 thousand numbers": 10**3, "1 million numbers": 10**6}
EXAMPLES, WAIT = 16, 0.01


def wave(x: Any) -> Any:
    return np.sin(x)


def wave_rule(dy: Any, x: Any) -> Any:
    return dy * np.cos(x)


def wave_pullback(dy: Any, *, inputs: Any) -> Any:
    return wave_rule(dy, *inputs)


@tf.custom_gradient  # pyright: ignore[reportUntypedFunctionDecorator]  # TensorFlow has no types for it
def by_hand(x: Any) -> Any:
    """What people write: no shape, no name in errors, no forward mode."""

    def backward(dy: Any) -> Any:
        return tf.numpy_function(wave_rule, [dy, x], x.dtype)

    return tf.numpy_function(wave, [x], x.dtype), backward


def seconds(run: Callable[[], Any], turns: int, clock: Callable[[], float]) -> float:
    """The least time of a call."""
    run()
    found: list[float] = []
    for _ in range(turns):
        start = clock()
        run()
        found.append(clock() - start)
    return min(found)


def cost(size: int, mode: str) -> list[float]:
    """CPU seconds for value and gradient: by hand, and ours."""
    x = tf.random.stateless_normal([size], (1, 7))

    def step(function: Any) -> Any:
        def run(x: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(function(x))
            return tape.gradient(y, x)

        traced = run if mode == "eager" else tf.function(run)
        return lambda: traced(x)

    both = by_hand, pb.functions.external(wave, rule=wave_pullback)
    turns = 200 if size < 10**5 else 30
    return [seconds(step(function), turns, time.process_time) for function in both]


def slow(x: Any) -> Any:
    """Code that waits, as a simulator in another process does."""
    time.sleep(WAIT)
    return np.sin(x)


def gained(batch: Any) -> float:
    """Seconds for a batch of examples."""
    function = pb.functions.external(slow, rule=wave_pullback, out=(8,), batch=batch)
    x = tf.ones([EXAMPLES, 8])
    return seconds(lambda: function(x), 5, time.perf_counter)


def main() -> bool:
    table = Table(title="external: value and gradient", title_justify="left")
    for heading in ("what", "mode", "by hand, µs of CPU", "ours", "ours / by hand"):
        table.add_column(heading)
    for name, size in SIZES.items():
        for mode in ("eager", "graph"):
            hand, ours = alone(cost, size, mode)
            table.add_row(
                name, mode, f"{1e6 * hand:.0f}", f"{1e6 * ours:.0f}", f"{ours / hand:.2f}"
            )
    Console(width=100).print(table)
    loop, threads = alone(gained, "loop"), alone(gained, "threads")
    print(f"{EXAMPLES} examples that wait: threads take {threads / loop:.2f} of the time of a loop")
    return True


if __name__ == "__main__":
    sys.exit(not main())
