"""Element-wise pieces of models, forward and backward each one compiled unit, in programs that are not compiled.

What they hold for the backward pass is their inputs: the rest is computed again, which takes no time beside reading it.
"""

from __future__ import annotations

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

_ROOT_HALF = math.sqrt(0.5)
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)  # of the normal distribution, at 0
_TANH = math.sqrt(2.0 / math.pi), 0.044715
# From there on gelu is 0 or x to all digits of float64, and silu from a little further; cubes do not overflow.
_GELU_ENDS, _SILU_ENDS = 60.0, 1000.0


@with_own_gradient
def gelu(x: Any, approximate: bool = False) -> Any:
    """X · Φ(x), or its approximation by tanh, as `tf.nn.gelu`.

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
        return 0.5 * x * (1.0 + xp.tanh(_TANH[0] * (near + _TANH[1] * near * near * near)))
    return 0.5 * x * xp.erfc(-near * _ROOT_HALF)


def _gelu_slope(x: Any, dy: Any, *, approximate: bool) -> Any:
    xp = arrays_for(x)
    x = xp.clamp(x, -_GELU_ENDS, _GELU_ENDS)
    if not approximate:
        below, density = 0.5 * xp.erfc(-x * _ROOT_HALF), _DENSITY * xp.exp(-0.5 * x * x)
        return dy * (below + x * density)
    t = xp.tanh(_TANH[0] * (x + _TANH[1] * x * x * x))
    inner = _TANH[0] * (1.0 + 3.0 * _TANH[1] * x * x)
    return dy * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner)


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
    xp = arrays_for(x)
    return xp.maximum(gate, -_SILU_ENDS) * xp.sigmoid(gate) * x


def _swiglu_slopes(gate: Any, x: Any, dy: Any) -> tuple[Any, Any]:
    xp = arrays_for(x)
    s = xp.sigmoid(gate)
    near = xp.clamp(gate, -_SILU_ENDS, _SILU_ENDS)
    return dy * x * s * (1.0 + near * (1.0 - s)), dy * xp.maximum(gate, -_SILU_ENDS) * s


@in_models
def rms_norm(x: Any, scale: Any = None, epsilon: float = 1e-6) -> Any:
    """X / √(mean of squares + epsilon) along the last axis, times `scale`.

    Use it in place of the formula, as with `gelu`: nothing but `x` is held, and it is read once in each direction.

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
    return _norm(x, scale, offset, name=name, epsilon=float(epsilon), centred=centred)


@with_own_gradient
def _norm(x: Any, scale: Any, offset: Any, *, name: str, epsilon: float, centred: bool) -> Any:
    xp, a = real_arrays(name, x=x)
    by, plus = (None if p is None else xp.astype(p, a.dtype) for p in (scale, offset))
    options = {"epsilon": epsilon, "centred": centred}

    def norm_pullback(dy: Any) -> Any:
        dx, dscale, doffset = xp.compiled(_norm_slopes, **options)(a, by, plus, xp.wide(dy))
        return {"x": dx, "scale": dscale, "offset": doffset}

    found = xp.compiled(_norm_values, **options)(a, by, plus)
    return xp.astype(found, dtype_of(xp, x)), norm_pullback


def _unit(xp: Any, x: Any, epsilon: float, centred: bool) -> tuple[Any, Any]:
    """Entries of size one, less their mean, and what they were multiplied with.

    Where squares would leave the range of the format, entries are divided by a power of two before.
    """
    limits, plain = xp.limits(x), _moments(xp, x, epsilon, centred)[1]
    fine = xp.isfinite(plain) & (plain > float(limits.tiny / limits.eps))
    largest = xp.maximum(xp.max(xp.magnitude(x), -1, keepdims=True), math.sqrt(epsilon))
    usable = ~fine & xp.isfinite(largest) & (largest > 0)
    scale = xp.power_of_two_below(xp.where(usable, largest, xp.ones_like(largest)))
    # It changes nothing but what is rounded, and so is constant.
    scale = xp.stop_gradient(scale)
    mean, squares = _moments(xp, x / scale, epsilon / scale / scale, centred)
    by = xp.rsqrt(squares)
    return (x / scale - mean) * by, by / scale


def _moments(xp: Any, x: Any, epsilon: Any, centred: bool) -> tuple[Any, Any]:
    """The mean, which is 0 for entries that stay where they are, and the mean of squares from there on."""
    mean = xp.mean(x, -1, keepdims=True)
    mean = mean if centred else xp.zeros_like(mean)
    return mean, xp.mean(xp.square(x - mean), -1, keepdims=True) + epsilon


def _norm_values(x: Any, scale: Any, offset: Any, *, epsilon: float, centred: bool) -> Any:
    x, _ = _unit(arrays_for(x), x, epsilon, centred)
    x = x if scale is None else x * scale
    return x if offset is None else x + offset


def _norm_slopes(
    x: Any, scale: Any, offset: Any, dy: Any, *, epsilon: float, centred: bool
) -> tuple[Any, Any, Any]:
    xp = arrays_for(x)
    unit, by = _unit(xp, x, epsilon, centred)
    leading = tuple(range(len(x.shape) - 1))
    dscale = None if scale is None else xp.sum(dy * unit, leading)
    doffset = None if offset is None else xp.sum(dy, leading)
    dunit = dy if scale is None else dy * scale
    along = dunit - unit * xp.mean(dunit * unit, -1, keepdims=True)
    along = along - xp.mean(dunit, -1, keepdims=True) if centred else along
    return along * by, dscale, doffset


@with_own_gradient
def softmax_cross_entropy(labels: Any, logits: Any) -> Any:
    """The cross-entropy of softmax(logits) and labels along the last axis: class numbers, or a probability per class.

    Use it for logits that you have, with many classes, as with `gelu`; `linear_cross_entropy` where they come from a
    linear layer, `categorical_cross_entropy` where the last digits matter. Class numbers that are no classes give NaN.

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


def _spread(xp: Any, labels: Any, z: Any, numbers: bool) -> Any:
    """A share per class; of what is no class, NaN."""
    if not numbers:
        return labels
    classes = xp.extent(z, -1)
    known = (labels >= 0) & (labels < xp.like(labels, classes))
    hit = xp.arange(classes) == xp.expand_dims(xp.astype(labels, "int32"), -1)
    hot = xp.astype(hit, z.dtype)
    return xp.where(xp.expand_dims(known, -1), hot, hot + float("nan"))


def _log_softmax(xp: Any, z: Any) -> Any:
    shifted = z - xp.stop_gradient(xp.max(z, -1, keepdims=True))
    return shifted - xp.log(xp.sum(xp.exp(shifted), -1, keepdims=True))


def _cross_entropy(labels: Any, z: Any, *, numbers: bool) -> Any:
    xp = arrays_for(z)
    return -xp.sum(_spread(xp, labels, z, numbers) * _log_softmax(xp, z), -1)


def _cross_entropy_slopes(labels: Any, z: Any, dy: Any, *, numbers: bool) -> tuple[Any, Any]:
    xp = arrays_for(z)
    shares, logs, dy = _spread(xp, labels, z, numbers), _log_softmax(xp, z), xp.expand_dims(dy, -1)
    whole = xp.sum(shares, -1, keepdims=True)
    return dy * (xp.exp(logs) * whole - shares), None if numbers else -dy * logs
