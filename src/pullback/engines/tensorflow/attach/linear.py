"""Forward mode: a rule is linear in its upstream, so its transpose gives the tangents; that it is linear is tested."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

_SEEDS = ((11, 5), (7, 13))
_COARSE = (tf.float16, tf.bfloat16)


def transposed(
    function: Callable[..., Sequence[Any]], at: Sequence[Any], tangents: Sequence[Any]
) -> list[Any]:
    """The transpose of a linear function of several tensors, applied to tangents of its results."""
    if not tf.executing_eagerly():
        # No tape: TensorFlow stops recording while it builds forward mode, and what this graph has captured before
        # is not recorded as coming from a tensor further out.
        at = [tf.identity(a) for a in at]
    with tf.GradientTape() as tape:
        tape.watch(at)
        results = [None if r is None else tf.convert_to_tensor(r) for r in function(*at)]
    pairs = [(r, t) for r, t in zip(results, tangents, strict=True) if not (r is None or t is None)]
    if not pairs:
        return [tf.zeros_like(a) for a in at]
    differentiate = tape.gradient if tf.executing_eagerly() else tf.gradients
    gradients = differentiate(
        [r for r, _ in pairs],
        list(at),
        [t for _, t in pairs],
        unconnected_gradients=tf.UnconnectedGradients.ZERO,
    )
    return [tf.convert_to_tensor(g) for g in gradients]


def linearity_probes(at: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """Two random upstreams like these, and their sum."""
    first = [_random(a, _SEEDS[0]) for a in at]
    # Coarse numbers hide a rule that is not linear among their roundings; multiples by two have none.
    second = [-2.0 * f if f.dtype in _COARSE else _random(f, _SEEDS[1]) for f in first]
    return first, second, [a + b for a, b in zip(first, second, strict=True)]


def require_additive(
    parts: Sequence[Sequence[Any]], results: Sequence[Any], at: Sequence[Any], error: Exception
) -> list[Any]:
    """The results, if the third part is the sum of the first two; else the error, in a graph when it runs."""
    wrong = tf.reduce_any([_differs(*abc) for abc in zip(*parts, strict=True)] or [False])
    if not tf.executing_eagerly():
        return _refuse_when_run(results, at, wrong, str(error))
    if bool(wrong):
        raise error
    return list(results)


def _refuse_when_run(
    results: Sequence[Any], at: Sequence[Any], wrong: Any, message: str
) -> list[Any]:
    # NaN, as XLA drops assertions; a term in the upstream, so that derivatives towards it are refused too.
    with tf.control_dependencies([tf.debugging.Assert(tf.logical_not(wrong), [message])]):
        flaw = tf.where(wrong, tf.constant(float("nan"), tf.float64), tf.constant(0.0, tf.float64))
    term = flaw * tf.add_n([tf.cast(tf.reduce_sum(tf.math.real(a)), tf.float64) for a in at])
    return [
        None if t is None else tf.convert_to_tensor(t) + tf.cast(term, t.dtype) for t in results
    ]


def _differs(a: Any, b: Any, both: Any) -> Any:
    a, b, both = (tf.convert_to_tensor(t) for t in (a, b, both))
    epsilon = np.finfo(a.dtype.as_numpy_dtype).eps if a.dtype not in _COARSE else 0.0
    tolerance = 100.0 * epsilon**0.75 if epsilon else 0.02
    error = tf.reduce_max(tf.abs(a + b - both)) if a.shape.num_elements() != 0 else tf.zeros([])
    size = tf.reduce_max(tf.abs(a)) + tf.reduce_max(tf.abs(b))
    return tf.cast(error, tf.float64) > tolerance * tf.cast(size, tf.float64)


def _random(like: Any, seed: tuple[int, int]) -> Any:
    if like.dtype.is_complex:
        real = tf.float64 if like.dtype == tf.complex128 else tf.float32
        return tf.cast(tf.random.stateless_normal(tf.shape(like), seed, dtype=real), like.dtype)
    return tf.random.stateless_normal(tf.shape(like), seed, dtype=like.dtype)
