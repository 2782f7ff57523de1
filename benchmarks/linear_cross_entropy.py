"""What `pb.functions.linear_cross_entropy` saves: memory and CPU time beside plain differentiation.

python benchmarks/linear_cross_entropy.py [usual] [long] [ignored]
"""

import sys
from typing import Any

from _measure import alone, print_amounts, quiet
from _saving import MODES, gradients_of, in_mode, least_times, measure, peak_of, show

quiet()

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
    rows = [(mode, alone(times_of_ignored, mode), 0.6) for mode in MODES]
    return print_amounts("half of the tokens ignored, by none", rows, "× CPU time")


PARTS = {"usual": usual, "long": long, "ignored": ignored}

if __name__ == "__main__":
    verdicts = [PARTS[name]() for name in sys.argv[1:] or PARTS]
    sys.exit(not all(verdicts))
