"""Every stable or fused function at its own special points: zeros, ties, equal eigenvalues, infinities."""

from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp
import numpy as np
import tensorflow as tf

import pullback as pb
from tests.functions.derivatives import Known, Row

f = pb.functions
INF, NAN = float("inf"), float("nan")
ROOT_HALF = mp.sqrt(mp.mpf(1) / 2)


def nothing(*at: float, value: Any = 0.0, gradient: Any = None) -> Known:
    """A point where the gradient is 0, unless another one is given, and the Hessian 0."""
    n = len(at)
    return Known(at, value, [0.0] * n if gradient is None else gradient, np.zeros([n, n]))


def no_number(*at: float) -> Known:
    return Known(at, NAN, [NAN] * len(at), np.full([len(at)] * 2, NAN))


def softplus(z: Any) -> Any:
    return mp.log1p(mp.exp(z)) if z < 0 else z + mp.log1p(mp.exp(-z))


def sigmoid(z: Any) -> Any:
    return 1 / (1 + mp.exp(-z)) if z > 0 else mp.exp(z) / (1 + mp.exp(z))


def logsumexp(*zs: Any) -> Any:
    return max(zs) + mp.log(mp.fsum(mp.exp(z - max(zs)) for z in zs))


def binary(y: Any, z: Any) -> Any:
    return y * softplus(-z) + (1 - y) * softplus(z)


