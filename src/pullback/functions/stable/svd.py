"""Singular values and vectors whose gradient refuses to be wrong."""

from __future__ import annotations

from typing import Any

from pullback._project import describe
from pullback.errors import ArgumentError
from pullback.functions._arguments import dtype_of, real_arrays, require_rank, with_own_gradient
from pullback.functions.stable.matrices import REFUSED, equal_pairs, in_pairs, is_nothing


@with_own_gradient
def svd(a: Any) -> Any:
    """Singular values s and vectors U, V of matrices, a = U diag(s) Vᵀ, as `tf.linalg.svd(a)` returns them.

    Use it where singular values may be equal or 0. What depends on all of the equal ones alike has its gradient, as a
    nuclear norm, and of a value of 0 it is 0. Their vectors have none: whatever depends on them is an error when it
    runs (under XLA NaN), where TensorFlow gives 0. Two functions such as U Vᵀ and U diag(s) Vᵀ ask the same of the
    vectors at the identity and have different gradients: so for the first there is `pb.functions.polar`. A second
    derivative, as of Σ s², is refused there, too: take it of the trace of `pb.functions.funm` of aᵀa.

    >>> import pullback as pb, tensorflow as tf
    >>> a = tf.constant([[2.0, 0.0], [0.0, 2.0]])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(a)
    ...     y = tf.reduce_sum(pb.functions.svd(a)[0])
    >>> tape.gradient(y, a).numpy().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    xp, m = real_arrays("svd", a=a)
    require_rank("svd", a=m)
    if len(m.shape) < 2:
        raise ArgumentError(
            f"pb.functions.svd got {describe(m)}; wanted matrices, in the last two axes."
        )
    left, values, right = xp.svd(m)

    def svd_pullback(ds: Any, du: Any, dv: Any, *, outputs: Any) -> Any:
        s, u, v = map(xp.wide, outputs)
        return _pulled_back(xp, (s, u, v), xp.wide(ds), xp.wide(du), xp.wide(dv))

    dtype = dtype_of(xp, a)
    return (*(xp.astype(x, dtype) for x in (values, left, right)), svd_pullback)


def _pulled_back(xp: Any, found: tuple[Any, Any, Any], ds: Any, du: Any, dv: Any) -> Any:
    """With K = Uᵀ dU and L = Vᵀ dV, each less its transpose: (K + L) over differences, (K − L) over sums of values."""
    s, u, v = found
    ut, vt = xp.transpose(u), xp.transpose(v)
    k, l = xp.matmul(ut, du), xp.matmul(vt, dv)  # noqa: E741  # as in the formula above
    one, other = xp.expand_dims(s, -1), xp.expand_dims(s, -2)
    same = equal_pairs(xp, xp.stop_gradient(s))
    alone = xp.identity_like(one - other) != 0
    zero = xp.stop_gradient(one + other) <= _least(xp, s)
    unlike = xp.where(same, xp.expand_dims(ds, -1) - xp.expand_dims(ds, -2), xp.zeros_like(k))
    holds = is_nothing(xp, unlike, ds)
    tied = in_pairs(xp, same | (zero & ~alone))
    holds &= is_nothing(xp, xp.where(tied, du, 0.0), du)
    holds &= is_nothing(xp, xp.where(tied, dv, 0.0), dv)
    odd_sum, odd_difference = k + l - xp.transpose(k + l), k - l - xp.transpose(k - l)
    by_difference = _over(xp, 0.5 * odd_sum, other - one, same | alone)
    by_sum = _over(xp, 0.5 * odd_difference, other + one, zero | alone)
    inverse = _over(xp, xp.ones_like(s), s, xp.stop_gradient(2.0 * s) <= _least(xp, s)[..., 0])
    # A singular value has a kink at 0, where its vectors are any: of its slopes there the one without them is 0.
    middle = by_difference + by_sum + xp.diag(xp.where(inverse == 0, xp.zeros_like(ds), ds))
    rows, columns = du - xp.matmul(u, k), dv - xp.matmul(v, l)
    dead = xp.expand_dims(xp.astype(inverse == 0, s.dtype), -2)
    holds &= is_nothing(xp, rows * dead, du) & is_nothing(xp, columns * dead, dv)
    inverse = xp.expand_dims(inverse, -2)
    gradient = (
        xp.matmul(u, xp.matmul(middle, vt))
        + xp.matmul(rows * inverse, vt)
        + xp.matmul(u, xp.transpose(columns * inverse))
    )
    message = REFUSED.format("svd", "singular values", "are equal or 0", "vectors", "polar")
    return xp.require(holds, gradient, message)


def _over(xp: Any, above: Any, below: Any, unless: Any) -> Any:
    return xp.where(
        unless, xp.zeros_like(above), above / xp.where(unless, xp.ones_like(below), below)
    )


def _least(xp: Any, s: Any) -> Any:
    """What a sum of two singular values exceeds unless both are 0, as far as they are known."""
    largest = xp.stop_gradient(xp.max(s, -1, keepdims=True))
    return xp.expand_dims(100.0 * float(xp.limits(s).eps) * largest, -1)
