"""The right rules: more than sixty functions by topic, each with the derivative from a textbook."""

# ruff: noqa: ANN001, ANN201, ANN202, E731
from __future__ import annotations

import numpy as np

from benchmarks.check_bench.cases import (
    case,
    labelled,
    linear_inputs,
    matrix,
    positive,
    rows_and_row,
    square,
    two_matrices,
    two_positive,
    two_vectors,
    vector,
)


def _unary(name, inputs, domain, f, d):
    """An element-wise function: `d(B, x, y)` is its derivative."""

    def make(B):
        return (lambda x: f(B, x)), (lambda dy, xs, y: (dy * d(B, xs[0], y),))

    make.__name__ = name
    case(inputs, domain=domain)(make)


def _sigmoid(B, x):
    return 1 / (1 + B.exp(-x))


def _normal(B, x):
    return B.exp(-x * x / 2) / np.sqrt(2 * np.pi)


def _phi(B, x):
    return (1 + B.erf(x / np.sqrt(2))) / 2


def _softplus(B, x):
    return B.maximum(x, B.zeros(x)) + B.log(1 + B.exp(-B.abs(x)))


def _sinh(B, x):
    return (B.exp(x) - B.exp(-x)) / 2


def _cosh(B, x):
    return (B.exp(x) + B.exp(-x)) / 2


def _mish(B, x):
    return x * B.tanh(_softplus(B, x))


def _mish_d(B, x, y):
    t = B.tanh(_softplus(B, x))
    return t + x * (1 - t * t) * _sigmoid(B, x)


def _inside(B, x):
    return np.sqrt(2 / np.pi) * (x + 0.044715 * x * x * x)


def _gelu_tanh_d(B, x, y):
    t = B.tanh(_inside(B, x))
    return (1 + t) / 2 + x * (1 - t * t) / 2 * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x * x)


_unary("sine", vector, "real", lambda B, x: B.sin(x), lambda B, x, y: B.cos(x))
_unary("exponential", vector, "real", lambda B, x: B.exp(x), lambda B, x, y: y)
_unary("squared", vector, "real", lambda B, x: x * x, lambda B, x, y: 2 * x)
_unary("cubed", vector, "real", lambda B, x: x * x * x, lambda B, x, y: 3 * x * x)
_unary("sigmoid", vector, "real", _sigmoid, lambda B, x, y: y * (1 - y))
_unary("tanh", vector, "real", lambda B, x: B.tanh(x), lambda B, x, y: 1 - y * y)
_unary("softplus", vector, "real", _softplus, lambda B, x, y: _sigmoid(B, x))
_unary(
    "silu",
    vector,
    "real",
    lambda B, x: x * _sigmoid(B, x),
    lambda B, x, y: _sigmoid(B, x) * (1 + x * (1 - _sigmoid(B, x))),
)
_unary("gelu_tanh", vector, "real", lambda B, x: x / 2 * (1 + B.tanh(_inside(B, x))), _gelu_tanh_d)
_unary(
    "gelu_erf",
    vector,
    "real",
    lambda B, x: x * _phi(B, x),
    lambda B, x, y: _phi(B, x) + x * _normal(B, x),
)
_unary("mish", vector, "real", _mish, _mish_d)
_unary("logarithm", positive, "positive", lambda B, x: B.log(x), lambda B, x, y: 1 / x)
_unary("root", positive, "positive", lambda B, x: B.sqrt(x), lambda B, x, y: 0.5 / B.sqrt(x))
_unary(
    "inverse_root",
    positive,
    "positive",
    lambda B, x: 1 / B.sqrt(x),
    lambda B, x, y: -0.5 / (x * B.sqrt(x)),
)
_unary("reciprocal", positive, "real", lambda B, x: 1 / x, lambda B, x, y: -1 / (x * x))
_unary("log_plus", positive, "positive", lambda B, x: B.log(1 + x), lambda B, x, y: 1 / (1 + x))
_unary("arctangent", vector, "real", lambda B, x: B.atan(x), lambda B, x, y: 1 / (1 + x * x))
_unary("sinh", vector, "real", _sinh, lambda B, x, y: _cosh(B, x))
_unary(
    "error_function",
    vector,
    "real",
    lambda B, x: B.erf(x),
    lambda B, x, y: 2 / np.sqrt(np.pi) * B.exp(-x * x),
)
_unary("bell", vector, "real", lambda B, x: B.exp(-x * x), lambda B, x, y: -2 * x * y)
_unary("x_sine", vector, "real", lambda B, x: x * B.sin(x), lambda B, x, y: B.sin(x) + x * B.cos(x))
_unary(
    "softsign",
    vector,
    "real",
    lambda B, x: x / (1 + B.abs(x)),
    lambda B, x, y: 1 / ((1 + B.abs(x)) * (1 + B.abs(x))),
)
_unary(
    "power_three_halves",
    positive,
    "positive",
    lambda B, x: x * B.sqrt(x),
    lambda B, x, y: 1.5 * B.sqrt(x),
)

