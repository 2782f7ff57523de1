"""What `pb.functions.linear_cross_entropy` saves: memory and CPU time beside plain differentiation.

python benchmarks/linear_cross_entropy.py [usual] [long] [ignored] [accuracy]
"""

import math
import sys
from typing import Any

from _measure import alone, print_amounts, quiet
from _saving import MODES, gradients_of, in_mode, least_times, measure, peak_of, show

quiet()

import numpy as np
import tensorflow as tf

import pullback as pb

DEPTH, CLASSES = 512, 32768


def plain(x: Any, weights: Any, labels: Any) -> Any:
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.matmul(x, weights))
    return tf.reduce_mean(losses)


def ours(x: Any, weights: Any, labels: Any) -> Any:
    return pb.functions.linear_cross_entropy(x, weights, labels)


LOSSES = {"autodiff": plain, "pullback": ours}


def step(kind: str, mode: str, tokens: int, ignored: int = 1) -> Any:
    """A step of so many tokens; of each `ignored` of them one counts."""
    x = tf.random.stateless_normal([tokens, DEPTH], [1, 2])
    weights = tf.random.stateless_normal([DEPTH, CLASSES], [3, 4]) * 0.05
    labels = tf.random.stateless_uniform([tokens], [5, 6], 0, CLASSES, tf.int32)
    labels = tf.where(tf.range(tokens) % ignored == 0, labels, -100)

    def run(x: Any, weights: Any, labels: Any) -> Any:
        return gradients_of(lambda x, weights: LOSSES[kind](x, weights, labels))(x, weights)

    return in_mode(mode, run, x, weights, labels)


def memory(kind: str, mode: str, tokens: int) -> float:
    return peak_of(step(kind, mode, tokens))


def times(mode: str, tokens: int) -> dict[str, float]:
    return least_times({kind: step(kind, mode, tokens) for kind in LOSSES}, turns=5)


def usual() -> bool:
    bars = {"eager": (0.26, 1.35), "graph": (0.43, 1.16), "XLA": (0.17, 1.04)}
    found = measure(memory, times, list(LOSSES), 2048)
    return show("2048 tokens, depth 512, 32k classes", found, bars)


def long() -> bool:
    bars = {"graph": (0.16, 1.15), "XLA": (0.08, 1.06)}
    found = measure(memory, times, list(LOSSES), 8192, modes=["graph", "XLA"])
    return show("8192 tokens", found, bars)


def times_of_ignored(mode: str) -> float:
    cases = {
        name: step("pullback", mode, 2048, each) for name, each in {"all": 1, "half": 2}.items()
    }
    found = least_times(cases, turns=5)
    return found["half"] / found["all"]


def ignored() -> bool:
    rows = [(mode, alone(times_of_ignored, mode, timed=True), 0.6) for mode in MODES]
    return print_amounts("half of the tokens ignored, by none", rows, "× CPU time")


def certain_label() -> float:
    """How far off, in bfloat16, the gradient of a label is that has a probability of .999, by its exact value."""
    x = tf.constant([[1.0, math.log(999.0)]], tf.bfloat16)
    weights = tf.constant([[0.0, 0.0], [1.0, 0.0]], tf.bfloat16)
    with tf.GradientTape() as tape:
        tape.watch(weights)
        loss = pb.functions.linear_cross_entropy(x, weights, [0], reduction="sum")
    exact = -1.0 / (1.0 + math.exp(float(x[0, 1])))
    return abs(float(tape.gradient(loss, weights)[0, 0]) / exact - 1.0)


def upstream_per_token() -> float:
    """The largest error of a gradient for random upstream, by the largest entry; autodiff in float64 is right."""
    x = tf.random.stateless_normal([64, 32], [1, 2])
    weights = tf.random.stateless_normal([32, 5000], [3, 4])
    labels = tf.random.stateless_uniform([64], [5, 6], 0, 5000, tf.int32)
    upstream = tf.random.stateless_normal([64], [7, 8])

    def gradients(dtype: Any, losses: Any) -> Any:
        arrays = [tf.cast(a, dtype) for a in (x, weights)]
        with tf.GradientTape() as tape:
            tape.watch(arrays)
            y = losses(*arrays)
        return tape.gradient(y, arrays, tf.cast(upstream, dtype))

    def plain(x: Any, weights: Any) -> Any:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.matmul(x, weights))

    def blocks(x: Any, weights: Any) -> Any:
        return pb.functions.linear_cross_entropy(x, weights, labels, reduction="none")

    found, right = (
        [np.asarray(g, np.float64) for g in gradients(dtype, losses)]
        for dtype, losses in ((tf.float32, blocks), (tf.float64, plain))
    )
    # NumPy's maximum is NaN where an entry is.
    pairs = zip(found, right, strict=True)
    return float(np.max([np.max(np.abs(a - b)) / np.max(np.abs(b)) for a, b in pairs]))


def all_ignored() -> float:
    """The sum of the sizes of the loss and all entries of its gradients, where no token counts."""
    x = tf.random.stateless_normal([8, 4], [1, 2], dtype=tf.bfloat16)
    weights = tf.random.stateless_normal([4, 50], [3, 4], dtype=tf.bfloat16)
    step = gradients_of(lambda x, w: ours(x, w, tf.fill([8], -100)))
    loss, found = step(x, weights)
    return sum(float(tf.reduce_sum(abs(a))) for a in (loss, *found))


def accuracy() -> bool:
    rows = [
        ("bfloat16: a label of probability .999", certain_label(), 5e-3),
        ("float32: an upstream per token", upstream_per_token(), 1e-5),
        ("bfloat16: all ignored", all_ignored(), 0.0),
    ]
    return print_amounts("gradients that are off", rows, "relative error")


PARTS = {"usual": usual, "long": long, "ignored": ignored, "accuracy": accuracy}

if __name__ == "__main__":
    verdicts = [PARTS[name]() for name in sys.argv[1:] or PARTS]
    sys.exit(not all(verdicts))
