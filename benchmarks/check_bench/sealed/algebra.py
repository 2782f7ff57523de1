"""Linear algebra."""

# ruff: noqa: ANN001, ANN201, ANN202
from __future__ import annotations

import tensorflow as tf

import pullback as pb
from benchmarks.check_bench.sealed.cases import Mistake, definite, family, normal


def _symmetric(a):
    return (a + tf.linalg.matrix_transpose(a)) / 2


@family(
    lambda: (normal(61, 3, 3) + 3 * tf.eye(3), normal(62, 3, 2)),
    not_transposed=Mistake("transposed", "solves with A in place of its transpose"),
    sign=Mistake("sign", "the gradient of A lacks its minus"),
    outer_transposed=Mistake("transposed", "the gradient of A is transposed"),
    first_column=Mistake("term", "only the first right-hand side counts for A"),
    detached=Mistake("second", "the solution is detached in the gradient of A", "second"),
)
def linear_solve(slip):
    @pb.custom_gradient
    def solve(A, b):
        def solve_pullback(dx):
            x = tf.linalg.solve(A, b)
            x = tf.stop_gradient(x) if slip == "detached" else x
            db = tf.linalg.solve(A, dx, adjoint=slip != "not_transposed")
            left, right = (db[:, :1], x[:, :1]) if slip == "first_column" else (db, x)
            dA = -tf.matmul(left, right, transpose_b=True)
            dA = -dA if slip == "sign" else dA
            return tf.transpose(dA) if slip == "outer_transposed" else dA, db

        return tf.linalg.solve(A, b), solve_pullback

    return solve


@family(
    lambda: (normal(63, 4, 3), normal(64, 3), definite(65, 3)),
    {"domain": {"cov": "definite"}},
    no_determinant=Mistake("term", "the log determinant is left out for the covariance"),
    half=Mistake("factor", "the quadratic part lacks its one half"),
    mean_first=Mistake("axis", "the mean gets the gradient of the first sample alone"),
    sign=Mistake("sign", "the gradient of the samples has the wrong sign"),
    diagonal=Mistake("part", "the covariance gets the diagonal of its gradient alone"),
)
def gaussian_density(slip):
    """Log densities of rows of x; the covariance is made symmetric first."""

    @pb.custom_gradient
    def density(x, mean, cov):
        def parts():
            L = tf.linalg.cholesky(_symmetric(cov))
            solved = tf.transpose(tf.linalg.cholesky_solve(L, tf.transpose(x - mean)))
            return L, solved

        L, solved = parts()
        log_det = 2 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(L)))
        square = tf.reduce_sum((x - mean) * solved, 1)

        def density_pullback(dy):
            L, s = parts()
            dx = dy[:, None] * s if slip == "sign" else -dy[:, None] * s
            spread = tf.einsum("n,ni,nj->ij", dy, s, s) * (1.0 if slip == "half" else 0.5)
            inverse = tf.linalg.cholesky_solve(L, tf.eye(3, dtype=x.dtype))
            inverse = 0 * inverse if slip == "no_determinant" else inverse
            dcov = spread - 0.5 * tf.reduce_sum(dy) * inverse
            dcov = tf.linalg.diag(tf.linalg.diag_part(dcov)) if slip == "diagonal" else dcov
            back = dy[:, None] * s
            return dx, back[0] if slip == "mean_first" else tf.reduce_sum(back, 0), dcov

        return -0.5 * (square + log_det), density_pullback

    return density


def _split_args():
    turn = tf.linalg.qr(normal(66, 3, 3))[0]
    return (turn @ tf.linalg.diag(tf.constant([0.5, 1.3, 2.6])) @ tf.transpose(turn),)