def among(*both: Any) -> Any:
    ys, zs = both[: len(both) // 2], both[len(both) // 2 :]
    return mp.fsum(y * (logsumexp(*zs) - z) for y, z in zip(ys, zs, strict=True))


def of_class(index: int) -> Callable[..., Any]:
    return lambda *zs: logsumexp(*zs) - zs[index]


def focal(alpha: float, gamma: float) -> Callable[..., Any]:
    def formula(y: Any, z: Any) -> Any:
        up, down, a = sigmoid(z), sigmoid(-z), mp.mpf(alpha)
        one, zero = down**gamma * softplus(-z), up**gamma * softplus(z)
        return a * y * one + (1 - a) * (1 - y) * zero

    return formula


def log1mexp(x: Any) -> Any:
    return mp.log(-mp.expm1(-x))


def length(*xs: Any) -> Any:
    return mp.sqrt(mp.fsum(x * x for x in xs))


def spread(*xs: Any) -> Any:
    mean = mp.fsum(xs) / len(xs)
    return mp.sqrt(mp.fsum((x - mean) ** 2 for x in xs) / len(xs))


def products(exclusive: bool, reverse: bool) -> Callable[..., Any]:
    def formula(*xs: Any) -> Any:
        xs = xs[::-1] if reverse else xs
        ends = [i if exclusive else i + 1 for i in range(len(xs))]
        found = [mp.fprod(xs[:end]) for end in ends]
        return found[::-1] if reverse else found

    return formula


def spectral(function: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Callable[..., Any]:
    """A function of a symmetric 2 × 2 matrix, by the line through its values at the eigenvalues."""

    def formula(a: Any, b: Any, c: Any, d: Any) -> Any:
        side, mean = (b + c) / 2, (a + d) / 2
        half = mp.sqrt(((a - d) / 2) ** 2 + side**2)
        above, below = function(mean + half), function(mean - half)
        rise = (above - below) / (2 * half) if half else slope(mean)
        middle = (above + below) / 2
        return [middle + rise * (a - mean), rise * side, rise * side, middle + rise * (d - mean)]

    return formula


def orthogonal(a: Any, b: Any, c: Any, d: Any) -> Any:
    """The polar factors of a 2 × 2 matrix of positive determinant, of which A plus its cofactors is a multiple."""
    p, q = a + d, b - c
    size = length(p, q)
    u = [p / size, q / size, -q / size, p / size]
    stretch = [u[0] * a + u[2] * c, u[0] * b + u[2] * d, u[1] * a + u[3] * c, u[1] * b + u[3] * d]
    return [*u, *stretch]


def log_determinant(a: Any, b: Any, c: Any, d: Any) -> Any:
    return mp.log(a * d - ((b + c) / 2) ** 2)


def cubes(a: Any, b: Any, c: Any, d: Any) -> Any:
    """The sum of the cubes of the eigenvalues."""
    trace, determinant = a + d, a * d - ((b + c) / 2) ** 2
    return trace**3 - 3 * trace * determinant


def tanh_gelu(x: Any) -> Any:
    return x * sigmoid(2 * mp.sqrt(2 / mp.pi) * (x + mp.mpf(0.044715) * x**3))


def rms(*xs: Any) -> Any:
    root = mp.sqrt(mp.fsum(x * x for x in xs) / len(xs) + mp.mpf(1e-6))
    return [x / root for x in xs]


def layered(*x: Any) -> Any:
    mean = mp.fsum(x) / 3
    root = mp.sqrt(mp.fsum((v - mean) ** 2 for v in x) / 3 + mp.mpf(1e-6))
    both = zip(x, SCALE, (0, 0.5, -1), strict=True)
    return [(v - mean) / root * s + o for v, s, o in both]


def labels_of(index: int, z: Any) -> Any:
    return tf.fill(tf.shape(z)[:1], index)


def symmetric(a: Any) -> Any:
    return 0.5 * (a + tf.linalg.matrix_transpose(a))


def polar(a: Any) -> Any:
    u, p = f.polar(a)
    return tf.reshape(tf.concat([u, p], 1), [-1, 8])


def flat(function: Callable[..., Any]) -> Callable[..., Any]:
    """The entries of what a function of matrices gives, in one row."""
    return lambda a: tf.reshape(function(a), [-1, 4])


LOGITS: Sequence[Any] = [
    *[(20, -20, 0), (0, 0, 0), (1, 2, 3), (-20, 20, 0)],
    *[(100, 0, -100), (1000, 999, 998)],
]
VECTORS: Sequence[Any] = [
    *[(3, 4), (3e20, 4e20), (3e-20, 4e-20), (1, 0), (0, -2)],
    *[(2, 1e-10), (1e-30, 1e-30), (3e38, 1e38), (300, -400)],
]
MATRICES: Sequence[Any] = [
    *[(4, 0, 0, 4), (2, 0.5, 0.25, 1), (1, 0, 0, 4)],
    *[(0.0625, 0, 0, 0.0625), (1, 0, 0, 1)],
]
PAIR, TRIPLE, MATRIX = ((), ()), ((3,),), ((2, 2),)
SCALE = (1.0, 2.0, 0.5)
HALF_LOGITS = [[0, 0, 0], [0, 0.25, -0.25], [0, -0.25, 0.25]]

ROWS = [
    Row(
        "binary_cross_entropy of logits",
        lambda y, z: f.binary_cross_entropy(y, z, from_logits=True, axis=None),
        binary,
        [(0, 0), (1, 0), (0.25, 20), (0, 100), (1, 100), (1, -100), (1, 17), (0, 1e-30), (0.5, 0)],
        PAIR,
        known=[
            Known((1, INF), 0, [-INF, 0], [[0, -1], [-1, 0]]),
            Known((0, -INF), 0, [INF, 0], [[0, -1], [-1, 0]]),
            Known((0, INF), INF, [-INF, 1], [[0, -1], [-1, 0]]),
        ],
    ),
    Row(
        "binary_cross_entropy of probabilities",
        lambda y, p: f.binary_cross_entropy(y, p, axis=None),
        lambda y, p: -y * mp.log(p) - (1 - y) * mp.log1p(-p),
        [
            (0, 1e-30),
            (0, 1e-10),
            (1, 1e-10),
            (0.25, 1e-10),
            (0, 0.5),
            (1, 0.5),
            (1, 1e-25),
            (0.5, 0.5),
        ],
        PAIR,
        known=[
            Known((0, 0), 0, [INF, 1], [[0, -INF], [-INF, 1]]),
            Known((1, 1), 0, [-INF, -1], [[0, -INF], [-INF, 1]]),
            Known((0, 1), INF, [-INF, INF], [[0, -INF], [-INF, INF]]),
            Known((1, 0), INF, [INF, -INF], [[0, -INF], [-INF, INF]]),
        ],
    ),
    Row(
        "categorical_cross_entropy of logits",
        lambda y, z: f.categorical_cross_entropy(y, z, from_logits=True),
        among,
        [(*y, *z) for y in ((1, 0, 0), (0, 0, 1), (0, 0, 0)) for z in LOGITS]
        + [(3, 1, 0, 20, -20, 0), (3, 1, 0, -20, 20, 0)],
        ((3,), (3,)),
        known=[
            Known(
                (0, 1, 0, -INF, 0, 0),
                mp.log(2),
                [INF, mp.log(2), mp.log(2), 0, -0.5, 0.5],
                np.block(
                    [
                        [
                            np.zeros([3, 3]),
                            np.array([[-1, 0.5, 0.5], [0, -0.5, 0.5], [0, 0.5, -0.5]]),
                        ],
                        [
                            np.array([[-1, 0, 0], [0.5, -0.5, 0.5], [0.5, 0.5, -0.5]]),
                            np.array(HALF_LOGITS),
                        ],
                    ]
                ),
            )
        ],
    ),
    Row(
        "categorical_cross_entropy of probabilities",
        lambda y, p: f.categorical_cross_entropy(y, p),
        lambda y, p: -y * mp.log(p),
        [(0, 0.5), (1, 0.5), (1, 1e-10), (0, 1e-30), (0.5, 1), (2, 1)],
        ((1,), (1,)),
        known=[
            Known((0, 0), 0, [INF, 0], [[0, -INF], [-INF, 0]]),
            Known((1, 0), INF, [INF, -INF], [[0, -INF], [-INF, INF]]),
        ],
    ),
    Row(
        "sparse_categorical_cross_entropy of logits",
        lambda z: f.sparse_categorical_cross_entropy(labels_of(1, z), z, from_logits=True),
        of_class(1),
        LOGITS,
        TRIPLE,
        known=[Known((-INF, 0, 0), mp.log(2), [0, -0.5, 0.5], HALF_LOGITS)],
    ),
    Row(
        "sparse_categorical_cross_entropy of probabilities",
        lambda p: f.sparse_categorical_cross_entropy(labels_of(1, p), p),
        lambda _, p: -mp.log(p),
        [(0.5, 0.5), (0, 1), (0.5, 1e-10)],
        ((2,),),
        known=[Known((1, 0), INF, [0, -INF], [[0, 0], [0, INF]])],
    ),
    *(
        Row(
            f"softmax_cross_entropy, class {k}",
            lambda z, k=k: f.softmax_cross_entropy(labels_of(k, z), z),
            of_class(k),
            LOGITS,
            TRIPLE,
            known=[Known((-INF, 0, 0), mp.log(2), [0, -0.5, 0.5], HALF_LOGITS)] if k == 1 else [],
        )
        for k in (0, 1)
    ),
    Row(
        "softmax_cross_entropy of distributions",
        f.softmax_cross_entropy,
        among,
        [(*y, *z) for y in ((1, 0, 0), (0, 0, 1)) for z in LOGITS]
        + [(0.5, 0.25, 0.25, 20, -20, 0), (0.5, 0.5, 0, 1, 2, 3)],
        ((3,), (3,)),
    ),
    *(
        Row(
            f"binary_focal_cross_entropy, gamma {gamma:g}",
            lambda y, z, a=alpha, g=gamma: f.binary_focal_cross_entropy(y, z, a, g, axis=None),
            focal(alpha, gamma),
            [(0, 0), (1, 0), (1, 20), (0, -20), (1, -100), (0, 100), (0.5, 1), (1, 100)],
            PAIR,
            known=[
                Known((1, INF), 0, [-INF, 0], [[0, alpha - 1], [alpha - 1, 0]]),
                Known((0, -INF), 0, [INF, 0], [[0, -alpha], [-alpha, 0]]),
            ],
        )
        for alpha, gamma in ((0.5, 2.0), (0.25, 0.5), (0.5, 0.0), (0.5, 1.0))
    ),
    Row(
        "kl_divergence",
        f.kl_divergence,
        lambda p, q: p * mp.log(p / q),
        [(0.5, 0.5), (0.25, 0.5), (1e-30, 1e-30), (0.5, 1e-30), (1e-30, 0.5), (1, 1)],
        ((1,), (1,)),
        known=[
            nothing(0, 0),
            Known((0, 0.5), 0, [-INF, 0], [[INF, -2], [-2, 0]]),
            Known((0.5, 0), INF, [INF, -INF], [[2, -INF], [-INF, INF]]),
        ],
    ),
    Row(
        "gaussian_nll",
        f.gaussian_nll,
        lambda y, m, s: ((y - m) * mp.exp(-s)) ** 2 / 2 + s,
        [
            (1, 2, 20),
            (0, 0, 0),
            (1, 2, -20),
            (1, 1, 1),
            (1e30, 0, 70),
            (2, 1, 0),
            (1, 3, 0),
            (1, 2, 40),
            (1, 0, 0.125),
        ],
        ((), (), ()),
    ),
    Row(
        "log1mexp",
        f.log1mexp,
        log1mexp,
        [(1e-30,), (1e-10,), (0.5,), (1,), (50,), (100,)],
        known=[
            Known((0,), -INF, [INF], [[-INF]]),
            nothing(INF),
            no_number(-1),
        ],
    ),
    Row(
        "log_sub_exp",
        f.log_sub_exp,
        lambda x, y: x + log1mexp(x - y),
        [(1000, 992), (1, 0), (88, -80), (1e-10, 0), (20, -20), (3, 1)],
        PAIR,
        known=[
            Known((1, 1), -INF, [INF, -INF], [[-INF, INF], [INF, -INF]]),
            nothing(-INF, -INF, value=-INF),
            nothing(INF, 0, value=INF, gradient=[1, 0]),
            nothing(0, -INF, gradient=[1, 0]),
            no_number(1, 2),
        ],
    ),
    Row(
        "logaddexp",
        f.logaddexp,
        logsumexp,
        [(0, 0), (1000, 999), (1, -1), (100, -80), (-0.6875, -0.703125), (20, -20)],
        PAIR,
        known=[
            nothing(-INF, -INF, value=-INF),
            nothing(INF, INF, value=INF, gradient=[0.5, 0.5]),
            nothing(INF, 1, value=INF, gradient=[1, 0]),
            nothing(1, -INF, value=1, gradient=[1, 0]),
        ],
        bar_of_float64=16.0,  # the sum cancels
    ),
    Row(
        "logsumexp",
        lambda x: f.logsumexp(x, axis=1),
        logsumexp,
        [*LOGITS, (-1, -1, -1.109375), (-100, -100, -100)],
        TRIPLE,
        bar_of_float64=16.0,  # the sum cancels
        known=[
            nothing(-INF, -INF, -INF, value=-INF),
            Known((-INF, 0, 0), mp.log(2), [0, 0.5, 0.5], HALF_LOGITS),
            nothing(INF, 1, -INF, value=INF, gradient=[1, 0, 0]),
            nothing(INF, 1, INF, value=INF, gradient=[0.5, 0, 0.5]),
        ],
    ),
    Row(
        "norm",
        lambda x: f.norm(x, axis=1),
        length,
        VECTORS,
        ((2,),),
        known=[
            nothing(0, 0),
            nothing(INF, 1, value=INF, gradient=[1, 0]),
            nothing(INF, -INF, value=INF, gradient=[ROOT_HALF, -ROOT_HALF]),
        ],
        of_largest=True,
    ),
    Row(
        "std",
        lambda x: f.std(x, axis=1),
        spread,
        [(1, 3, 2), (1e20, -1e20, 0), (1e-20, 3e-20, 2e-20), (1024, 1025, 1026), (5, 1, 0)],
        TRIPLE,
        known=[nothing(2, 2, 2), nothing(0, 0, 0)],
        of_largest=True,
    ),
    Row(
        "normalize",
        lambda x: f.normalize(x, axis=1),
        lambda x, y: [x / length(x, y), y / length(x, y)],
        [(3, 4), (3e15, 1e15), (3e-15, 4e-15), (1, 0), (0, -2), (2, 1e-10), (300, -400)],
        ((2,),),
        weights=[1.0, 0.0],
        known=[
            nothing(0, 0, value=[0, 0]),
            nothing(INF, 1, value=[1, 0]),
        ],
        of_largest=True,
    ),
    Row(
        "normalize, mixed",
        lambda x: f.normalize(x, axis=1),
        lambda *xs: [x / length(*xs) for x in xs],
        [(1, 2, 3), (0, 0, 1), (1e-15, 0, 1e-15), (1e15, 2e15, -1e15)],
        TRIPLE,
        weights=[1.0, -2.0, 0.5],
        of_largest=True,
    ),
    Row(
        "sqrt",
        f.sqrt,
        mp.sqrt,
        [(4,), (1e-10,), (1e-20,), (1e-30,), (1e30,), (0.0625,)],
        known=[nothing(0), nothing(INF, value=INF), no_number(-1)],
    ),
    Row(
        "hypot",
        f.hypot,
        length,
        [*VECTORS, (1, 1)],
        PAIR,
        known=[
            nothing(0, 0),
            nothing(INF, 1, value=INF, gradient=[1, 0]),
            nothing(INF, -INF, value=INF, gradient=[ROOT_HALF, -ROOT_HALF]),
        ],
        of_largest=True,
    ),
    Row(
        "atan2",
        f.atan2,
        mp.atan2,
        [
            (0, 1),
            (1, 0),
            (1, 1),
            (1e-10, 1),
            (3, 4),
            (1e-15, 1e-15),
            (3e15, 4e15),
            (-1, -1),
            (3e-30, 4e-30),
            (3e30, 4e30),
        ],
        PAIR,
        known=[nothing(0, 0), nothing(INF, 1, value=mp.pi / 2), nothing(1, INF)],
        of_largest=True,
    ),
    *(
        Row(
            f"cumprod, exclusive {exclusive}, reverse {reverse}",
            lambda x, e=exclusive, r=reverse: f.cumprod(x, 1, exclusive=e, reverse=r),
            products(exclusive, reverse),
            [
                (0, 2, 3),
                (0, 0, 3),
                (0, 0, 0),
                (2, 0, 3),
                (1e-30, 1e-30, 2),
                (1, 2, 3),
                (2, 3, 0),
                (0, 5, 0),
            ],
            TRIPLE,
            weights=[1.0, 2.0, -1.0],
            of_largest=True,
        )
        for exclusive in (False, True)
        for reverse in (False, True)
    ),
    Row(
        "safe_where",
        lambda x: f.safe_where(x > 0, tf.sqrt, lambda v: v * v * v, x),
        lambda x: mp.sqrt(x) if x > 0 else x**3,
        [(4,), (-2,), (0.0625,)],
        known=[nothing(0)],
    ),
    Row(
        "sqrtm",
        flat(f.sqrtm),
        spectral(mp.sqrt, lambda x: 1 / (2 * mp.sqrt(x))),
        MATRICES,
        MATRIX,
        weights=[0.5, -2.0, 1.0, 0.25],
        known=[nothing(0, 0, 0, 0, value=[0] * 4)],
        of_largest=True,
        bar=32.0,
        bar_of_float64=32.0,
    ),
    *(
        Row(
            f"funm, {function.__name__}",
            flat(lambda a, function=function: f.funm(a, function)),
            formula,
            MATRICES,
            MATRIX,
            weights=[0.5, -2.0, 1.0, 0.25],
            of_largest=True,
            bar=64.0,
            bar_of_float64=64.0,
            forward=False,  # refused
        )
        for function, formula in (
            (tf.exp, spectral(mp.exp, mp.exp)),
            (tf.math.log, spectral(mp.log, lambda x: 1 / x)),
            (tf.square, spectral(lambda x: x * x, lambda x: 2 * x)),
        )
    ),
    Row(
        "polar",
        polar,
        orthogonal,
        [(1, 0, 0, 1), (2, 0, 0, 2), (2, 0.5, 0.25, 1), (1, 0, 0, 0.5)],
        MATRIX,
        weights=[0.5, -2.0, 1.0, 0.25, 1.0, -1.0, 3.0, 0.5],
        of_largest=True,
        bar=32.0,
        bar_of_float64=32.0,
    ),
    Row(
        "logdet",
        lambda a: f.logdet(symmetric(a)),
        log_determinant,
        [*MATRICES, (1e-4, 0, 0, 1e3)],
        MATRIX,
        of_largest=True,
    ),
    Row(
        "eigh, distinct eigenvalues",
        lambda a: tf.reduce_sum(f.eigh(a)[0] ** 3, 1),
        cubes,
        [(2, 0.5, 0.25, 1), (1, 0, 0, 4)],
        MATRIX,
        of_largest=True,
        bar=32.0,
        bar_of_float64=32.0,
    ),
    Row(
        "svd, distinct singular values",
        lambda a: tf.reduce_sum(f.svd(a)[0] ** 2, 1),
        lambda *xs: mp.fsum(x * x for x in xs),
        [(2, 0.5, 0.25, 1), (1, 0, 0, 4)],
        MATRIX,
        of_largest=True,
        bar=32.0,
        bar_of_float64=32.0,
    ),
    Row(
        "gelu",
        f.gelu,
        lambda x: x * mp.ncdf(x),
        [(0,), (1,), (-1,), (3,), (-3,), (-5,), (-10,), (20,), (-100,), (1e-20,)],
        known=[nothing(INF, value=INF, gradient=[1]), nothing(-INF)],
        bar_of_float64=32.0,
    ),
    Row(
        "gelu, approximate",
        lambda x: f.gelu(x, approximate=True),
        tanh_gelu,
        [(0,), (1,), (-1,), (3,), (-3,), (-5,), (-100,), (1e-20,), (-0.5,)],
        known=[nothing(INF, value=INF, gradient=[1]), nothing(-INF)],
        bar_of_float64=32.0,
    ),
    Row(
        "gelu, approximate, far",
        lambda x: f.gelu(x, approximate=True),
        tanh_gelu,
        [(20,)],
        bar_of_float64=1024.0,  # its second derivative is that of exp(−589): so many roundings of the exponent
    ),
    Row(
        "swiglu",
        f.swiglu,
        lambda gate, x: gate * sigmoid(gate) * x,
        [(0, 3), (2, 5), (-3, 2), (-50, 1), (100, 1), (1e-20, 1), (3, 0)],
        PAIR,
        known=[
            Known((INF, 1), INF, [1, INF], [[0, 1], [1, 0]]),
            nothing(-INF, 1),
        ],
        bar_of_float64=8.0,
    ),
    Row(
        "rms_norm",
        f.rms_norm,
        rms,
        [(3, 4, 1), (0, 0, 0), (1e-3, 2e-3, 0), (1e-20, 0, 1e-20), (1e4, 1, -1e4)],
        TRIPLE,
        weights=[1.0, -2.0, 0.5],
        of_largest=True,
        bar_of_float64=8.0,
    ),
    Row(
        "layer_norm",
        lambda x: f.layer_norm(x, SCALE, [0.0, 0.5, -1.0]),
        layered,
        [(1, 2, 3), (2, 2, 2), (0, 0, 0), (4, 1, -1), (1e4, 1e4, 0)],
        TRIPLE,
        weights=[1.0, -2.0, 0.5],
        of_largest=True,
        bar_of_float64=8.0,
    ),
]