_unary(
    "relu",
    vector,
    "real",
    lambda B, x: B.maximum(x, B.zeros(x)),
    lambda B, x, y: B.where(x > 0, B.ones(x), B.zeros(x)),
)
_unary(
    "leaky_relu",
    vector,
    "real",
    lambda B, x: B.where(x > 0, x, 0.1 * x),
    lambda B, x, y: B.where(x > 0, B.ones(x), 0.1 * B.ones(x)),
)
_unary(
    "elu",
    vector,
    "real",
    lambda B, x: B.where(x > 0, x, B.exp(B.minimum(x, B.zeros(x))) - 1),
    lambda B, x, y: B.where(x > 0, B.ones(x), B.exp(B.minimum(x, B.zeros(x)))),
)
_unary("absolute", vector, "real", lambda B, x: B.abs(x), lambda B, x, y: B.sign(x))
_unary(
    "huber",
    vector,
    "real",
    lambda B, x: B.where(B.abs(x) < 1.5, x * x / 2, 1.5 * (B.abs(x) - 0.75)),
    lambda B, x, y: B.where(B.abs(x) < 1.5, x, 1.5 * B.sign(x)),
)
_unary(
    "hard_tanh",
    vector,
    "real",
    lambda B, x: B.minimum(B.maximum(x, -1.2 * B.ones(x)), 1.2 * B.ones(x)),
    lambda B, x, y: B.where(B.abs(x) < 1.2, B.ones(x), B.zeros(x)),
)
_unary(
    "soft_shrink",
    vector,
    "real",
    lambda B, x: B.sign(x) * B.maximum(B.abs(x) - 0.4, B.zeros(x)),
    lambda B, x, y: B.where(B.abs(x) > 0.4, B.ones(x), B.zeros(x)),
)
_unary(
    "relu_squared",
    vector,
    "real",
    lambda B, x: B.maximum(x, B.zeros(x)) * B.maximum(x, B.zeros(x)),
    lambda B, x, y: 2 * B.maximum(x, B.zeros(x)),
)
_unary(
    "hard_sigmoid",
    vector,
    "real",
    lambda B, x: B.minimum(B.maximum(x / 6 + 0.5, B.zeros(x)), B.ones(x)),
    lambda B, x, y: B.where(B.abs(x) < 3, B.ones(x) / 6, B.zeros(x)),
)


@case(two_vectors)
def product(B):
    return (lambda x, y: x * y), (lambda dz, xs, z: (dz * xs[1], dz * xs[0]))


@case(two_positive)
def quotient(B):
    return (lambda x, y: x / y), (lambda dz, xs, z: (dz / xs[1], -dz * z / xs[1]))


@case(two_positive, domain="positive")
def power(B):
    f = lambda x, y: B.exp(y * B.log(x))
    return f, lambda dz, xs, z: (dz * xs[1] * z / xs[0], dz * z * B.log(xs[0]))


@case(two_vectors)
def hypotenuse(B):
    f = lambda x, y: B.sqrt(x * x + y * y)
    return f, lambda dz, xs, z: (dz * xs[0] / z, dz * xs[1] / z)


@case(two_vectors)
def larger(B):
    f = lambda x, y: B.maximum(x, y)
    zero = lambda dz: B.zeros(dz)
    return f, lambda dz, xs, z: (
        B.where(xs[0] >= xs[1], dz, zero(dz)),
        B.where(xs[0] >= xs[1], zero(dz), dz),
    )


@case(two_vectors)
def squared_difference(B):
    f = lambda x, y: (x - y) * (x - y)
    return f, lambda dz, xs, z: (2 * dz * (xs[0] - xs[1]), -2 * dz * (xs[0] - xs[1]))


@case(rows_and_row)
def add_row(B):
    return (lambda x, b: x + b), (lambda dz, xs, z: (dz, B.sum(dz, 0)))


@case(rows_and_row)
def scale_row(B):
    return (lambda x, s: x * s), (lambda dz, xs, z: (dz * xs[1], B.sum(dz * xs[0], 0)))