@family(
    _split_args,
    {"domain": {"a": "definite"}},
    commuting=Mistake("term", "1/(2 sqrt A) on either side, as if everything commuted"),
    diagonal=Mistake("term", "eigenvectors are taken as constants"),
    sum_of_values=Mistake("input", "eigenvalues in place of their roots in the denominator"),
    nan_if_equal=Mistake(
        "nonfinite",
        "NaN where two eigenvalues are equal: a quotient 0/0",
        at=lambda: (tf.linalg.diag(tf.constant([2.0, 2.0, 1.0])),),
        given=True,
    ),
    turned_back=Mistake("transposed", "eigenvectors transposed on the way back"),
)
def matrix_root(slip):
    """The square root of a symmetric positive matrix."""

    @pb.custom_gradient
    def root(a):
        values, vectors = tf.linalg.eigh(_symmetric(a))
        out = vectors @ tf.linalg.diag(tf.sqrt(values)) @ tf.transpose(vectors)

        def root_pullback(dy):
            s = tf.sqrt(values)
            quotient = 1 / (s[:, None] + s[None])
            if slip == "sum_of_values":
                quotient = 1 / (values[:, None] + values[None])
            if slip == "nan_if_equal":
                slope = (s[:, None] - s[None]) / (values[:, None] - values[None])
                quotient = tf.linalg.set_diag(slope, 1 / (2 * s))
            V = tf.transpose(vectors) if slip == "turned_back" else vectors
            inner = tf.matmul(V, dy, transpose_a=True) @ V * quotient
            if slip == "commuting":
                half = tf.linalg.inv(out) / 2
                return _symmetric(half @ dy)
            if slip == "diagonal":
                inner = tf.linalg.diag(tf.linalg.diag_part(inner))
            return _symmetric(V @ inner @ tf.transpose(V))

        return out, root_pullback

    return root


@family(
    lambda: (normal(67, 4, 3), normal(68, 5, 3)),
    factor=Mistake("factor", "the 2 of the square is missing"),
    one_side=Mistake("none", "y gets no gradient"),
    sign=Mistake("sign", "y gets the gradient with the sign of x's"),
    no_own=Mistake("term", "only -2 y, the part 2 x of each pair is dropped, in the gradient of x"),
    first_axis=Mistake(
        "axis", "for y, the upstream is averaged over all in place of summed by column"
    ),
)
def pair_distances(slip):
    """Squared distances between all rows of x and all rows of y."""

    @pb.custom_gradient
    def distances(x, y):
        def distances_pullback(dd):
            two = 1.0 if slip == "factor" else 2.0
            own = 0.0 if slip == "no_own" else tf.reduce_sum(dd, 1)[:, None] * x
            dx = two * (own - dd @ y)
            dy = two * (tf.reduce_sum(dd, 0)[:, None] * y - tf.matmul(dd, x, transpose_a=True))
            dy = -dy if slip == "sign" else dy
            if slip == "first_axis":
                mean = tf.reduce_mean(tf.reduce_sum(dd, 1))
                dy = 2.0 * (mean * y - tf.matmul(dd, x, transpose_a=True))
            return dx, None if slip == "one_side" else dy

        return tf.reduce_sum((x[:, None] - y[None]) ** 2, -1), distances_pullback

    return distances


@family(
    lambda: (definite(69, 3), normal(70, 3)),
    half=Mistake("factor", "the quadratic form's gradient lacks the 2"),
    weight_decay=Mistake("term", "0.01 x is added to the gradient of x: weight decay in the rule"),
    cubed=Mistake("small", "the gradient of A is multiplied by 1.001"),
    clipped=Mistake("upstream", "the upstream is clipped to [-5, 5]", "upstream"),
    mean_upstream=Mistake("upstream", "takes the upstream's sign for the upstream of A"),
)
def rayleigh(slip):
    """x'Ax / x'x."""

    @pb.custom_gradient
    def quotient(A, x):
        def value(A, x):
            return tf.tensordot(x, tf.linalg.matvec(A, x), 1) / tf.tensordot(x, x, 1)

        def quotient_pullback(dy):
            dy = tf.clip_by_value(dy, -5.0, 5.0) if slip == "clipped" else dy
            square, r = tf.tensordot(x, x, 1), value(A, x)
            both = tf.linalg.matvec(A, x) + tf.linalg.matvec(A, x, transpose_a=True)
            dx = dy * (both - 2 * r * x) / square
            dx = dx / 2 if slip == "half" else dx
            dx = dx + 0.01 * x if slip == "weight_decay" else dx
            up = tf.sign(dy) if slip == "mean_upstream" else dy
            dA = up * x[:, None] * x[None] / square
            return 1.001 * dA if slip == "cubed" else dA, dx

        return value(A, x), quotient_pullback

    return quotient
