"""A deep stack of reversible blocks beside autodiff and beside recomputation: memory and CPU time.

python benchmarks/reversible.py
"""

import sys
from typing import Any

from _measure import quiet
from _saving import in_mode, least_times, measure, peak_of, show

quiet()

import tensorflow as tf

import pullback as pb

ROWS, WIDTH, BLOCKS = 2048, 256, 24
KINDS = ("autodiff", "tf.recompute_grad", "pullback")


def half(weights: Any) -> Any:
    return lambda x: tf.tanh(tf.matmul(tf.nn.silu(x), weights))


def plain_block(f: Any, g: Any) -> Any:
    def block(x1: Any, x2: Any) -> Any:
        y1 = x1 + f(x2)
        return y1, x2 + g(y1)

    return block


def loss(kind: str) -> Any:
    def run(x1: Any, x2: Any, *weights: Any) -> Any:
        for first, second in zip(weights[::2], weights[1::2], strict=True):
            f, g = half(first), half(second)
            block = plain_block(f, g)
            if kind == "pullback":
                block = pb.functions.reversible(f, g)
            elif kind == "tf.recompute_grad":
                block = tf.recompute_grad(block)
            x1, x2 = block(x1, x2)
        return tf.reduce_sum(x1 * x2)

    return run


def step(kind: str, mode: str) -> Any:
    halves = [tf.random.stateless_normal([ROWS, WIDTH], (i, 7)) for i in range(2)]
    # Variables: tf.recompute_grad gives no gradient to tensors that are closed over.
    weights = [
        tf.Variable(tf.random.stateless_normal([WIDTH, WIDTH], (i, 8)) / WIDTH**0.5)
        for i in range(2 * BLOCKS)
    ]

    def gradients(x1: Any, x2: Any) -> Any:
        with tf.GradientTape() as tape:
            value = loss(kind)(x1, x2, *weights)
        return tape.gradient(value, weights)

    return in_mode(mode, gradients, *halves)


def memory(kind: str, mode: str) -> float:
    return peak_of(step(kind, mode))


def times(mode: str) -> dict[str, float]:
    return least_times({kind: step(kind, mode) for kind in KINDS}, turns=5)


if __name__ == "__main__":
    title = f"reversible, {BLOCKS} blocks of two halves of {ROWS} × {WIDTH}"
    sys.exit(not show(title, measure(memory, times, KINDS), {}))