@case(rows_and_row)
def gated_row(B):
    f = lambda x, s: x * _sigmoid(B, s)

    def rule(dz, xs, z):
        s = _sigmoid(B, xs[1])
        return dz * s, B.sum(dz * xs[0], 0) * s * (1 - s)

    return f, rule


@case(square)
def matrix_product(B):
    return B.matmul, lambda dz, xs, z: (B.matmul(dz, B.swap(xs[1])), B.matmul(B.swap(xs[0]), dz))


@case(linear_inputs)
def linear(B):
    f = lambda x, w, b: B.matmul(x, w) + b
    return f, lambda dz, xs, z: (
        B.matmul(dz, B.swap(xs[1])),
        B.matmul(B.swap(xs[0]), dz),
        B.sum(dz, 0),
    )


@case(linear_inputs)
def dense_tanh(B):
    f = lambda x, w, b: B.tanh(B.matmul(x, w) + b)

    def rule(dz, xs, z):
        d = dz * (1 - z * z)
        return B.matmul(d, B.swap(xs[1])), B.matmul(B.swap(xs[0]), d), B.sum(d, 0)

    return f, rule


@case(square)
def quadratic_form(B):
    """x' A x by rows, A not symmetric."""
    f = lambda x, a: B.sum(B.matmul(x, a) * x, -1)

    def rule(dz, xs, z):
        x, a = xs
        weighted = x * dz[:, None]
        return B.matmul(weighted, a + B.swap(a)), B.matmul(B.swap(weighted), x)

    return f, rule


@case(two_vectors)
def outer_row(B):
    """Each entry of x times the sum of y."""
    f = lambda x, y: x * B.sum(y)
    return f, lambda dz, xs, z: (dz * B.sum(xs[1]), B.sum(dz * xs[0]) * B.ones(xs[1]))


@case(two_vectors)
def mean_squared_error(B):
    f = lambda p, t: B.sum((p - t) * (p - t)) / B.size(p)

    def rule(dz, xs, z):
        d = 2 * dz * (xs[0] - xs[1]) / B.size(xs[0])
        return d, -d

    return f, rule


@case(two_vectors)
def log_cosh(B):
    f = lambda p, t: B.sum(_softplus(B, 2 * (p - t)) - (p - t)) / B.size(p)

    def rule(dz, xs, z):
        d = dz * B.tanh(xs[0] - xs[1]) / B.size(xs[0])
        return d, -d

    return f, rule


@case(two_vectors)
def logistic_loss(B):
    f = lambda p, t: B.sum(_softplus(B, p) - p * t)
    return f, lambda dz, xs, z: (dz * (_sigmoid(B, xs[0]) - xs[1]), -dz * xs[0])


def _log_softmax(B, x):
    top = B.stop(B.max(x, -1, True))
    return x - top - B.log(B.sum(B.exp(x - top), -1, True))


@case(labelled)
def cross_entropy(B):
    f = lambda x, t: -B.sum(t * _log_softmax(B, x), -1)

    def rule(dz, xs, z):
        x, t = xs
        logs = _log_softmax(B, x)
        total = B.sum(t, -1, True)
        return dz[:, None] * (B.exp(logs) * total - t), -dz[:, None] * logs

    return f, rule


@case(two_positive, domain="positive")
def divergence(B):
    f = lambda p, q: B.sum(p * (B.log(p) - B.log(q)))
    return f, lambda dz, xs, z: (dz * (B.log(xs[0]) - B.log(xs[1]) + 1), -dz * xs[0] / xs[1])


@case(two_vectors)
def hinge(B):
    f = lambda p, t: B.maximum(1 - p * t, B.zeros(p))

    def rule(dz, xs, z):
        on = B.where(1 - xs[0] * xs[1] > 0, dz, B.zeros(dz))
        return -on * xs[1], -on * xs[0]

    return f, rule


@case(two_vectors)
def poisson(B):
    f = lambda p, t: B.sum(B.exp(p) - t * p) / B.size(p)
    return f, lambda dz, xs, z: (
        dz * (B.exp(xs[0]) - xs[1]) / B.size(xs[0]),
        -dz * xs[0] / B.size(xs[0]),
    )


@case(two_matrices)
def cosine_similarity(B):
    def f(x, y):
        return B.sum(x * y, -1) / B.sqrt(B.sum(x * x, -1) * B.sum(y * y, -1))

    def rule(dz, xs, z):
        x, y = xs
        nx, ny = B.sum(x * x, -1, True), B.sum(y * y, -1, True)
        base, z, d = B.sqrt(nx * ny), z[:, None], dz[:, None]
        return d * (y / base - z * x / nx), d * (x / base - z * y / ny)

    return f, rule


