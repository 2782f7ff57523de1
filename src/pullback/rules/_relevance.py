"""Rules that share out a difference exactly: DeepLIFT's, for a batch whose second half is the baseline.

What flows are multipliers: (input − baseline) × gradient is what an input contributes, and all contributions add up to
the difference of the outputs. What is linear needs no rule for that: its gradient is its multiplier.

`batch` is the size of the whole batch, by which what varies with the examples is told from weights. Choose one that no
weight has as its size; without it, everything whose first axis is that of the output is taken to vary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.rules._ready import engine_for, ready

Rule = Callable[..., Any]


@ready
def rescale(batch: int | None = None) -> Rule:
    """DeepLIFT's rescale rule, for functions of one number: how much the output differs, for how much the input does.

    The batch holds the examples and then their baselines, one each. Where an input does not differ from its baseline,
    the multiplier is the ordinary slope.
    """

    def rule(dy: Any, *, inputs: Any, outputs: Any, original: Any) -> Any:
        n = engine_for(dy).arrays
        (x, x0), (y, y0) = n.halves(inputs[0]), n.halves(outputs)
        slope, slope0 = n.halves(original(n.ones_like(dy)))
        ratio = n.quotient(y - y0, x - x0, x, x0, otherwise=(slope + slope0) / 2)
        return {inputs.names[0]: dy * n.doubled(ratio)}

    return rule


@ready
def bilinear(batch: int | None = None) -> Rule:
    """For products of two varying things, such as attention: each gets its part at the mean of the other.

    Δ(a·b) = Δa · mean(b) + Δb · mean(a), over an example and its baseline, which is exact.
    """

    def rule(dy: Any, *, inputs: Any, attrs: Any, op: Any) -> Any:
        n = engine_for(dy).arrays
        means = [n.mean_of_halves(x, _size(batch, dy)) for x in inputs]
        return tuple(n.pulled_back(op.type, attrs, means, dy))

    return rule


@ready
def share_of_quotient(batch: int | None = None) -> Rule:
    """For a / b: the product of a and 1/b, and Δ(1/b) = −Δb / (b·b₀)."""

    def rule(dy: Any, *, inputs: Any) -> Any:
        n = engine_for(dy).arrays
        (a, b), size = inputs, _size(batch, dy)
        of_a = dy * n.mean_of_halves(1.0 / b, size)
        of_b = -dy * n.mean_of_halves(a, size) / (b * n.swapped(b, size))
        return n.sum_like(of_a, a), n.sum_like(of_b, b)

    return rule


@ready
def share_of_squared_difference(batch: int | None = None) -> Rule:
    """For (a − b)²: the sum of the differences at the example and at its baseline."""

    def rule(dy: Any, *, inputs: Any) -> Any:
        n = engine_for(dy).arrays
        a, b = inputs
        both = dy * 2.0 * n.mean_of_halves(a - b, _size(batch, dy))
        return n.sum_like(both, a), n.sum_like(-both, b)

    return rule


@ready
def share_of_maximum(batch: int | None = None) -> Rule:
    """For the largest of several: the difference goes to the one that was largest where the larger maximum is."""

    def rule(*dy: Any, inputs: Any, outputs: Any, original: Any) -> Any:
        n = engine_for(dy).arrays
        upstream = n.halves(dy[0])[0]
        x, x0 = n.halves(inputs[0])
        y, y0 = n.halves(outputs)
        larger = n.maximum(y, y0)
        routed = original(n.joined(upstream * (larger - y0), upstream * (y - larger)))
        routed = routed[0] if isinstance(routed, tuple) else routed
        above, below = n.halves(routed)
        share = n.quotient(above + below, x - x0, x, x0, otherwise=n.zeros_like(x))
        return {inputs.names[0]: n.doubled(share)}

    return rule


@ready
def share_of_softmax(batch: int | None = None) -> Rule:
    """For softmax along the last axis, as what it is: exponentials, their sum, its reciprocal, and a product."""

    def rule(dy: Any, *, inputs: Any) -> Any:
        n = engine_for(dy).arrays
        x, x0 = n.halves(inputs[0])
        highest = n.maximum(n.largest_along_last(x), n.largest_along_last(x0))
        e, e0 = n.exp(x - highest), n.exp(x0 - highest)
        s, s0 = n.sum_along_last(e), n.sum_along_last(e0)
        upstream = n.halves(dy)[0]
        of_e = upstream * (1.0 / s + 1.0 / s0) / 2 - n.sum_along_last(upstream * (e + e0)) / 2 / (
            s * s0
        )
        ratio = n.quotient(e - e0, x - x0, x, x0, otherwise=(e + e0) / 2)
        return {inputs.names[0]: n.doubled(of_e * ratio)}

    return rule


def _size(batch: int | None, upstream: Any) -> int:
    return upstream.shape[0] if batch is None else batch
