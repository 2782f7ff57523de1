"""Quantisers that can be trained through: rounding forward, an estimate of a gradient backward.

Each is made with its options and called with a tensor: `pb.rules.quantizers.uniform(bits=4)(weights)`. As a rule, in
`pb.override` and `pb.with_gradient`, it is its estimate alone: for a rounding of one's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.errors import RuleError
from pullback.rules._ready import Forward, as_number, engine_for, quantizer, require_number

Directions = tuple[Forward, Forward]  # forward, and the rule


@quantizer
def uniform(bits: int = 8, low: float = -1.0, high: float = 1.0) -> Directions:
    """2**bits levels at equal distances from `low` to `high`; the gradient passes between these, and stops outside.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.Variable([-2.0, 0.3, 0.9])
    >>> with tf.GradientTape() as tape:
    ...     y = pb.rules.quantizers.uniform(bits=2)(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [0.0, 1.0, 1.0]
    """
    _require_bits(bits)
    require_number("quantizers.uniform", "low", low)
    require_number("quantizers.uniform", "high", high)
    if not low < high:
        raise RuleError(
            f"quantizers.uniform got low={low!r}, high={high!r}; wanted low below high."
        )
    step = (high - low) / (2**bits - 1)

    def rounded(x: Any) -> Any:
        n = engine_for(x).arrays
        return n.rounded((n.between(x, low, high) - low) / step) * step + low

    return _through(rounded, lambda _, x: (x >= low) & (x <= high))


@quantizer
def power_of_two(bits: int = 4, largest: int = 0) -> Directions:
    """Signs and powers of two, from `2**largest` down by `2**(bits − 1) − 1` of them; zero below half the least.

    The gradient passes up to `2**largest`.

    >>> import pullback as pb, tensorflow as tf
    >>> pb.rules.quantizers.power_of_two(bits=4)(tf.constant([0.3, -0.9, 5.0])).numpy().tolist()
    [0.25, -1.0, 1.0]
    """
    _require_bits(bits, least=2)
    if not isinstance(largest, int):  # pyright: ignore[reportUnnecessaryIsInstance]  # users need not check types
        raise RuleError(f"quantizers.power_of_two got largest={largest!r}; wanted a whole number.")
    least = largest - (2 ** (bits - 1) - 2)

    def rounded(x: Any) -> Any:
        n = engine_for(x).arrays
        size = n.magnitude(x)
        exponent = n.between(n.rounded(n.log2(n.maximum(size, 2.0 ** (least - 2)))), least, largest)
        return n.where(size < 2.0 ** (least - 1), n.zeros_like(x), n.sign(x) * n.exp2(exponent))

    return _through(rounded, lambda n, x: n.magnitude(x) <= 2.0**largest)


@quantizer
def ternary(threshold: float = 0.05, clip: float = 1.0) -> Directions:
    """−1, 0 or 1; zero up to the threshold. The gradient passes where |x| ≤ `clip`.

    >>> import pullback as pb, tensorflow as tf
    >>> pb.rules.quantizers.ternary()(tf.constant([0.03, -0.3, 5.0])).numpy().tolist()
    [0.0, -1.0, 1.0]
    """
    require_number("quantizers.ternary", "threshold", threshold)
    require_number("quantizers.ternary", "clip", clip, above=0.0)
    if threshold < 0:
        raise RuleError(f"quantizers.ternary got threshold={threshold!r}; wanted zero or more.")

    def rounded(x: Any) -> Any:
        n = engine_for(x).arrays
        return n.where(n.magnitude(x) <= threshold, n.zeros_like(x), n.sign(x))

    return _through(rounded, lambda n, x: n.magnitude(x) <= clip)


@quantizer
def binary(clip: float | None = 1.0, swish: float | None = None) -> Directions:
    """−1 or 1 (of zero 1). The gradient passes where |x| ≤ `clip`, or as that of a swish-like sign of slope `swish`,
    of which 5 is the usual one.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.Variable([-0.5, 0.0, 3.0])
    >>> with tf.GradientTape() as tape:
    ...     y = pb.rules.quantizers.binary()(x)
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([-1.0, 1.0, 1.0], [1.0, 1.0, 0.0])
    """
    for name, limit in (("clip", clip), ("swish", swish)):
        if limit is not None:
            require_number("quantizers.binary", name, limit, above=0.0)

    def rounded(x: Any) -> Any:
        n = engine_for(x).arrays
        return n.where(x >= 0, n.ones_like(x), -n.ones_like(x))

    if swish is None:
        limit = float("inf") if clip is None else clip
        return _through(rounded, lambda n, x: n.magnitude(x) <= limit)

    def smooth(dy: Any, *, inputs: Any) -> Any:
        n = engine_for(dy).arrays
        # β(2 − βx·tanh(βx/2)) / (1 + cosh βx), with cosh written so that nothing overflows
        t = n.between(swish * inputs[0], -_FAR, _FAR)
        s = n.sigmoid(t)
        return dy * (2.0 * swish * s * n.sigmoid(-t) * (2.0 - t * (2.0 * s - 1.0)))

    return rounded, smooth


_FAR = 80.0  # where e**-t is nothing beside 1, and times t still is


@quantizer
def lsq(bits: int = 8, signed: bool = True) -> Directions:
    """Learned step size: called with a tensor and its step, which has a gradient of its own.

    The gradient of the step is scaled by 1/√(N·Q), where N is the number of entries and Q the largest level; start it
    at `lsq_start(x, bits)`. A step that training has made negative counts by its magnitude, and is never zero. A step
    for each channel is an array that broadcasts; N is then the number of entries of a channel.

    >>> import pullback as pb, tensorflow as tf
    >>> x, step = tf.Variable([0.2, 0.9, -3.0]), tf.Variable(0.5)
    >>> with tf.GradientTape() as tape:
    ...     y = pb.rules.quantizers.lsq(bits=2)(x, step)
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([0.0, 0.5, -1.0], [1.0, 0.0, 0.0])
    """
    lowest, highest = _levels(bits, signed)

    def rounded(x: Any, step: Any = None) -> Any:
        _require_step(step)
        n = engine_for(x).arrays
        ratio, size = _in_steps(n, x, step)
        return n.like(x, n.rounded(n.between(ratio, lowest, highest)) * size)

    def estimate(dy: Any, *, inputs: Any) -> Any:
        n = engine_for(dy).arrays
        x, step = inputs
        ratio, _ = _in_steps(n, x, step)
        inside = (ratio > lowest) & (ratio < highest)
        level = n.rounded(n.between(ratio, lowest, highest))
        slope = n.where(inside, level - ratio, level)
        scale = (n.count(ratio) / n.like(ratio, n.count(step)) * highest) ** -0.5
        of_step = n.sum_like(n.like(ratio, dy) * slope, step) * scale
        return n.where(inside, dy, n.zeros_like(dy)), n.where(step < 0, -of_step, of_step)

    return rounded, estimate


def lsq_start(x: Any, bits: int = 8, signed: bool = True) -> Any:
    """The step to start with: twice the mean magnitude over the root of the largest level. Zeros give none.

    >>> import pullback as pb, tensorflow as tf
    >>> float(pb.rules.quantizers.lsq_start(tf.constant([1.0, -3.0]), bits=2))
    4.0
    """
    found = step_from(x, bits, signed)
    if as_number(found) == 0:
        raise RuleError(
            "quantizers.lsq_start got nothing but zeros, from which no step can be told. Start from numbers like those "
            "that will come, or give lsq a step of your own, above zero."
        )
    return found


def step_from(x: Any, bits: int, signed: bool) -> Any:
    """The same, zero where all are zeros: for a layer, which then waits for others."""
    _, highest = _levels(bits, signed)
    n = engine_for(x).arrays
    return 2.0 * n.mean(n.magnitude(n.wide(x))) / highest**0.5


def _levels(bits: int, signed: bool) -> tuple[int, int]:
    _require_bits(bits, least=2 if signed else 1)
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)


def _through(rounded: Callable[[Any], Any], passes: Callable[[Any, Any], Any]) -> Directions:
    """A function whose gradient is the upstream where it passes, and zero elsewhere."""

    def estimate(dy: Any, *, inputs: Any) -> Any:
        n = engine_for(dy).arrays
        return n.where(passes(n, inputs[0]), dy, n.zeros_like(dy))

    return rounded, estimate


def _require_bits(bits: Any, least: int = 1) -> None:
    is_whole = isinstance(bits, int) and not isinstance(bits, bool)
    if not is_whole or not least <= bits <= _MOST_BITS:
        raise RuleError(
            f"a quantiser got bits={bits!r}; wanted a whole number from {least} to {_MOST_BITS}."
        )


_MOST_BITS = 24  # more levels than that float32 cannot tell apart


def _require_step(step: Any) -> None:
    """Tensors may have any sign, since training moves them; a number is as somebody wrote it."""
    if step is None:
        raise RuleError(
            "quantizers.lsq got a tensor and no step. Call it with both, lsq(bits=2)(x, step), where "
            "step = tf.Variable(pb.rules.quantizers.lsq_start(x, bits=2))."
        )
    if not hasattr(step, "dtype"):
        require_number("quantizers.lsq", "step", step, above=0.0)


def _in_steps(n: Any, x: Any, step: Any) -> tuple[Any, Any]:
    """An array in steps, and the step: in float32 at least, and kept away from zero."""
    x = n.wide(x)
    size = n.like(x, n.maximum(n.magnitude(n.wide(step)), _LEAST_STEP))
    return x / size, size


_LEAST_STEP = 1e-8