@case(two_vectors)
def stacked(B):
    return (lambda x, y: B.stack([x, y])), (lambda dz, xs, z: (dz[0], dz[1]))


@case(two_matrices)
def joined(B):
    f = lambda x, y: B.concat([x, y * y], 0)

    def rule(dz, xs, z):
        rows = B.shape(xs[0])[0]
        return dz[:rows], 2 * xs[1] * dz[rows:]

    return f, rule


@case(matrix)
def halves(B):
    """Two outputs: the first rows and the square of the others."""

    def f(x):
        rows = B.shape(x)[0] // 2
        return x[:rows], x[rows:] * x[rows:]

    def rule(dys, xs, ys):
        rows = B.shape(xs[0])[0] // 2
        return (B.concat([dys[0], 2 * dys[1] * xs[0][rows:]], 0),)

    return f, rule


@case(vector)
def every_other(B):
    """Gather with repetition: entry i and its mirror image multiplied."""

    def f(x):
        return x * B.gather(x, np.arange(B.size(x))[::-1].copy())

    return f, lambda dz, xs, z: (dz * B.flip(xs[0]) + B.flip(dz * xs[0]),)


@case(matrix)
def gathered(B):
    """Columns in another order, the last one left out."""

    def order(x):
        return np.arange(B.shape(x)[-1] - 1)[::-1].copy()

    def rule(dz, xs, z):
        back = B.flip(dz)
        return (B.concat([back, B.zeros(xs[0])[:, :1]], -1),)

    return (lambda x: B.gather(x, order(x))), rule


@case(vector)
def in_order(B):
    f = lambda x: B.gather(x, B.argsort(x))
    return f, lambda dz, xs, z: (B.gather(dz, B.argsort(B.argsort(xs[0]))),)


def _share(B, x, top):
    hit = B.where(x == top, B.ones(x), B.zeros(x))
    return hit / B.sum(hit, -1, True)


@case(matrix)
def row_maximum(B):
    f = lambda x: B.max(x, -1)
    return f, lambda dz, xs, z: (dz[:, None] * _share(B, xs[0], z[:, None]),)


