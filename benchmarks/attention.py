"""What `pb.functions.attention` saves: memory and CPU time beside plain differentiation.

python benchmarks/attention.py
"""

import sys
from typing import Any

from _measure import quiet
from _saving import gradients_of, in_mode, least_times, measure, peak_of, show

quiet()

import tensorflow as tf

import pullback as pb

HEADS, TOKENS, DEPTH = 4, 4096, 64
BARS = {"eager": (0.065, 1.15), "graph": (0.06, 1.05), "XLA": (0.06, 0.85)}


def plain(q: Any, k: Any, v: Any) -> Any:
    weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * DEPTH**-0.5)
    return tf.matmul(weights, v)


KINDS = {"autodiff": plain, "pullback": pb.functions.attention}


def step(kind: str, mode: str) -> Any:
    shape = [1, HEADS, TOKENS, DEPTH]
    arrays = [tf.random.stateless_normal(shape, [i, 7]) for i in range(3)]

    def loss(*arrays: Any) -> Any:
        return tf.reduce_sum(tf.square(KINDS[kind](*arrays)))

    return in_mode(mode, gradients_of(loss), *arrays)


def memory(kind: str, mode: str) -> float:
    return peak_of(step(kind, mode))


def times(mode: str) -> dict[str, float]:
    return least_times({kind: step(kind, mode) for kind in KINDS}, turns=5)


if __name__ == "__main__":
    found = measure(memory, times, list(KINDS))
    sys.exit(not show("4096 tokens, 4 heads of depth 64", found, BARS))
