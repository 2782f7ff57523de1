"""Rules that share out a difference exactly: DeepLIFT's, for a batch whose second half is the baseline.

What flows are multipliers: (input − baseline) × gradient is what an input contributes, and all contributions add up to
the difference of the outputs. What is linear needs no rule for that: its gradient is its multiplier.

`batch` is the size of the whole batch, by which its axis is found where it is not the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pullback.errors import RuleError
from pullback.rules._ready import engine_for, ready

Rule = Callable[..., Any]


@ready
def rescale(batch: int | None = None) -> Rule:
    """DeepLIFT's rescale rule, for activations: how much the output differs, for how much the input does.

    The batch holds the examples and then their baselines, one each. Where an input hardly differs from its baseline,
    the multiplier is the ordinary slope. Use it where the gradient is of no use because an activation is saturated.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.Variable([[8.0], [-2.0]])  # an example and its baseline
    >>> with pb.override({"Relu6": pb.rules.rescale()}), tf.GradientTape() as tape:
    ...     y = tf.nn.relu6(x)[0]
    >>> tape.gradient(y, x)[0].numpy().tolist()  # (6 − 0) / (8 − −2), where the gradient is 0
    [0.6000000238418579]
    """

    def rule(dy: Any, *, inputs: Any, outputs: Any, original: Any) -> Any:
        n, axis = _batch(dy, batch)
        slopes = _first(original(n.ones_like(dy)))
        ratio = _rate(n, axis, inputs[0], outputs, slopes)
        return {inputs.names[0]: dy * n.doubled(ratio, axis)}

    return rule


def _rate(n: Any, axis: int, inputs: Any, outputs: Any, slopes: Any) -> Any:
    """How fast a function of one number rises from baselines to examples.

    The mean slope serves where it explains the difference up to rounding: there, the quotient is made of rounding.
    """
    (x, x0), (y, y0) = n.halves(inputs, axis), n.halves(outputs, axis)
    rise, run = n.difference(y, y0), n.difference(x, x0)
    slope, slope0 = n.halves(n.nan_to_zero(slopes), axis)
    slope = (slope + slope0) / 2
    is_slope = n.is_rounding(run, x, x0) | n.is_rounding(rise - slope * run, y, y0)
    return n.quotient(rise, run, unless=is_slope, otherwise=slope)


@ready
def bilinear(batch: int | None = None) -> Rule:
    """For products of two things that vary, such as attention and gates: each gets its part at the mean of the other.

    Δ(a·b) = Δa · mean(b) + Δb · mean(a), over an example and its baseline, which is exact. Use it with `rescale`, for
    the op types "Mul", "BatchMatMulV2" and "Einsum".

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.Variable([[3.0], [1.0]])  # an example and its baseline
    >>> with pb.override({"Mul": pb.rules.bilinear()}), tf.GradientTape() as tape:
    ...     y = (x * x)[0]
    >>> tape.gradient(y, x)[0].numpy().tolist()  # (9 − 1) / (3 − 1), where the gradient is 6
    [4.0]
    """

    def rule(dy: Any, *, inputs: Any, original: Any, attrs: Any, op: Any) -> Any:
        n = engine_for(dy).arrays
        operands = list(inputs)
        axes = n.axes_of_operands(op, attrs, operands, dy, batch)
        if sum(axis is not None for axis in axes) < 2:
            return original(dy)  # what is multiplied by something constant is linear
        means = [n.mean_of_halves(x, axis) for x, axis in zip(operands, axes, strict=True)]
        gradients = n.pulled_back(op.type, attrs, means, dy)
        return gradients if op.type == "Einsum" else tuple(gradients)

    return rule


@ready
def share_of_quotient(batch: int | None = None) -> Rule:
    """For a / b: the product of a and 1/b, of which Δ(1/b) = −Δb / (b·b₀)."""

    def rule(dy: Any, *, inputs: Any, op: Any) -> Any:
        n = engine_for(dy).arrays
        a, b = inputs
        of_a, of_b = n.axes_of_operands(op, None, [a, b], dy, batch)
        to_a = dy * n.mean_of_halves(n.reciprocal(b), of_b)
        both = n.reciprocal(b) * n.reciprocal(n.swapped(b, of_b))
        to_b = -dy * n.mean_of_halves(a, of_a) * both
        return n.sum_like(to_a, a), n.sum_like(to_b, b)

    return rule


@ready
def share_of_squared_difference(batch: int | None = None) -> Rule:
    """For (a − b)²: the sum of the differences at the example and at its baseline."""

    def rule(dy: Any, *, inputs: Any) -> Any:
        n, axis = _batch(dy, batch)
        a, b = inputs
        both = dy * 2.0 * n.mean_of_halves(a - b, axis)
        return n.sum_like(both, a), n.sum_like(-both, b)

    return rule


@ready
def share_of_maximum(batch: int | None = None) -> Rule:
    """For the largest of several: the difference goes to the one that was largest where the larger maximum is."""

    def rule(*dy: Any, inputs: Any, outputs: Any, original: Any) -> Any:
        y = outputs[0] if isinstance(outputs, (tuple, list)) else outputs
        n, axis = _batch(dy[0], batch)
        if len(y.shape) != len(inputs[0].shape):
            axis = 0
        upstream, (y, y0) = n.halves(dy[0], axis)[0], n.halves(y, axis)
        larger = n.maximum(y, y0)
        routed = original(n.joined(upstream * (larger - y0), upstream * (y - larger), axis))
        above, below = n.halves(_first(routed), axis)
        x, x0 = n.halves(inputs[0], axis)
        run = n.difference(x, x0)
        rate = n.quotient(
            above + below, run, unless=n.is_rounding(run, x, x0), otherwise=n.zeros_like(x)
        )
        return {inputs.names[0]: n.doubled(rate, axis)}

    return rule


@ready
def share_of_choice(batch: int | None = None) -> Rule:
    """For one of two, entry by entry (the larger, or where a condition holds).

    Where the choice is the same for an example and its baseline, all goes to the chosen one; where it is not, both have
    their part in proportion to how much they differ.
    """

    def rule(dy: Any, *, inputs: Any, outputs: Any) -> Any:
        n, axis = _batch(dy, batch)
        *conditions, a, b = inputs
        wide = [n.broadcast_like(x, outputs) for x in (a, b)]
        chosen = n.broadcast_like(conditions[0], outputs) if conditions else outputs == wide[0]
        (c, c0), (y, y0) = n.halves(chosen, axis), n.halves(outputs, axis)
        runs = [n.difference(*n.halves(x, axis)) for x in wide]
        total = n.magnitude(runs[0]) + n.magnitude(runs[1])
        share = n.quotient(y - y0, total, unless=total == 0, otherwise=n.zeros_like(total))
        always = n.like(dy, c & c0), n.like(dy, ~(c | c0))
        rates = [n.where(c == c0, w, share * n.sign(r)) for w, r in zip(always, runs, strict=True)]
        shares = [dy * n.doubled(rate, axis) for rate in rates]
        nothing = (None,) * len(conditions)
        return *nothing, n.sum_like(shares[0], a), n.sum_like(shares[1], b)

    return rule


@ready
def share_of_softmax(batch: int | None = None) -> Rule:
    """For softmax along the last axis, as what it is: exponentials, their sum, its reciprocal, and a product."""

    def rule(dy: Any, *, inputs: Any) -> Any:
        n, axis = _batch(dy, batch)
        e, e0, s, s0, rate = _exponentials(n, axis, inputs[0])
        upstream = n.halves(dy, axis)[0]
        of_e = upstream * (1.0 / s + 1.0 / s0) / 2
        of_e = of_e - n.sum_along_last(upstream * (e + e0)) / 2 / (s * s0)
        return {inputs.names[0]: n.doubled(of_e * rate, axis)}

    return rule


@ready
def share_of_log_softmax(batch: int | None = None) -> Rule:
    """For the logarithm of softmax: the input less the logarithm of the sum of exponentials."""

    def rule(dy: Any, *, inputs: Any) -> Any:
        n, axis = _batch(dy, batch)
        _, _, s, s0, rate = _exponentials(n, axis, inputs[0])
        upstream, run = n.halves(dy, axis)[0], s - s0
        of_s = n.quotient(
            n.log(s / s0), run, unless=n.is_rounding(run, s, s0), otherwise=2.0 / (s + s0)
        )
        share = upstream - n.sum_along_last(upstream) * of_s * rate
        return {inputs.names[0]: n.doubled(share, axis)}

    return rule


def _exponentials(n: Any, axis: int, logits: Any) -> tuple[Any, ...]:
    """exp(x), exp(x₀), their sums along the last axis, all in one unit, and how fast exp rises from x₀ to x."""
    x, x0 = n.halves(logits, axis)
    highest = n.maximum(n.largest_along_last(x), n.largest_along_last(x0))
    shifted = n.joined(x - highest, x0 - highest, axis)
    e = n.exp(shifted)
    sums = n.halves(n.sum_along_last(e), axis)
    return *n.halves(e, axis), *sums, _rate(n, axis, shifted, e, e)


def deeplift_rules(batch: int | None) -> Mapping[str, Any]:
    """The rules by kind of operation."""
    return {
        "activation": rescale(batch),
        "function": rescale(batch),
        "product": bilinear(batch),
        "quotient": share_of_quotient(batch),
        "squared difference": share_of_squared_difference(batch),
        "largest": share_of_maximum(batch),
        "choice": share_of_choice(batch),
        "softmax": share_of_softmax(batch),
        "log softmax": share_of_log_softmax(batch),
        "normalisation": linear_in_inference,
        "unknown": refused,
    }


def linear_in_inference(*dy: Any, original: Any, attrs: Any, op: Any) -> Any:
    """A normalisation by given statistics is linear; by those of the batch, it mixes examples and baselines."""
    if attrs["is_training"]:
        raise RuleError(
            f"{op.name} ({op.type}) normalises by the statistics of the batch, in which examples and baselines are "
            "together. Call the model with training=False."
        )
    return original(*dy)


def refused(*dy: Any, inputs: Any, op: Any) -> Any:
    """An operation whose difference cannot be shared out."""
    del dy, inputs
    layer = f" in layer {op.layer!r}" if op.layer else ""
    line = f" at {op.source}" if op.source else ""
    raise RuleError(
        f"no rule shares out the difference of {op.name} ({op.type}){layer}{line}, which is not known to be linear. "
        f"Give one: `rules={{{op.type!r}: pb.rules.rescale()}}`, if it is a function of one number, or your own."
    )


def _batch(upstream: Any, batch: int | None) -> tuple[Any, int]:
    arrays = engine_for(upstream).arrays
    return arrays, arrays.axis_of(upstream, batch)


def _first(gradients: Any) -> Any:
    return gradients[0] if isinstance(gradients, (tuple, list)) else gradients
