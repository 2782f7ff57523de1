"""Linear equations A w = b of which only the product with A is known, for arrays of rows that belong together.

Each solver returns w, the size of the residual b − A w beside that of b, and the number of products. A tolerance of
`None` means a fixed number of steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Apply = Callable[[Any], Any]


class Solved(NamedTuple):
    """A solution, how well it solves, and the steps that it took."""

    solution: Any
    residual: Any
    steps: Any
    curvature: Any = None  # at a minimum, the lowest beside the largest


def size_of(xp: Any, a: Any) -> Any:
    """The root of the sum of squares."""
    return xp.sqrt(xp.sum(xp.square(a)))


def relative(xp: Any, size: Any, whole: Any) -> Any:
    """One size beside another one; of nothing beside nothing, 0, and NaN of what is no number."""
    return xp.where(xp.equal(size, 0.0), xp.zeros_like(size), size / whole)


def _until(xp: Any, whole: Any, tolerance: float | None, most: int) -> Callable[..., Any]:
    """Whether to go on, given the round and the size of the residual: not if that is no number."""

    def goes_on(k: Any, size: Any, *_: Any) -> Any:
        if tolerance is None:
            return k < most
        return xp.logical_and(k < most, size > tolerance * whole)

    return goes_on


def neumann(xp: Any, apply: Apply, b: Any, tolerance: float | None, most: int) -> Solved:
    """Take w ← w + (b − A w): the series of Neumann in 1 − A, whose eigenvalues have to be smaller than 1."""
    whole = size_of(xp, b)

    def step(k: Any, size: Any, w: Any) -> tuple[Any, ...]:
        del size
        r = b - apply(w)
        return k + 1, size_of(xp, r), w + r

    # The residual is that of the last but one: of the last it would take one more vector, or one more product.
    k, size, w = xp.loop(_until(xp, whole, tolerance, most), step, (0, whole, b))
    return Solved(w, relative(xp, size, whole), k)


def cg(xp: Any, apply: Apply, b: Any, tolerance: float | None, most: int) -> Solved:
    """Conjugate gradients, for symmetric matrices with positive eigenvalues."""
    whole = size_of(xp, b)

    def step(k: Any, size: Any, w: Any, r: Any, p: Any) -> tuple[Any, ...]:
        ap = apply(p)
        alpha = xp.divide_or_zero(xp.square(size), xp.sum(p * ap))
        w, r = w + alpha * p, r - alpha * ap
        now = size_of(xp, r)
        p = r + xp.square(xp.divide_or_zero(now, size)) * p
        return k + 1, now, w, r, p

    state = (0, whole, xp.zeros_like(b), b, b)
    k, _, w, *_ = xp.loop(_until(xp, whole, tolerance, most), step, state)
    return _checked(xp, apply, b, w, k)


def bicgstab(xp: Any, apply: Apply, b: Any, tolerance: float | None, most: int) -> Solved:
    """Stabilised biconjugate gradients: any matrix, a few vectors of memory."""
    whole = size_of(xp, b)

    def step(
        k: Any, size: Any, w: Any, r: Any, p: Any, v: Any, rho: Any, last: Any
    ) -> tuple[Any, ...]:
        del size
        now = xp.sum(b * r)
        p = r + xp.divide_or_zero(now, rho) * last * (p - v)
        ap = apply(p)
        alpha = xp.divide_or_zero(now, xp.sum(b * ap))
        s = r - alpha * ap
        t = apply(s)
        omega = xp.divide_or_zero(xp.sum(t * s), xp.sum(t * t))
        w = w + alpha * p + omega * s
        r = s - omega * t
        return k + 2, size_of(xp, r), w, r, p, omega * ap, now, xp.divide_or_zero(alpha, omega)

    zeros, one = xp.zeros_like(b), xp.ones_like(whole)
    state = (0, whole, zeros, b, zeros, zeros, one, one)
    k, _, w, *_ = xp.loop(_until(xp, whole, tolerance, most), step, state)
    return _checked(xp, apply, b, w, k)


_PRODUCTS = 64


def lowest_curvature(xp: Any, apply: Apply, like: Any) -> Any:
    """The lowest eigenvalue of symmetric matrices beside the largest magnitude of one, by the method of Lanczos.

    Few products find the ends of a spectrum, however many unknowns there are.
    """
    count = min(like.shape[-1] or _PRODUCTS, _PRODUCTS)

    def unit(v: Any) -> tuple[Any, Any]:
        length = xp.sqrt(xp.sum(xp.square(v), -1, keepdims=True))
        return length, xp.divide_or_zero(v, length)

    def step(k: Any, v: Any, last: Any, beta: Any, alphas: Any, betas: Any) -> tuple[Any, ...]:
        image = apply(v)
        alpha = xp.sum(v * image, -1, keepdims=True)
        after, w = unit(image - alpha * v - beta * last)
        return k + 1, w, v, after, xp.with_row(alphas, k, alpha), xp.with_row(betas, k, after)

    _, start = unit(_irregular(xp, like))
    none = xp.zeros_like(xp.sum(start, -1, keepdims=True))
    many = xp.rows_like(none, count)
    state = (0, start, xp.zeros_like(start), none, many, many)
    *_, alphas, betas = xp.loop(lambda k, *_: k < count, step, state)
    diagonal, beside = (xp.diag(xp.columns(a)[:, 0]) for a in (alphas, betas))
    upper = xp.matmul(beside, xp.zeros_like(beside) + xp.asarray(np.eye(count, k=1), like.dtype))
    matrix = diagonal + upper + xp.transpose(upper)
    # Of what is no number there are no eigenvalues: TensorFlow fails. Residuals tell of it.
    known = xp.all(xp.isfinite(matrix))
    values, _ = xp.eigh(xp.where(known, matrix, xp.zeros_like(matrix)))
    largest = xp.max(xp.magnitude(values), -1)
    return -xp.max(-xp.divide_or_zero(values[:, 0], largest))


def _irregular(xp: Any, like: Any) -> Any:
    """Numbers without a pattern, the same each time: at right angles to no direction that anybody would think of."""
    places = xp.arange(xp.extent(like, -1))
    turned = places % 4001
    golden = 0.6180339887
    parts = [xp.astype(i, like.dtype) * golden % 1.0 for i in (turned * turned + 1, places + 1)]
    return xp.zeros_like(like) + (parts[0] - 0.5 + parts[1] / 3.0)


KEPT = 20  # directions


def gmres(xp: Any, apply: Apply, b: Any, tolerance: float | None, most: int) -> Solved:
    """Smallest residuals over the last directions: any matrix, the steadiest of them, and the most memory.

    In the form of generalised conjugate residuals, which needs no least squares. Where the residual hardly shrinks (of
    a rotation it is at right angles to its image), the next direction is the last image in its place, as in GMRES.
    """
    whole = size_of(xp, b)

    def step(k: Any, size: Any, w: Any, r: Any, p: Any, ps: Any, qs: Any) -> tuple[Any, ...]:
        q = apply(p)
        for _ in range(2):  # once more, for what rounding left of the first time
            shares = xp.einsum("kbn,bn->k", qs, q)
            q = q - xp.einsum("k,kbn->bn", shares, qs)
            p = p - xp.einsum("k,kbn->bn", shares, ps)
        length = size_of(xp, q)
        p, q = xp.divide_or_zero(p, length), xp.divide_or_zero(q, length)
        alpha = xp.sum(r * q)
        w, r = w + alpha * p, r - alpha * q
        follow = xp.where(xp.magnitude(alpha) > 0.1 * size, r, q)
        slot = k % KEPT
        return (
            k + 1,
            size_of(xp, r),
            w,
            r,
            follow,
            xp.with_row(ps, slot, p),
            xp.with_row(qs, slot, q),
        )

    zeros = xp.zeros_like(b)
    none = xp.rows_like(zeros, KEPT)
    state = (0, whole, zeros, b, b, none, none)
    k, _, w, *_ = xp.loop(_until(xp, whole, tolerance, most), step, state)
    return _checked(xp, apply, b, w, k)


def dense(xp: Any, apply: Apply, b: Any, tolerance: float | None, most: int) -> Solved:
    """The matrix of each row, made of its products with unit vectors, and one elimination."""
    del tolerance, most
    count = b.shape[-1]
    if count <= 1:
        w = b / apply(xp.ones_like(b))
    else:
        columns = xp.rows_of(lambda i: apply(xp.unit_like(b, i)), count, b)
        w = xp.solve(xp.columns(columns), b[..., None])[..., 0]
    return _checked(xp, apply, b, w, count)


def _checked(xp: Any, apply: Apply, b: Any, w: Any, k: Any) -> Solved:
    """A solution with its true residual: the one that a loop carries along drifts away from it."""
    return Solved(w, relative(xp, size_of(xp, b - apply(w)), size_of(xp, b)), k)


SOLVERS: dict[str, Callable[..., Solved]] = {
    "neumann": neumann,
    "cg": cg,
    "bicgstab": bicgstab,
    "gmres": gmres,
    "dense": dense,
}
