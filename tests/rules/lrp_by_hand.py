"""Layer-wise relevance propagation by its definition, in NumPy: every contribution of an input to an output by itself.

A layer is a matrix of weights [inputs, outputs] and a bias, of convolutions too.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

STABILISER = 1e-6
FIELDS = ("inputs", "bias", "stabiliser")


@dataclass
class Shared:
    """Relevance of inputs, and what bias and stabiliser took."""

    inputs: Any
    bias: float
    stabiliser: float

    @property
    def total(self) -> float:
        return float(self.inputs.sum()) + self.bias + self.stabiliser


def _signed(z: Any, size: float) -> Any:
    return np.where(z < 0, -size, size)


def share(rule: str, x: Any, weights: Any, bias: Any, relevance: Any, option: Any = None) -> Shared:
    """Share the relevance of outputs among inputs; x is one example."""
    c, z = x[:, None] * weights, x @ weights + bias
    b, extra = bias, _signed(z, STABILISER)
    if rule == "alpha_beta":
        alpha, beta = option
        parts = [
            share("z_plus", x, weights, bias, alpha * relevance),
            share("z_minus", x, weights, bias, -beta * relevance),
        ]
        return Shared(*(sum(getattr(part, name) for part in parts) for name in FIELDS))
    if rule == "epsilon":
        extra = _signed(z, option)
    elif rule == "gamma":
        favoured = np.where(z < 0, np.minimum(c, 0), np.maximum(c, 0))
        c = c + option * favoured
        b = b + option * np.where(z < 0, np.minimum(bias, 0), np.maximum(bias, 0))
    elif rule == "z_plus":
        c, b, extra = np.maximum(c, 0), np.maximum(bias, 0), np.full_like(z, STABILISER)
    elif rule == "z_minus":
        c, b = np.minimum(c, 0), np.minimum(bias, 0)
        extra = _signed(c.sum(0) + b, STABILISER)
    elif rule == "w_square":
        c, b, extra = weights**2, bias**2, np.full_like(z, STABILISER)
    elif rule == "z_b":
        low, high = option
        c = c - low * np.maximum(weights, 0) - high * np.minimum(weights, 0)
        b = np.zeros_like(bias)
        extra = _signed(c.sum(0), STABILISER)
    elif rule == "flat":
        c, b = np.array(weights != 0, float), np.zeros_like(bias)
        extra = np.full_like(z, STABILISER)
    each = relevance / (c.sum(0) + b + extra)
    return Shared(c @ each, float(b @ each), float(extra @ each))


def convolution(kernel: Any, shape: tuple[int, int], *, same: bool) -> Any:
    """The matrix of a convolution of an image [height, width, channels], of stride one."""
    k, _, channels, filters = kernel.shape
    height, width = shape
    pad = (k - 1) // 2 if same else 0
    rows, columns = (height, width) if same else (height - k + 1, width - k + 1)
    matrix = np.zeros((height, width, channels, rows, columns, filters))
    for i in range(rows):
        for j in range(columns):
            for a in range(k):
                for b in range(k):
                    y, x = i + a - pad, j + b - pad
                    if 0 <= y < height and 0 <= x < width:
                        matrix[y, x, :, i, j, :] += kernel[a, b]
    return matrix.reshape(height * width * channels, -1)


def folded(
    weights: Any, bias: Any, gamma: Any, beta: Any, mean: Any, variance: Any, eps: float
) -> Any:
    """Weights and bias of a layer and the normalisation of its channels behind it."""
    scale = gamma / np.sqrt(variance + eps)
    times = weights.shape[1] // len(scale)
    return weights * np.tile(scale, times), np.tile((bias - mean) * scale + beta, times)
