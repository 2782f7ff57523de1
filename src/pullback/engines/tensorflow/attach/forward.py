"""Forward mode: a rule is linear in its upstream, so its transpose gives the tangents; that it is linear is tested."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pullback._rule import Rule
from pullback.errors import NotLinearError

_SEEDS = ((11, 5), (7, 13))


def transposed(
    function: Callable[..., Sequence[Any]], at: Sequence[Any], tangents: Sequence[Any]
) -> list[Any]:
    """The transpose of a linear function of several tensors, applied to tangents of its results."""
    with tf.GradientTape() as tape:
        tape.watch(at)
        results = [r if r is None else tf.convert_to_tensor(r) for r in function(*at)]
    pairs = [
        (r, t) for r, t in zip(results, tangents, strict=True) if r is not None and t is not None
    ]
    zeros = [tf.zeros_like(a) for a in at]
    if not pairs:
        return zeros
    gradients = tape.gradient(
        [r for r, _ in pairs],
        list(at),
        [t for _, t in pairs],
        unconnected_gradients=tf.UnconnectedGradients.ZERO,
    )
    return [tf.convert_to_tensor(g) for g in gradients]


def refuse_nonlinear(
    tangents: Sequence[Any],
    gradients: Callable[[Sequence[Any]], Sequence[Any]],
    at: Sequence[Any],
    rule: Rule | str,
    name: str,
) -> list[Any]:
    """The tangents as they are if the rule is additive in its upstream; an error otherwise."""
    first = [_random(z, _SEEDS[0]) for z in at]
    second = [_other(f, _random(z, _SEEDS[1])) for f, z in zip(first, at, strict=True)]
    both = [a + b for a, b in zip(first, second, strict=True)]
    parts = zip(gradients(first), gradients(second), gradients(both), strict=True)
    wrong = tf.reduce_any([_differs(a, b, c) for a, b, c in parts] or [False])
    message = (
        f"rule {rule} of `{name}` is not linear in its upstream gradient, so forward mode does not follow from it. "
        "Give the tangents yourself: jvp=your_function"
    )
    if not tf.executing_eagerly():
        return _refuse_when_run(tangents, at, wrong, message)
    if bool(wrong):
        raise NotLinearError(message + ".")
    return list(tangents)


def _refuse_when_run(
    tangents: Sequence[Any], at: Sequence[Any], wrong: Any, message: str
) -> list[Any]:
    # NaN, as XLA drops assertions; a term in the upstream, so that derivatives towards it are refused too.
    with tf.control_dependencies([tf.debugging.Assert(tf.logical_not(wrong), [message])]):
        flaw = tf.where(wrong, tf.constant(float("nan"), tf.float64), tf.constant(0.0, tf.float64))
    term = flaw * tf.add_n([tf.cast(tf.reduce_sum(tf.math.real(a)), tf.float64) for a in at])
    return [
        None if t is None else tf.convert_to_tensor(t) + tf.cast(term, t.dtype) for t in tangents
    ]


def _differs(a: Any, b: Any, both: Any) -> Any:
    a, b, both = (tf.convert_to_tensor(t) for t in (a, b, both))
    tolerance = (
        0.02 if _is_coarse(a.dtype) else 100.0 * np.finfo(a.dtype.as_numpy_dtype).eps ** 0.75
    )
    error = tf.reduce_max(tf.abs(a + b - both)) if a.shape.num_elements() != 0 else tf.zeros([])
    size = tf.reduce_max(tf.abs(a)) + tf.reduce_max(tf.abs(b))
    return tf.cast(error, tf.float64) > tolerance * tf.cast(size, tf.float64)


def _is_coarse(dtype: tf.DType) -> bool:
    return dtype in (tf.float16, tf.bfloat16)


def _other(first: Any, second: Any) -> Any:
    # Coarse numbers hide a rule that is not linear among their roundings; multiples by two have none.
    return -2.0 * first if _is_coarse(first.dtype) else second


def _random(like: Any, seed: tuple[int, int]) -> Any:
    if like.dtype.is_complex:
        real = tf.float64 if like.dtype == tf.complex128 else tf.float32
        return tf.cast(tf.random.stateless_normal(tf.shape(like), seed, dtype=real), like.dtype)
    return tf.random.stateless_normal(tf.shape(like), seed, dtype=like.dtype)
