"""Quantisers that can be trained through: rounding forward, an estimate of a gradient backward.

Each is made with its options and called with a tensor: `pb.rules.quantizers.uniform(bits=4)(weights)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback._define import with_gradient
from pullback.errors import RuleError
from pullback.rules._ready import engine_for

Quantizer = Callable[..., Any]


def uniform(bits: int = 8, low: float = -1.0, high: float = 1.0) -> Quantizer:
    """2**bits levels at equal distances from `low` to `high`; the gradient passes between these, and stops outside.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.Variable([-2.0, 0.3, 0.9])
    >>> with tf.GradientTape() as tape:
    ...     y = pb.rules.quantizers.uniform(bits=2)(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [0.0, 1.0, 1.0]
    """
    _require_bits(bits)
    if not low < high:
        raise RuleError(
            f"quantizers.uniform got low={low!r}, high={high!r}; wanted low below high."
        )
    step = (high - low) / (2**bits - 1)

    def rounded(x: Any) -> Any:
        n = engine_for(x).arrays
        return n.rounded((n.between(x, low, high) - low) / step) * step + low

    return _through(rounded, lambda _, x: (x >= low) & (x <= high))


def power_of_two(bits: int = 4, largest: int = 0) -> Quantizer:
    """Signs and powers of two, from 2**largest down by 2**(bits − 1) − 1 of them; what is below half the least is zero.

    The gradient passes up to 2**largest.
    """
    _require_bits(bits, least=2)
    least = largest - (2 ** (bits - 1) - 2)

    def rounded(x: Any) -> Any:
        n = engine_for(x).arrays
        size = n.magnitude(x)
        exponent = n.between(n.rounded(n.log2(n.maximum(size, 2.0 ** (least - 2)))), least, largest)
        return n.where(size < 2.0 ** (least - 1), n.zeros_like(x), n.sign(x) * n.exp2(exponent))

    return _through(rounded, lambda n, x: n.magnitude(x) <= 2.0**largest)


def ternary(threshold: float = 0.05, clip: float = 1.0) -> Quantizer:
    """−1, 0 or 1; zero up to the threshold. The gradient passes where |x| ≤ `clip`."""
    if not threshold >= 0:
        raise RuleError(f"quantizers.ternary got threshold={threshold!r}; wanted zero or more.")

    def rounded(x: Any) -> Any:
        n = engine_for(x).arrays
        return n.where(n.magnitude(x) <= threshold, n.zeros_like(x), n.sign(x))

    return _through(rounded, lambda n, x: n.magnitude(x) <= clip)


def binary(clip: float | None = 1.0, swish: float | None = None) -> Quantizer:
    """−1 or 1 (of zero 1). The gradient passes where |x| ≤ `clip`, or as that of a swish-like sign of slope `swish`,
    of which 5 is the usual one.
    """
    if swish is not None and not swish > 0:
        raise RuleError(f"quantizers.binary got swish={swish!r}; wanted a slope above zero.")

    def rounded(x: Any) -> Any:
        n = engine_for(x).arrays
        return n.where(x >= 0, n.ones_like(x), -n.ones_like(x))

    if swish is None:
        limit = float("inf") if clip is None else clip
        return _through(rounded, lambda n, x: n.magnitude(x) <= limit)

    def smooth(dy: Any, *, inputs: Any) -> Any:
        n, x = engine_for(dy).arrays, inputs[0]
        # β(2 − βx·tanh(βx/2)) / (1 + cosh βx), with cosh written so that nothing overflows
        s = n.sigmoid(swish * x)
        return dy * (2.0 * swish * s * n.sigmoid(-swish * x) * (2.0 - swish * x * (2.0 * s - 1.0)))

    return with_gradient(rounded, smooth)


def lsq(bits: int = 8, signed: bool = True) -> Quantizer:
    """Learned step size: called with a tensor and its step, which has a gradient of its own.

    The gradient of the step is scaled by 1/√(N·Q), where N is the number of entries and Q the largest level; start it
    at `lsq_start(x, bits)`. A step that training has made negative counts by its magnitude, and is never zero.
    """
    _require_bits(bits, least=2 if signed else 1)
    lowest, highest = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)

    def rounded(x: Any, step: Any) -> Any:
        n = engine_for(x).arrays
        size = _size_of(n, step)
        return n.rounded(n.between(x / size, lowest, highest)) * size

    def rule(dy: Any, *, inputs: Any) -> Any:
        n = engine_for(dy).arrays
        x, step = inputs
        size = _size_of(n, step)
        ratio = x / size
        inside = (ratio > lowest) & (ratio < highest)
        level = n.rounded(n.between(ratio, lowest, highest))
        slope = n.where(inside, level - ratio, level)
        scale = (n.count(x) * highest) ** -0.5
        return n.where(inside, dy, n.zeros_like(dy)), n.sum_like(
            dy * slope * scale * _direction(n, step), step
        )

    return with_gradient(rounded, rule)


def lsq_start(x: Any, bits: int = 8, signed: bool = True) -> Any:
    """The step to start with: twice the mean magnitude over the root of the largest level."""
    highest = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
    n = engine_for(x).arrays
    return 2.0 * n.mean(n.magnitude(x)) / highest**0.5


def _through(rounded: Callable[[Any], Any], passes: Callable[[Any, Any], Any]) -> Quantizer:
    """A function whose gradient is the upstream where it passes, and zero elsewhere."""

    def estimate(dy: Any, *, inputs: Any) -> Any:
        n = engine_for(dy).arrays
        return n.where(passes(n, inputs[0]), dy, n.zeros_like(dy))

    return with_gradient(rounded, estimate)


def _require_bits(bits: Any, least: int = 1) -> None:
    if not isinstance(bits, int) or not least <= bits <= 32:
        raise RuleError(f"a quantiser got bits={bits!r}; wanted a whole number from {least} to 32.")


def _size_of(n: Any, step: Any) -> Any:
    """The magnitude of a step, kept away from zero."""
    return n.maximum(n.magnitude(step), 1e-8)


def _direction(n: Any, step: Any) -> Any:
    return n.where(step < 0, -n.ones_like(step), n.ones_like(step))
