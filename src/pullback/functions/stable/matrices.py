"""Functions of matrices, right where eigenvalues are equal, and decompositions that say so where they cannot be.

The gradient of eigenvectors divides by differences of eigenvalues. Where these are equal, a function of the matrix,
such as its square root, has a gradient all the same, but the vectors of a decomposition do not tell it: so such
functions have rules of their own here, and the rules of decompositions refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback._project import describe
from pullback.errors import ArgumentError
from pullback.functions._arguments import (
    arrays_for,
    dtype_of,
    in_models,
    real_arrays,
    require_rank,
    with_own_gradient,
)

_ROUNDINGS = (
    8.0  # eigenvalues are equal if they differ by so many roundings of the largest, per row
)


def _square(function: str, a: Any) -> None:
    require_rank(function, a=a)
    if len(a.shape) < 2 or (None not in a.shape[-2:] and a.shape[-1] != a.shape[-2]):
        raise ArgumentError(
            f"pb.functions.{function} got {describe(a)}; wanted square matrices, in the last two axes."
        )


def _symmetric(xp: Any, a: Any) -> Any:
    return 0.5 * (a + xp.transpose(a))


@with_own_gradient
def sqrtm(a: Any) -> Any:
    """The square root of symmetric positive matrices, also with equal eigenvalues.

    Use it for covariance matrices and metrics, in place of a formula with `tf.linalg.eigh`, whose gradient is 0 in
    places where eigenvalues are equal. Only the symmetric part of the argument counts. Right up to third order. Where
    eigenvalues are 0 the slope between them is infinite and taken as 0, as by `sqrt`; so at 0 the gradient is 0. Of a
    matrix with a negative eigenvalue, value and gradient are NaN.

    >>> import pullback as pb, tensorflow as tf
    >>> a = tf.linalg.diag([4.0, 4.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(a)
    ...     y = tf.reduce_sum(pb.functions.sqrtm(a))
    >>> tape.gradient(y, a).numpy().tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """
    xp, m = real_arrays("sqrtm", a=a)
    _square("sqrtm", m)
    values, vectors = xp.eigh(_symmetric(xp, m))
    # of a negative eigenvalue that is no rounding of 0 there is no root: sqrt says NaN
    least = _ROUNDINGS * float(xp.limits(m).eps) * xp.size(m, (len(m.shape) - 1,))
    fine = values >= -least * xp.max(xp.magnitude(values), -1, keepdims=True)
    roots = xp.sqrt(xp.where(fine, xp.maximum(values, 0.0), values))
    root = _conjugated(xp, vectors, xp.diag(roots))

    def sqrtm_pullback(dy: Any, *, outputs: Any) -> Any:
        return _lyapunov(xp, xp.wide(outputs), _symmetric(xp, xp.wide(dy)))

    return xp.astype(root, dtype_of(xp, a)), sqrtm_pullback


def _conjugated(xp: Any, vectors: Any, inner: Any) -> Any:
    return xp.matmul(vectors, xp.matmul(inner, xp.transpose(vectors)))


_ORDERS = 2  # of derivatives of the solution of Lyapunov's equation: those of the functions go one further


def _lyapunov(xp: Any, s: Any, c: Any) -> Any:
    """X with S X + X S = C, for symmetric S, by the eigenvectors of S, which are constant.

    Each correction with that constant inverse makes one more order of derivatives right, equal eigenvalues or not.
    """
    values, vectors = map(xp.stop_gradient, xp.eigh(_symmetric(xp, xp.stop_gradient(s))))
    sums = xp.expand_dims(values, -1) + xp.expand_dims(values, -2)
    zero = sums == 0
    safe = xp.where(zero, xp.ones_like(sums), sums)

    def inverse(right: Any) -> Any:
        inside = xp.matmul(xp.transpose(vectors), xp.matmul(right, vectors)) / safe
        return _conjugated(xp, vectors, xp.where(zero, xp.zeros_like(inside), inside))

    x = inverse(c)
    for _ in range(_ORDERS):
        x = x - inverse(xp.matmul(s, x) + xp.matmul(x, s) - c)
    return x


_NOT_UNIQUE = (
    "pb.functions.polar was differentiated at a matrix with two singular values of 0, where its orthogonal factor is "
    "not unique and has no gradient. Add a little to the diagonal, or leave such matrices out."
)


@with_own_gradient
def _unitary(a: Any) -> Any:
    xp, m = real_arrays("polar", a=a)
    left, _, right = xp.svd(m)

    def unitary_pullback(dy: Any, *, outputs: Any) -> Any:
        u, dy = xp.wide(outputs), xp.wide(dy)
        stretch = _symmetric(xp, xp.matmul(xp.transpose(u), m))
        inner = xp.matmul(xp.transpose(u), dy)
        turning = inner - xp.transpose(inner)
        found = xp.matmul(u, _lyapunov(xp, stretch, turning))
        least = _ROUNDINGS * float(xp.limits(m).eps) * xp.size(m, (len(m.shape) - 1,))
        values = xp.stop_gradient(xp.svd(m)[1])
        # Where two singular values are 0, the orthogonal matrix is any on a plane.
        unique = xp.all(values[..., -2:-1] > least * values[..., :1])
        return xp.require(unique | is_nothing(xp, turning, inner), found, _NOT_UNIQUE)

    return xp.astype(xp.matmul(left, xp.transpose(right)), dtype_of(xp, a)), unitary_pullback


@in_models
def polar(a: Any) -> Any:
    """The orthogonal matrix U and the symmetric positive P of a = U P, for square matrices.

    Use it in place of U Vᵀ by `tf.linalg.svd`, whose gradient is 0 where singular values are equal, as at the identity.

    >>> import pullback as pb, tensorflow as tf
    >>> a = tf.eye(2)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(a)
    ...     u, p = pb.functions.polar(a)
    ...     y = 3.0 * u[0, 1]
    >>> tape.gradient(y, a).numpy().tolist()
    [[0.0, 1.5], [-1.5, 0.0]]
    """
    xp, m = real_arrays("polar", a=a)
    _square("polar", m)
    unitary = _unitary(a)
    return unitary, _symmetric(xp, xp.matmul(xp.transpose(unitary), xp.asarray(a)))


@in_models
def funm(a: Any, f: Callable[[Any], Any]) -> Any:
    """A function of symmetric matrices: V f(w) Vᵀ, also with equal eigenvalues. `f` takes single numbers.

    Use it for logarithms, powers and filters of symmetric matrices, in place of that formula with `tf.linalg.eigh`.
    Second order is right there, too; forward mode and third order need distinct eigenvalues, and say so. So for sums
    over eigenvalues, as Σ w³, take the trace of this where `eigh` refuses its second derivative.

    >>> import pullback as pb, tensorflow as tf
    >>> a = tf.linalg.diag([1.0, 1.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(a)
    ...     y = tf.reduce_sum(pb.functions.funm(a, tf.math.log))
    >>> tape.gradient(y, a).numpy().tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    if not callable(f):
        raise ArgumentError(
            f"pb.functions.funm got f={f!r}; wanted a function of numbers, such as tf.math.log."
        )
    return _funm(a, f=f)


@with_own_gradient
def _funm(a: Any, *, f: Callable[[Any], Any]) -> Any:
    xp, m = real_arrays("funm", a=a)
    _square("funm", m)
    values, vectors = xp.eigh(_symmetric(xp, m))
    found = f(values)
    if not xp.fits(found, values):
        raise ArgumentError(
            f"pb.functions.funm got a function f that returns {describe(found)} for {describe(values)}; wanted one "
            "number of the same dtype for each, as tf.math.log gives."
        )

    def funm_pullback(dy: Any) -> Any:
        constants = map(xp.stop_gradient, (values, vectors))
        return _derivative(_symmetric(xp, xp.wide(dy)), m, *constants, f=f)

    return xp.astype(_conjugated(xp, vectors, xp.diag(found)), dtype_of(xp, a)), funm_pullback


@with_own_gradient
def _derivative(e: Any, m: Any, values: Any, vectors: Any, *, f: Callable[[Any], Any]) -> Any:
    """The derivative of a function of symmetric matrices m along e, by their eigenvalues and vectors."""
    xp = arrays_for(m)

    def along(e: Any, values: Any, vectors: Any) -> Any:
        one, other = xp.expand_dims(values, -1), xp.expand_dims(values, -2)
        return _rotated(xp, vectors, e) * _quotients(xp, f, one, other)

    def derivative_pullback(g: Any) -> Any:
        # As these vectors have no derivative of their own where values are equal, third order refuses there.
        values, vectors = eigh(m)
        twice = xp.einsum(
            "...ijk,...ij,...jk->...ik",
            _second_quotients(xp, f, values),
            _rotated(xp, vectors, e),
            _rotated(xp, vectors, _symmetric(xp, g)),
        )
        to_e = _conjugated(xp, vectors, along(g, values, vectors))
        return {"e": to_e, "m": _conjugated(xp, vectors, twice + xp.transpose(twice))}

    return _conjugated(xp, vectors, along(e, values, vectors)), derivative_pullback


def _rotated(xp: Any, vectors: Any, e: Any) -> Any:
    return xp.matmul(xp.transpose(vectors), xp.matmul(e, vectors))


def _quotients(xp: Any, f: Callable[[Any], Any], one: Any, other: Any) -> Any:
    """(f(w) − f(v)) / (w − v), and the slope half-way where that would be a difference of nearly equal numbers."""
    gap, middle = one - other, 0.5 * (one + other)
    # The slope is off by the square of the gap, the quotient by a rounding over the gap: equal at the cube root.
    near = _are_near(xp, one, other, 1 / 3)
    safe = xp.where(near, xp.ones_like(gap), gap)
    return xp.where(near, xp.slope_at(f, middle), (f(one) - f(other)) / safe)


def _second_quotients(xp: Any, f: Callable[[Any], Any], values: Any) -> Any:
    """The quotients of differences of these quotients, for three values each; half the second slope for near ones."""
    last = xp.expand_dims(xp.expand_dims(values, -2), -2)
    one, two = (xp.expand_dims(xp.expand_dims(values, a), b) for a, b in ((-1, -1), (-1, -3)))
    least, most = xp.minimum(one, two), xp.maximum(one, two)
    low, high = xp.minimum(least, last), xp.maximum(most, last)
    middle = xp.maximum(least, xp.minimum(most, last))
    near = _are_near(xp, high, low, 1 / 4)
    safe = xp.where(near, xp.ones_like(high), high - low)
    slopes = _quotients(xp, f, high, middle) - _quotients(xp, f, middle, low)
    second = xp.slope_at(lambda x: xp.slope_at(f, x), (low + middle + high) / 3.0)
    return xp.where(near, 0.5 * second, slopes / safe)


def _are_near(xp: Any, one: Any, other: Any, power: float) -> Any:
    size = xp.maximum(xp.magnitude(one), xp.magnitude(other))
    return xp.magnitude(one - other) <= float(xp.limits(one).eps) ** power * size


def equal_pairs(xp: Any, values: Any) -> Any:
    """Which pairs of eigenvalues are equal as far as they are known; each with itself is not counted."""
    one, other = xp.expand_dims(values, -1), xp.expand_dims(values, -2)
    largest = xp.max(xp.magnitude(values), -1, keepdims=True)
    least = _ROUNDINGS * float(xp.limits(values).eps) * xp.size(values, (len(values.shape) - 1,))
    same = xp.magnitude(one - other) <= least * xp.expand_dims(largest, -1)
    return same & (xp.identity_like(one - other) == 0)


def in_pairs(xp: Any, pairs: Any) -> Any:
    """Which columns of vectors belong to a value of some pair: such vectors are any of a whole plane."""
    return xp.any(pairs, -2, keepdims=True)


REFUSED = (
    "pb.functions.{} was differentiated where {} {}, and what was made of its {} has no gradient there, or one "
    "that they do not tell. For a function of the matrix use pb.functions.{}; else break the tie. For second "
    "derivatives of what depends on the values alone, take the trace of pb.functions.funm."
)


@with_own_gradient
def eigh(a: Any) -> Any:
    """Eigenvalues and eigenvectors of symmetric matrices, as `tf.linalg.eigh`, whose gradient refuses to be wrong.

    Use it where eigenvalues may be equal: what depends on all of the equal ones alike has its gradient, as a sum or a
    determinant. Their eigenvectors have none: whatever depends on them is an error when it runs (under XLA NaN), where
    TensorFlow gives infinity or 0. It does not tell what is made of them, and refuses also what has a gradient, as the
    projection on all of them, and any second derivative, as of Σ w²: for that there is the trace of `funm`.

    >>> import pullback as pb, tensorflow as tf
    >>> a = tf.eye(2)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(a)
    ...     w, v = pb.functions.eigh(a)
    ...     y = tf.reduce_sum(tf.math.log(w))
    >>> tape.gradient(y, a).numpy().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    xp, m = real_arrays("eigh", a=a)
    _square("eigh", m)
    values, vectors = xp.eigh(_symmetric(xp, m))

    def eigh_pullback(dw: Any, dv: Any, *, outputs: Any) -> Any:
        w, v = map(xp.wide, outputs)
        dw, inner = xp.wide(dw), xp.matmul(xp.transpose(v), xp.wide(dv))
        same = equal_pairs(xp, xp.stop_gradient(w))
        gap = xp.expand_dims(w, -2) - xp.expand_dims(w, -1)
        unlike = xp.expand_dims(dw, -1) - xp.expand_dims(dw, -2)
        holds = is_nothing(xp, xp.where(in_pairs(xp, same), xp.wide(dv), 0.0), xp.wide(dv))
        holds &= is_nothing(xp, xp.where(same, unlike, xp.zeros_like(unlike)), dw)
        apart = ~same & (xp.identity_like(gap) == 0)
        quotient = 0.5 * (inner - xp.transpose(inner)) / xp.where(apart, gap, xp.ones_like(gap))
        middle = xp.where(apart, quotient, xp.zeros_like(gap)) + xp.diag(dw)
        message = REFUSED.format(
            "eigh", "eigenvalues", "are equal", "eigenvectors", "funm or sqrtm"
        )
        return xp.require(holds, _conjugated(xp, v, middle), message)

    dtype = dtype_of(xp, a)
    return xp.astype(values, dtype), xp.astype(vectors, dtype), eigh_pullback


def is_nothing(xp: Any, found: Any, *beside: Any) -> Any:
    """Whether entries are zeros, but for the roundings of arrays beside."""
    least = 100.0 * float(xp.limits(found).eps)
    largest = sum(xp.max(xp.magnitude(array)) for array in beside)
    return xp.max(xp.magnitude(found)) <= least * largest


@with_own_gradient
def logdet(a: Any) -> Any:
    """The logarithm of the determinant of symmetric positive matrices, by Cholesky, as `tf.linalg.logdet`.

    Use it for Gaussian likelihoods: its gradient is the inverse, by two triangular solves, and does not differentiate
    the decomposition.

    >>> import pullback as pb, tensorflow as tf
    >>> a = tf.linalg.diag([2.0, 4.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(a)
    ...     y = pb.functions.logdet(a)
    >>> tape.gradient(y, a).numpy().round(3).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    xp, m = real_arrays("logdet", a=a)
    _square("logdet", m)
    lower = xp.cholesky(m)

    def logdet_pullback(dy: Any) -> Any:
        return xp.cholesky_solve(lower, _times_identity(xp, xp.wide(dy), m))

    total = 2.0 * xp.sum(xp.log(xp.diagonal(lower)), -1)
    return xp.astype(total, dtype_of(xp, a)), logdet_pullback


def _times_identity(xp: Any, scalars: Any, m: Any) -> Any:
    return xp.expand_dims(xp.expand_dims(scalars, -1), -1) * xp.identity_like(m)
