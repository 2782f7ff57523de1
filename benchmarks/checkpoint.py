"""What `pb.functions.checkpoint` saves: memory and CPU time beside plain differentiation and `tf.recompute_grad`.

python benchmarks/checkpoint.py [distinct] [tied]
"""

import sys
from typing import Any

from _measure import quiet
from _saving import gradients_of, in_mode, least_times, measure, peak_of, show, show_by

quiet()

import tensorflow as tf

import pullback as pb

LAYERS, BATCH, DEPTH, HIDDEN = 24, 2048, 256, 1024
SEGMENTS, STEPS, ROWS, WIDTH = 10, 10, 768, 512
KINDS = {
    "autodiff": lambda fn: fn,
    "tf.recompute_grad": tf.recompute_grad,
    "pullback": pb.functions.checkpoint,
}


def block(x: Any, up: Any, down: Any) -> Any:
    return x + tf.matmul(tf.nn.gelu(tf.matmul(x, up)), down)


def distinct_step(kind: str, mode: str) -> Any:
    """A feed-forward model, each of whose layers is recomputed."""
    weights = []
    for i in range(LAYERS):
        weights += [tf.random.stateless_normal([DEPTH, HIDDEN], [i, 1]) * 0.05]
        weights += [tf.random.stateless_normal([HIDDEN, DEPTH], [i, 2]) * 0.02]
    x = tf.random.stateless_normal([BATCH, DEPTH], [1, 2])

    def loss(x: Any, *weights: Any) -> Any:
        layer = KINDS[kind](block)
        for i in range(LAYERS):
            x = layer(x, weights[2 * i], weights[2 * i + 1])
        return tf.reduce_mean(tf.square(x))

    return in_mode(mode, gradients_of(loss), x, *weights)


def tied_step(kind: str, mode: str) -> Any:
    """A hundred steps with the same weights, in segments of ten that are recomputed."""
    weights = tf.random.stateless_normal([WIDTH, WIDTH], [3, 4]) * 0.04
    x = tf.random.stateless_normal([ROWS, WIDTH], [1, 2])

    def steps(z: Any, x: Any, weights: Any) -> Any:
        for _ in range(STEPS):
            z = tf.tanh(tf.matmul(z, weights) + x)
        return z

    def loss(x: Any, weights: Any) -> Any:
        segment, z = KINDS[kind](steps), x
        for _ in range(SEGMENTS):
            z = segment(z, x, weights)
        return tf.reduce_mean(tf.square(z))

    return in_mode(mode, gradients_of(loss), x, weights)


STEPS_OF = {"distinct": distinct_step, "tied": tied_step}


def memory(kind: str, mode: str, model: str) -> float:
    return peak_of(STEPS_OF[model](kind, mode))


def times(mode: str, model: str) -> dict[str, float]:
    return least_times({kind: STEPS_OF[model](kind, mode) for kind in KINDS}, turns=5)


def distinct() -> bool:
    found = measure(memory, times, list(KINDS), "distinct")
    bars = {"eager": (0.11, None), "graph": (0.12, None), "XLA": (0.18, None)}
    fine = show("24 distinct layers", found, bars)
    peer = dict.fromkeys(found, (None, 1.0))
    return show_by("the same, by tf.recompute_grad", found, "tf.recompute_grad", peer) and fine


def tied() -> bool:
    found = measure(memory, times, list(KINDS), "tied")
    show("a hundred steps with the same weights", found, {})
    bars = {"graph": (0.25, 1.1), "XLA": (0.25, 1.1)}
    return show_by("the same, by tf.recompute_grad", found, "tf.recompute_grad", bars)


PARTS = {"distinct": distinct, "tied": tied}

if __name__ == "__main__":
    verdicts = [PARTS[name]() for name in sys.argv[1:] or PARTS]
    sys.exit(not all(verdicts))
