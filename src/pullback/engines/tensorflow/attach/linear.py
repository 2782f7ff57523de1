"""Whether a rule is linear in its upstream, and its transpose the one that TensorFlow makes of it: tried, not proven.

The rule runs on a small and a large multiple of one random upstream, by powers of two, which have the same roundings:
clipping, thresholds and constants show, however small the gradient is. It runs on a second one of the opposite sign,
and on a large difference of both, for which a linear rule gives the difference. And its transpose is applied to what
came of the first one: ⟨Ru, t⟩ = ⟨u, Rᵀt⟩, unless something of the rule is hidden from differentiation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach.transposing import pulled, runs_user_code

_SEED = 11
_SCALES, _SCALES_OF_HALF = (2.0**-12, 2.0**20), (2.0**-10, 2.0**6)  # float16 ends at 2¹⁶
# Parts of the size of a gradient that are put down to rounding. Powers of two have none; the others leave room for
# rules that compute in a narrower dtype than that of their results.
_SCALED, _ADDED, _TRANSPOSED, _TRANSPOSED_COARSE = 1e-3, 0.02, 0.01, 0.05
_ROUNDINGS = 16.0  # where a rule takes differences of numbers as large as its upstream, so many of these may be wrong

Rule = Callable[[Sequence[Any]], Sequence[Any]]


class _Trial(NamedTuple):
    """One gradient at the upstreams that were tried, each divided by the scale of its upstream."""

    small: Any
    large: Any
    second: Any
    difference: Any
    eps: float  # the relative error of one rounding
    tiny: float  # what may get lost because numbers end there


@runs_user_code
def require_linear(
    results: Sequence[Any], rule: Rule, at: Sequence[Any], errors: tuple[Exception, Exception]
) -> list[Any]:
    """The results, if the rule is linear on upstreams like `at` and transposed as it should be; else the error."""
    if not at:
        return list(results)
    pairs = [_probes(a) for a in at]
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    gradients, transpose = pulled(rule, second)
    half = any(a.dtype == tf.float16 for a in at)
    small, large = _SCALES_OF_HALF if half else _SCALES
    # Of either sign: a maximum is linear in positive numbers.
    ends = _run(rule, first, small), _run(rule, first, -large)
    runs = zip(gradients, *ends, _run(rule, [a - b for a, b in pairs], large), strict=True)
    eps = max(_limits(a)[0] for a in at)
    trials = [
        _Trial(one, ten, _wide(g), apart, max(eps, _limits(g)[0]), _limits(g)[1] / small)
        for g, one, ten, apart in runs
    ]
    curved = tf.reduce_any([_is_curved(t) for t in trials] or [False])
    hidden = _is_hidden(trials, gradients, transpose, first) & ~curved
    return _refuse(results, at, zip((curved, hidden), errors, strict=True))


def _is_curved(trial: _Trial) -> Any:
    """Whether a gradient is not homogeneous, or not additive."""
    small, large, second, difference, eps, tiny = trial
    one, ten, two, both = map(_largest, trial[:4])
    scaled = _largest(small - large) > _SCALED * (one + ten) + 8.0 * tiny
    added = _ADDED * (one + two + both) + _ROUNDINGS * eps + 8.0 * tiny
    return scaled | (_largest(small - second - difference) > added)


def _is_hidden(
    trials: Sequence[_Trial],
    gradients: Sequence[Any],
    transpose: Callable[[Sequence[Any]], list[Any]],
    first: Sequence[Any],
) -> Any:
    """Whether ⟨Ru, t⟩ and ⟨u, Rᵀt⟩ differ, for t = Ru with the same weight for each gradient."""
    eps = max((trial.eps for trial in trials), default=0.0)
    tolerance = _TRANSPOSED_COARSE if eps > 1e-4 else _TRANSPOSED
    counts = [tf.cast(tf.size(g), tf.float64) for g in gradients]
    size = tf.sqrt(tf.add_n([tf.cast(tf.size(u), tf.float64) for u in first]) * sum(counts))
    tangents: list[Any] = []
    wanted: Any = tf.zeros([], tf.float64)
    for trial, gradient in zip(trials, gradients, strict=True):
        # What is not above the roundings of the upstream has no weight.
        weight = tf.minimum(_largest(trial.small) * (tolerance / (_ROUNDINGS * trial.eps)), 1.0)
        factor = tf.math.divide_no_nan(weight * size, _dot(trial.small, trial.small))
        tangents.append(tf.cast(trial.small * tf.cast(factor, trial.small.dtype), gradient.dtype))
        wanted += factor * _dot(trial.small, trial.small)
    back = [_wide(t) for t in transpose(tangents)]
    pairs = [(_wide(u), t) for u, t in zip(first, back, strict=True)]
    found = tf.add_n([_dot(u, t) for u, t in pairs])
    uncancelled = tf.add_n([tf.reduce_sum(tf.abs(u * t)) for u, t in pairs])
    allowed = tolerance * len(trials) * size + _ROUNDINGS / 4.0 * eps * uncancelled
    return (tf.abs(found - wanted) > allowed) | ((uncancelled == 0.0) & (wanted > 0.0))


def _refuse(
    results: Sequence[Any], at: Sequence[Any], faults: Iterable[tuple[Any, Exception]]
) -> list[Any]:
    """The results, unless there is a fault: then its error, in a graph when it runs."""
    if tf.executing_eagerly():
        for wrong, error in faults:
            if bool(wrong):
                raise error
        return list(results)
    found = list(faults)
    asserted = [tf.debugging.Assert(tf.logical_not(wrong), [str(error)]) for wrong, error in found]
    wrong = tf.reduce_any([wrong for wrong, _ in found])
    # NaN, as XLA drops assertions; a term in the upstream, so that derivatives towards it are refused too.
    with tf.control_dependencies(asserted):
        flaw = tf.where(wrong, tf.constant(float("nan"), tf.float64), tf.constant(0.0, tf.float64))
    term = flaw * tf.add_n([tf.cast(tf.reduce_sum(tf.math.real(a)), tf.float64) for a in at])
    return [
        None if t is None else tf.convert_to_tensor(t) + tf.cast(term, t.dtype) for t in results
    ]


def _probes(like: Any) -> tuple[Any, Any]:
    """Two random upstreams, of opposite sign in every entry; entries are of size one to two."""
    if like.dtype.is_complex:
        parts = [_probes_of(like, like.dtype.real_dtype, _SEED + i) for i in range(2)]
        return tf.complex(parts[0][0], parts[1][0]), tf.complex(parts[0][1], parts[1][1])
    return _probes_of(like, like.dtype, _SEED)


def _probes_of(like: Any, dtype: Any, seed: int) -> tuple[Any, Any]:
    draw = tf.random.stateless_uniform(tf.shape(like), (seed, 5), -1.0, 1.0, dtype)
    first = draw + tf.sign(draw)
    other = tf.random.stateless_uniform(tf.shape(like), (seed, 13), 1.0, 2.0, dtype)
    return first, -tf.sign(draw) * other


def _run(rule: Rule, upstream: Sequence[Any], scale: float) -> list[Any]:
    """The gradients for so many times the upstream, divided by as much."""
    found = [_wide(g) for g in rule([u * tf.cast(scale, u.dtype) for u in upstream])]
    return [g * tf.cast(1.0 / scale, g.dtype) for g in found]


def _wide(tensor: Any) -> Any:
    """A tensor in the widest dtype, out of sight of tapes and accumulators."""
    eager = tf.executing_eagerly()
    plain = private.detached(tensor) if eager else tf.stop_gradient(tensor)
    return tf.cast(plain, tf.complex128 if tensor.dtype.is_complex else tf.float64)


def _limits(tensor: Any) -> tuple[float, float]:
    """The relative size of a rounding, and the size at which numbers end."""
    if tensor.dtype == tf.bfloat16:
        return 2.0**-7, 2.0**-126
    limits = np.finfo(tensor.dtype.as_numpy_dtype)
    half = tensor.dtype == tf.float16
    return float(limits.eps), float(limits.smallest_subnormal if half else limits.tiny)


def _dot(a: Any, b: Any) -> Any:
    return tf.reduce_sum(tf.math.real(tf.math.conj(a) * b))


def _largest(tensor: Any) -> Any:
    """The largest magnitude; of nothing, zero."""
    return tf.maximum(tf.reduce_max(tf.abs(tensor)), 0.0)
