"""Element-wise pieces of models, forward and backward each one compiled unit, in programs that are not compiled.

What they hold for the backward pass is their inputs, and one number per row of norms: the rest is computed again, which
takes no time beside reading it.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from pullback._project import compatible, describe
from pullback.errors import ArgumentError
from pullback.functions._arguments import (
    arrays_for,
    dtype_of,
    in_models,
    real_arrays,
    require_number,
    require_rank,
    with_own_gradient,
)
from pullback.functions.stable.exponentials import sigmoids
from pullback.functions.stable.softmax import Shares, excess, minus_log_softmax

_ROOT_HALF = math.sqrt(0.5)
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)  # of the normal distribution, at 0
_ROOT_TWO = math.sqrt(2.0)
# Twice what is under the tanh, by powers of x.
_TWICE_TANH = 2.0 * math.sqrt(2.0 / math.pi), 2.0 * math.sqrt(2.0 / math.pi) * 0.044715
# From there on gelu is 0 or x to all digits of float64, and silu from a little further; cubes do not overflow.
_GELU_ENDS, _SILU_ENDS = 60.0, 1000.0
_FEW = 32  # terms of a sum: XLA splits longer ones


def _sums(xp: Any, x: Any) -> Any:
    """Sums along the last axis, which stays, without what is summed in memory.

    XLA computes the terms of a sum where it adds them if these are few. On CPUs it splits a longer sum, and writes all
    terms to memory before. So it is split here, and what is left to add up is a product with ones.
    """
    count = _few(x.shape[-1], 8)
    if count == 1:
        return xp.sum(x, -1, keepdims=True)
    parts = xp.sum(xp.reshape(x, [-1, count, x.shape[-1] // count]), 1)
    whole = xp.matmul(parts, xp.zeros([x.shape[-1] // count, 1], x.dtype) + 1.0)
    return xp.reshape(whole, [*(xp.extent(x, axis) for axis in range(len(x.shape) - 1)), 1])


def _sums_of_rows(xp: Any, x: Any) -> Any:
    """Sums along all axes but the last one, in the same way; of two sums of one dtype XLA would make one."""
    x = xp.reshape(x, [-1, xp.extent(x, -1)]) if len(x.shape) != 2 else x
    count = _few(x.shape[0], 16)
    if count == 1:
        return xp.sum(x, 0)
    parts = xp.sum(xp.reshape(x, [-1, count, xp.extent(x, -1)]), 1)
    return xp.astype(xp.sum(xp.widest(parts), 0), x.dtype)


def _few(count: int | None, about: int) -> int:
    """A part of so many terms that are added first: about so many, as fewer take memory and more take time."""
    near = (*range(about, _FEW + 1), *range(about - 1, 1, -1))
    return next((n for n in near if count and count % n == 0), 1)


@with_own_gradient
def gelu(x: Any, approximate: bool = False) -> Any:
    """The Gaussian error linear unit x · Φ(x), or its approximation by tanh, as `tf.nn.gelu`.

    Use it in models that run eagerly or in a `tf.function` without XLA, for large tensors: forward and backward are one
    pass over memory each, instead of one for each operation. A new shape is compiled first. Inside of
    `jit_compile=True` nothing is gained or lost.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.constant([-1.0, 0.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = pb.functions.gelu(x)
    >>> tape.gradient(y, x).numpy().astype(float).round(4).tolist()
    [-0.0833, 0.5, 1.0852]
    """
    xp, a = real_arrays("gelu", x=x)
    kind = bool(approximate)

    def gelu_pullback(dy: Any) -> Any:
        return xp.compiled(_gelu_slope, approximate=kind)(a, xp.wide(dy))

    return xp.astype(xp.compiled(_gelu, approximate=kind)(a), dtype_of(xp, x)), gelu_pullback


def _gelu(x: Any, *, approximate: bool) -> Any:
    xp = arrays_for(x)
    near, x = xp.clamp(x, -_GELU_ENDS, _GELU_ENDS), xp.maximum(x, -_GELU_ENDS)
    if approximate:
        return x * _gates(xp, near)[0]
    return x * _below(xp, near)


def _gelu_slope(x: Any, dy: Any, *, approximate: bool) -> Any:
    xp = arrays_for(x)
    x = xp.clamp(x, -_GELU_ENDS, _GELU_ENDS)
    if approximate:
        up, down = _gates(xp, x)
        return dy * up * (1.0 + x * down * (_TWICE_TANH[0] + 3.0 * _TWICE_TANH[1] * x * x))
    return dy * (_below(xp, x) + x * _DENSITY * xp.exp(-0.5 * x * x))


def _gates(xp: Any, x: Any) -> tuple[Any, Any]:
    """(1 + tanh u) / 2 and (1 − tanh u) / 2, which are σ(2 u) and σ(−2 u)."""
    wide = xp.widest(x)
    whole, rest = _rounded(xp, _TWICE_TANH[0] * wide + _TWICE_TANH[1] * wide * wide * wide, x)
    up, down = sigmoids(whole)
    return up * (1.0 + rest * down), down * (1.0 - rest * up)


def _below(xp: Any, x: Any) -> Any:
    """The normal distribution function."""
    whole, rest = _rounded(xp, -_ROOT_HALF * xp.widest(x), x)
    return 0.5 * xp.erfc(whole) - _ROOT_TWO * _DENSITY * rest * xp.exp(-whole * whole)


def _rounded(xp: Any, wide: Any, like: Any) -> tuple[Any, Any]:
    """A number of float64 in a narrower dtype, and what that has lost: exponentials multiply it."""
    whole = xp.astype(wide, like.dtype)
    rest = xp.astype(wide - xp.astype(whole, wide.dtype), like.dtype)
    return whole, xp.stop_gradient(rest)


@with_own_gradient
def swiglu(gate: Any, x: Any) -> Any:
    """silu(gate) · x, the gated unit of feed-forward layers.

    Use it in place of `tf.nn.silu(gate) * x`, as with `gelu`.

    >>> import pullback as pb, tensorflow as tf
    >>> gate, x = tf.constant([0.0, 2.0]), tf.constant([3.0, 5.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(gate)
    ...     y = pb.functions.swiglu(gate, x)
    >>> tape.gradient(y, gate).numpy().astype(float).round(4).tolist()
    [1.5, 5.4539]
    """
    xp, a, b = real_arrays("swiglu", gate=gate, x=x)
    if not compatible(tuple(a.shape), tuple(b.shape)):
        raise ArgumentError(
            f"pb.functions.swiglu got gate {describe(gate)} and x {describe(x)}; wanted one shape for both."
        )

    def swiglu_pullback(dy: Any) -> Any:
        dgate, dx = xp.compiled(_swiglu_slopes)(a, b, xp.wide(dy))
        return {"gate": dgate, "x": dx}

    return xp.astype(xp.compiled(_swiglu)(a, b), dtype_of(xp, gate, x)), swiglu_pullback


def _swiglu(gate: Any, x: Any) -> Any:
    return _silu(gate) * x


def _swiglu_slopes(gate: Any, x: Any, dy: Any) -> tuple[Any, Any]:
    xp = arrays_for(x)
    return dy * x * _silu_slope(xp, gate), dy * _silu(gate)


@with_own_gradient
def _silu(gate: Any) -> Any:
    xp = arrays_for(gate)

    def silu_pullback(dy: Any) -> Any:
        return xp.times_or_zero(_silu_slope(xp, gate), dy)

    return xp.maximum(gate, -_SILU_ENDS) * sigmoids(gate)[0], silu_pullback


def _silu_slope(xp: Any, gate: Any) -> Any:
    near = xp.clamp(gate, -_SILU_ENDS, _SILU_ENDS)
    up, down = sigmoids(near)
    return up * (1.0 + near * down)


@in_models
def rms_norm(x: Any, scale: Any = None, epsilon: float = 1e-6) -> Any:
    """Entries divided by √(mean of squares + epsilon) along the last axis, times `scale`.

    Use it in place of the formula, as with `gelu`: beside `x`, one number per row is held.

    >>> import pullback as pb, tensorflow as tf
    >>> pb.functions.rms_norm(tf.constant([[3.0, 4.0]])).numpy().astype(float).round(3).tolist()
    [[0.849, 1.131]]
    """
    return _normalised("rms_norm", x, scale, None, epsilon=epsilon, centred=False)


@in_models
def layer_norm(x: Any, scale: Any = None, offset: Any = None, epsilon: float = 1e-6) -> Any:
    """(x − mean) / √(variance + epsilon) along the last axis, times `scale`, plus `offset`.

    Use it in place of the formula or of `keras.layers.LayerNormalization`'s, as with `gelu`.

    >>> import pullback as pb, tensorflow as tf
    >>> pb.functions.layer_norm(tf.constant([[1.0, 2.0, 3.0]])).numpy().astype(float).round(3).tolist()
    [[-1.225, 0.0, 1.225]]
    """
    return _normalised("layer_norm", x, scale, offset, epsilon=epsilon, centred=True)


def _normalised(name: str, x: Any, scale: Any, offset: Any, *, epsilon: Any, centred: bool) -> Any:
    require_number(name, epsilon, "epsilon", 0.0, 1.0)
    xp = arrays_for(x, scale, offset)
    x = xp.asarray(x)
    require_rank(name, x=x)
    scale, offset = (
        p if p is None or xp.is_array(p) else xp.asarray(p, x.dtype) for p in (scale, offset)
    )
    if len(x.shape) == 0:
        raise ArgumentError(
            f"pb.functions.{name} got x {describe(x)}; wanted at least one axis, along which to normalise."
        )
    for what, value in {"scale": scale, "offset": offset}.items():
        if value is not None and not compatible(tuple(value.shape), tuple(x.shape[-1:])):
            raise ArgumentError(
                f"pb.functions.{name} got {what} {describe(value)} for x {describe(x)}; wanted one number for each "
                "entry of the last axis."
            )
    return _norm(x, scale, offset, name=name, epsilon=float(epsilon), centred=centred)[0]


@with_own_gradient
def _norm(x: Any, scale: Any, offset: Any, *, name: str, epsilon: float, centred: bool) -> Any:
    """The result, and what the entries of each row were divided by: its gradient needs no more of a row's squares."""
    xp, a = real_arrays(name, x=x)
    times, plus = (None if p is None else xp.astype(p, a.dtype) for p in (scale, offset))
    found, root = xp.compiled(_norm_values, epsilon=epsilon, centred=centred)(a, times, plus)

    def norm_pullback(dy: Any, droot: Any) -> Any:
        # An operation must read it: TensorFlow's gradient of tf.cond overlooks what only a compiled unit is given.
        by = 1.0 / root
        run = xp.compiled(_norm_slopes, centred=centred)
        dx, dscale, doffset = run(a, by, times, plus, xp.wide(dy), droot)
        return {"x": dx, "scale": dscale, "offset": doffset}

    return (xp.astype(found, dtype_of(xp, x)), root), norm_pullback


def _norm_values(x: Any, scale: Any, offset: Any, *, epsilon: float, centred: bool) -> Any:
    xp = arrays_for(x)
    entries = _entries(xp, x, centred)
    # Squares of float64 may leave its range: there they are those of entries divided by a power of two.
    unit = _power_of_two(xp, entries, epsilon) if entries.dtype == x.dtype else 1.0
    root = xp.sqrt(_mean(xp, xp.square(entries / unit)) + epsilon / unit / unit) * unit
    y = xp.astype(entries * (1.0 / root), x.dtype)
    y = y if scale is None else y * scale
    return y if offset is None else y + offset, root


def _entries(xp: Any, x: Any, centred: bool) -> Any:
    """What is normalised, in float64, where squares of float32 neither overflow nor vanish: it is never in memory."""
    x = xp.widest(x)
    return x - _mean(xp, x) if centred else x


def _mean(xp: Any, x: Any) -> Any:
    return _sums(xp, x / _width(xp, x))


def _width(xp: Any, x: Any) -> Any:
    return xp.size(x, (len(x.shape) - 1,))


def _power_of_two(xp: Any, x: Any, epsilon: float) -> Any:
    largest = xp.maximum(xp.max(xp.magnitude(x), -1, keepdims=True), math.sqrt(epsilon))
    usable = xp.isfinite(largest) & (largest > 0)
    return xp.power_of_two_below(xp.where(usable, largest, xp.ones_like(largest)))


def _norm_slopes(
    x: Any, by: Any, scale: Any, offset: Any, dy: Any, droot: Any, *, centred: bool
) -> tuple[Any, Any, Any]:
    xp = arrays_for(x)
    unit = _entries(xp, x, centred) * by
    dscale = None if scale is None else _sums_of_rows(xp, dy * xp.astype(unit, x.dtype))
    doffset = None if offset is None else xp.sum(dy, tuple(range(len(x.shape) - 1)))
    dunit = xp.widest(dy if scale is None else dy * scale)
    across = dunit - _mean(xp, dunit) if centred else dunit
    # Of the root, the derivative is unit / width.
    along = _mean(xp, dunit * unit) * by - droot / _width(xp, unit)
    return xp.astype(across * by - unit * along, x.dtype), dscale, doffset


@with_own_gradient
def softmax_cross_entropy(labels: Any, logits: Any) -> Any:
    """The cross-entropy of softmax(logits) and labels along the last axis: class numbers, or a probability per class.

    Use it for logits that you have, with many classes, as with `gelu`; `linear_cross_entropy` where they come from a
    linear layer. Class numbers that are no classes give NaN.

    >>> import pullback as pb, tensorflow as tf
    >>> logits = tf.constant([[0.0, 1.0]])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(logits)
    ...     loss = pb.functions.softmax_cross_entropy(tf.constant([1]), logits)
    >>> tape.gradient(loss, logits).numpy().astype(float).round(4).tolist()
    [[0.2689, -0.2689]]
    """
    name = "softmax_cross_entropy"
    xp, z = real_arrays(name, logits=logits)
    labels = xp.packed(labels)
    require_rank(name, labels=labels, logits=z)
    numbers = xp.kind_of(labels) != "floating"
    wanted = tuple(z.shape[:-1]) if numbers else tuple(z.shape)
    fit = len(z.shape) > 0 and compatible(tuple(labels.shape), wanted)
    if not fit or xp.class_numbers(labels) is None:
        raise ArgumentError(
            f"pb.functions.{name} got labels {describe(labels)} for logits {describe(z)}; wanted class numbers of the "
            "shape of the logits without the last axis, or probabilities of the shape of the logits."
        )
    y = labels if numbers else xp.astype(labels, z.dtype)

    def softmax_cross_entropy_pullback(dy: Any) -> Any:
        dz, dlabels = xp.compiled(_cross_entropy_slopes, numbers=numbers)(y, z, xp.wide(dy))
        return {"logits": dz} if numbers else {"logits": dz, "labels": dlabels}

    loss = xp.compiled(_cross_entropy, numbers=numbers)(y, z)
    return xp.astype(loss, dtype_of(xp, logits)), softmax_cross_entropy_pullback


def _hits(xp: Any, labels: Any, z: Any) -> tuple[Any, Any]:
    """Which entry of a row is that of its label, and 0 for rows whose label is a class, else NaN."""
    classes = xp.extent(z, -1)
    labels = xp.expand_dims(labels, -1)
    known = (labels >= 0) & (labels < xp.like(labels, classes))
    zero = xp.zeros_like(z[..., :1])
    return xp.arange(classes) == xp.astype(labels, "int32"), xp.where(
        known, zero, zero + float("nan")
    )


def _cross_entropy(labels: Any, z: Any, *, numbers: bool) -> Any:
    xp = arrays_for(z)
    shares = Shares(xp, z, (len(z.shape) - 1,), functools.partial(_sums, xp))
    if not numbers:
        terms = xp.times_or_zero(shares.shifted, labels)
        return (shares.log_of_whole * _sums(xp, labels) - _sums(xp, terms))[..., 0]
    hit, nothing = _hits(xp, labels, z)
    chosen = _sums(xp, xp.where(hit, shares.shifted, xp.zeros_like(shares.shifted)))
    return (nothing + shares.log_of_whole - chosen)[..., 0]


def _cross_entropy_slopes(labels: Any, z: Any, dy: Any, *, numbers: bool) -> tuple[Any, Any]:
    xp = arrays_for(z)
    dy = xp.expand_dims(dy, -1)
    axes, total = (len(z.shape) - 1,), functools.partial(_sums, xp)
    if numbers:
        hit, nothing = _hits(xp, labels, z)
        return (dy + nothing) * excess(xp.astype(hit, z.dtype), z, axes=axes, total=total), None
    to_labels = xp.times_or_zero(minus_log_softmax(z, axes=axes, total=total), dy)
    return dy * excess(labels, z, axes=axes, total=total), to_labels