@case(vector)
def pooled(B):
    """Maximum over pairs of neighbours."""

    def f(x):
        even = B.size(x) // 2 * 2
        return B.max(B.reshape(x[:even], (even // 2, 2)), -1)

    def rule(dz, xs, z):
        size = B.size(xs[0])
        even = size // 2 * 2
        pairs = B.reshape(xs[0][:even], (even // 2, 2))
        back = B.reshape(dz[:, None] * _share(B, pairs, z[:, None]), (even,))
        return (B.concat([back, B.zeros(xs[0])[: size - even]], 0),)

    return f, rule


@case(matrix)
def row_sum_of_squares(B):
    return (lambda x: B.sum(x * x, -1)), (lambda dz, xs, z: (2 * dz[:, None] * xs[0],))


@case(matrix)
def column_mean(B):
    f = lambda x: B.sum(B.sin(x), 0) / B.shape(x)[0]
    return f, lambda dz, xs, z: (dz * B.cos(xs[0]) / B.shape(xs[0])[0],)


@case(matrix)
def log_sum_exp(B):
    def f(x):
        top = B.stop(B.max(x, -1, True))
        return B.log(B.sum(B.exp(x - top), -1)) + top[:, 0]

    return f, lambda dz, xs, z: (dz[:, None] * B.exp(xs[0] - z[:, None]),)


@case(vector)
def length(B):
    return (lambda x: B.sqrt(B.sum(x * x))), (lambda dz, xs, z: (dz * xs[0] / z,))


@case(matrix)
def row_variance(B):
    def centred(x):
        return x - B.sum(x, -1, True) / B.shape(x)[-1]

    f = lambda x: B.sum(centred(x) * centred(x), -1) / B.shape(x)[-1]
    return f, lambda dz, xs, z: (2 * dz[:, None] * centred(xs[0]) / B.shape(xs[0])[-1],)


@case(matrix)
def running_sum(B):
    f = lambda x: B.cumsum(x * x)
    return f, lambda dz, xs, z: (2 * xs[0] * B.flip(B.cumsum(B.flip(dz))),)


@case(vector)
def running_mean_square(B):
    def weights(x):
        return 1 / (1 + B.cumsum(B.ones(x)))

    f = lambda x: B.sqrt(1 + B.cumsum(x * x) * weights(x))
    return f, lambda dz, xs, z: (xs[0] * B.flip(B.cumsum(B.flip(dz / z * weights(xs[0])))),)


def _softmax_cross(B):
    return lambda dz, xs, z: (dz * z * (1 - z),)


@case(matrix, cross=_softmax_cross)
def softmax(B):
    f = lambda x: B.exp(_log_softmax(B, x))
    return f, lambda dz, xs, z: (z * (dz - B.sum(dz * z, -1, True)),)


def _log_softmax_cross(B):
    return lambda dz, xs, z: (dz * (1 - B.exp(z)),)


@case(matrix, cross=_log_softmax_cross)
def log_softmax(B):
    f = lambda x: _log_softmax(B, x)
    return f, lambda dz, xs, z: (dz - B.exp(z) * B.sum(dz, -1, True),)


def _moments(B, x):
    width = B.shape(x)[-1]
    c = x - B.sum(x, -1, True) / width
    return c, B.sqrt(B.sum(c * c, -1, True) / width + 1e-3)


def _layer_norm_cross(B):
    return lambda dz, xs, z: (dz / _moments(B, xs[0])[1],)


@case(matrix, cross=_layer_norm_cross)
def layer_norm(B):
    def f(x):
        c, s = _moments(B, x)
        return c / s

    def rule(dz, xs, z):
        width = B.shape(xs[0])[-1]
        _, s = _moments(B, xs[0])
        c = f(xs[0])
        inner = dz - B.sum(dz, -1, True) / width - c * B.sum(dz * c, -1, True) / width
        return (inner / s,)

    return f, rule


def _rms(B, x):
    return B.sqrt(B.sum(x * x, -1, True) / B.shape(x)[-1] + 1e-3)


def _rms_cross(B):
    return lambda dz, xs, z: (dz / _rms(B, xs[0]),)


@case(matrix, cross=_rms_cross)
def rms_norm(B):
    f = lambda x: x / _rms(B, x)

    def rule(dz, xs, z):
        x, s = xs[0], _rms(B, xs[0])
        return (dz / s - x * B.sum(dz * x, -1, True) / (s * s * s * B.shape(x)[-1]),)

    return f, rule


def _unit_cross(B):
    return lambda dz, xs, z: (dz / B.sqrt(B.sum(xs[0] * xs[0], -1, True) + 1e-6),)


@case(matrix, cross=_unit_cross)
def unit_rows(B):
    def f(x):
        return x / B.sqrt(B.sum(x * x, -1, True) + 1e-6)

    def rule(dz, xs, z):
        x = xs[0]
        s = B.sqrt(B.sum(x * x, -1, True) + 1e-6)
        return (dz / s - x * B.sum(dz * x, -1, True) / (s * s * s),)

    return f, rule


@case(two_vectors)
def convolved(B):
    """Three taps, taken from the second input's first entries, slide over the first."""

    def f(x, k):
        return x[2:] * k[0] + x[1:-1] * k[1] + x[:-2] * k[2]

    def rule(dz, xs, z):
        x, k = xs
        pad = lambda left, right: B.concat([B.zeros(x)[:left], dz, B.zeros(x)[:right]], 0)
        dx = pad(2, 0) * k[0] + pad(1, 1) * k[1] + pad(0, 2) * k[2]
        taps = B.stack([B.sum(dz * x[2:]), B.sum(dz * x[1:-1]), B.sum(dz * x[:-2])])
        return dx, B.concat([taps, B.zeros(k)[3:]], 0)

    return f, rule


@case(vector)
def smoothed(B):
    """Each entry averaged with its left neighbour, around the ring, and squared."""

    def mean(x):
        return (x + B.roll(x)) / 2

    f = lambda x: mean(x) * mean(x)

    def rule(dz, xs, z):
        d = dz * mean(xs[0])
        return (d + B.concat([d[1:], d[:1]], 0),)

    return f, rule


@case(vector)
def sine_and_cosine(B):
    f = lambda x: (B.sin(x), B.cos(x))
    return f, lambda dys, xs, ys: (dys[0] * ys[1] - dys[1] * ys[0],)


@case(two_vectors)
def sum_and_product(B):
    f = lambda x, y: (x + y, x * y)
    return f, lambda dys, xs, ys: (dys[0] + dys[1] * xs[1], dys[0] + dys[1] * xs[0])


@case(matrix)
def centre_and_spread(B):
    def f(x):
        mean = B.sum(x, -1) / B.shape(x)[-1]
        return mean, B.sum((x - mean[:, None]) * (x - mean[:, None]), -1)

    def rule(dys, xs, ys):
        x = xs[0]
        return (dys[0][:, None] / B.shape(x)[-1] + 2 * dys[1][:, None] * (x - ys[0][:, None]),)

    return f, rule
