"""What fused element-wise pieces save: memory and CPU time beside plain differentiation.

python benchmarks/fused.py [gelu] [swiglu] [rms_norm] [layer_norm] [softmax_cross_entropy]
"""

import math
import sys
from typing import Any

from _measure import quiet
from _saving import gradients_of, in_mode, least_times, measure, peak_of, show

quiet()

import tensorflow as tf

import pullback as pb

ROWS, WIDTH = 2048, 4096
MIB = 4.0 * ROWS * WIDTH / 2**20  # of one tensor


def gelu(x: Any) -> Any:
    return 0.5 * x * (1.0 + tf.tanh((2.0 / math.pi) ** 0.5 * (x + 0.044715 * x**3)))


def fused_gelu(x: Any) -> Any:
    return pb.functions.gelu(x, approximate=True)


def swiglu(gate: Any, x: Any) -> Any:
    return gate * tf.sigmoid(gate) * x


def rms_norm(x: Any) -> Any:
    return x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + 1e-6)


def layer_norm(x: Any) -> Any:
    centred = x - tf.reduce_mean(x, -1, keepdims=True)
    return rms_norm(centred)


def softmax_cross_entropy(x: Any) -> Any:
    labels = tf.range(ROWS) % WIDTH
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x)


def fused_cross_entropy(x: Any) -> Any:
    return pb.functions.softmax_cross_entropy(tf.range(ROWS) % WIDTH, x)


# The formula, ours, how many tensors come in, and what it may take: memory and CPU time, eagerly and in a graph.
Bars = dict[str, tuple[float, float | None]]
PIECES: dict[str, tuple[Any, Any, int, Bars]] = {
    "gelu": (gelu, fused_gelu, 1, {"eager": (0.31, 0.10), "graph": (0.35, 0.33)}),
    "swiglu": (swiglu, pb.functions.swiglu, 2, {"eager": (0.68, 0.40), "graph": (0.76, 0.65)}),
    "rms_norm": (
        rms_norm,
        pb.functions.rms_norm,
        1,
        {"eager": (0.61, 0.33), "graph": (0.52, 0.45)},
    ),
    "layer_norm": (
        layer_norm,
        pb.functions.layer_norm,
        1,
        {"eager": (0.51, None), "graph": (0.60, None)},
    ),
    # Not worse than TensorFlow's own fused operation.
    "softmax_cross_entropy": (
        softmax_cross_entropy,
        fused_cross_entropy,
        1,
        {"eager": (1.02, 1.0), "graph": (1.02, 1.0)},
    ),
}
KINDS = ("autodiff", "pullback")


def step(kind: str, mode: str, name: str) -> Any:
    plain, ours, count, _ = PIECES[name]
    function = plain if kind == "autodiff" else ours
    arrays = [tf.random.stateless_normal([ROWS, WIDTH], [i, 7]) for i in range(count)]
    return in_mode(mode, gradients_of(function), *arrays)


def memory(kind: str, mode: str, name: str) -> float:
    return peak_of(step(kind, mode, name))


def times(mode: str, name: str) -> dict[str, float]:
    return least_times({kind: step(kind, mode, name) for kind in KINDS}, turns=9)


def measured(name: str) -> bool:
    found = measure(memory, times, KINDS, name, modes=["eager", "graph"])
    title = f"{name}, [{ROWS}, {WIDTH}]: {MIB:.0f} MiB each"
    return show(title, found, PIECES[name][3])


if __name__ == "__main__":
    verdicts = [measured(name) for name in sys.argv[1:] or PIECES]
    sys.exit(not all(verdicts))
