"""The functions that save memory or time, at small sizes, beside their formulas in NumPy."""

import math
from typing import Any

import numpy as np
import tensorflow as tf

import pullback as pb
from tests.functions.cases import Case, log_softmax

f = pb.functions
ERF = np.vectorize(math.erf, otypes=[np.longdouble])
ROWS = [[0.5, -1.0, 2.0], [-0.25, 1.5, 0.75]]
SCALE, OFFSET = [1.5, -0.5, 2.0], [0.25, 0.5, -1.0]
GATE = [[1.0, -2.0, 0.5], [0.75, 3.0, -0.25]]
LABELS = np.array([2, 0])
SHARES = np.array([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]])
WEIGHTS = [[0.5, -1.0, 2.0, 0.25], [1.0, 0.5, -0.5, 1.5], [-0.75, 0.25, 1.0, 0.5]]
BIAS = [0.25, -0.5, 0.75, 0.0]
QUERIES = [[[0.5, -1.0], [2.0, 0.25], [-0.75, 1.0]]]
KEYS = [[[1.0, 0.5], [-0.5, 1.5], [0.25, -1.0]]]
VALUES = [[[2.0], [-1.0], [0.5]]]


def rms(x: Any, scale: Any) -> Any:
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def layer_norm(x: Any, scale: Any) -> Any:
    centred = x - np.mean(x, -1, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, -1, keepdims=True) + 1e-6) * scale + OFFSET


def linear(x: Any, weights: Any, bias: Any) -> Any:
    z = 3.0 * np.tanh((x @ weights + bias) / 3.0)
    shares = 0.8 * np.eye(4)[[1, 3]] + 0.05
    return np.mean(-np.sum(shares * log_softmax(z), -1))


def tied(x: Any, weights: Any) -> Any:
    z = x @ weights.T
    sums = np.log(np.sum(np.exp(z), -1))
    losses = sums - z[[0, 1], [2, 0]]
    return np.sum(losses) / 2 + np.sum(0.1 * sums**2) / 2 + np.sum(sums)


def tied_ours(x: Any, weights: Any) -> Any:
    loss, z, sums = f.linear_cross_entropy(
        x, weights, [2, 0], class_axis=0, z_loss=0.1, return_logsumexp=True
    )
    return loss + z + tf.reduce_sum(sums)


def causal(q: Any, k: Any, v: Any) -> Any:
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(np.longdouble(2))
    weights = np.exp(scores) * np.tri(3)
    return weights / np.sum(weights, -1, keepdims=True) @ v


@f.checkpoint
def recomputed(x: Any, weights: Any) -> Any:
    return tf.tanh(tf.sin(x) @ weights)


CASES = [
    Case(
        "gelu by tanh",
        lambda x: f.gelu(x, approximate=True),
        lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        [ROWS],
    ),
    Case("gelu", f.gelu, lambda x: 0.5 * x * (1 + ERF(x / math.sqrt(2))), [ROWS]),
    Case("swiglu", f.swiglu, lambda g, x: g / (1 + np.exp(-g)) * x, [GATE, ROWS]),
    Case("rms_norm", f.rms_norm, rms, [ROWS, SCALE]),
    # The gradient of an offset does not depend on it.
    Case("layer_norm", lambda x, s: f.layer_norm(x, s, OFFSET), layer_norm, [ROWS, SCALE]),
    Case(
        "softmax cross-entropy of numbers",
        lambda z: f.softmax_cross_entropy(LABELS, z),
        lambda z: -np.sum(np.eye(3)[LABELS] * log_softmax(z), -1),
        [ROWS],
    ),
    Case(
        "softmax cross-entropy of shares",
        f.softmax_cross_entropy,
        lambda y, z: -np.sum(y * log_softmax(z), -1),
        [SHARES, ROWS],
    ),
    Case(
        "linear cross-entropy",
        lambda x, w, b: f.linear_cross_entropy(x, w, [1, 3], b, label_smoothing=0.2, soft_cap=3.0),
        linear,
        [ROWS, WEIGHTS, BIAS],
    ),
    Case("linear cross-entropy, tied", tied_ours, tied, [ROWS, GATE + ROWS]),
    Case(
        "attention",
        lambda q, k, v: f.attention(q, k, v, causal=True),
        causal,
        [QUERIES, KEYS, VALUES],
    ),
    Case("checkpoint", recomputed, lambda x, w: np.tanh(np.sin(x) @ w), [ROWS, WEIGHTS]),
]
