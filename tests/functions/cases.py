"""Each function at ordinary points, beside its formula in NumPy, of which differences give the derivative."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

import pullback as pb

f = pb.functions
STEP = 1e-3  # of long doubles, with differences of fourth order: the derivative is right to 1e-11


@dataclass(frozen=True, eq=False)
class Case:
    name: str
    function: Callable[..., Any]
    formula: Callable[..., Any]
    at: Sequence[Any]
    second_order: bool = True
    refused_in: tuple[str, ...] = ()
    domain: dict[str, Any] | None = None

    def tensors(self) -> list[Any]:
        return [tf.constant(x, tf.float32) for x in self.at]

    def arrays(self) -> list[Any]:
        return [np.asarray(x, np.float32).astype(np.longdouble) for x in self.at]

    def value(self) -> Any:
        return np.asarray(self.formula(*self.arrays()), np.float64)

    @functools.cache  # noqa: B019  # cases live as long as the tests
    def gradient(self) -> list[Any]:
        return gradient(lambda *xs: np.sum(self.formula(*xs)), self.arrays())

    @functools.cache  # noqa: B019
    def second(self) -> list[Any]:
        """The gradient of the sum of the squares of the gradient."""

        def squares(*xs: Any) -> Any:
            inner = gradient(lambda *ys: np.sum(self.formula(*ys)), xs)
            return sum(np.sum(np.square(g)) for g in inner)

        return gradient(squares, self.arrays())


def gradient(function: Callable[..., Any], xs: Sequence[Any]) -> list[Any]:
    """Central differences of fourth order, one entry after the other."""
    found = [np.zeros(x.shape, np.longdouble) for x in xs]
    for i, x in enumerate(xs):
        for place in np.ndindex(*x.shape):

            def shifted(step: float, i: int = i, x: Any = x, place: Any = place) -> Any:
                moved = x.copy()
                moved[place] += step
                return function(*xs[:i], moved, *xs[i + 1 :])

            h = STEP
            near, far = shifted(h) - shifted(-h), shifted(2 * h) - shifted(-2 * h)
            found[i][place] = (8 * near - far) / (12 * h)
    return found


def softplus(z: Any) -> Any:
    return np.log1p(np.exp(z))


def log_softmax(z: Any) -> Any:
    return z - np.log(np.sum(np.exp(z), -1, keepdims=True))


LABELS = np.array([[0.0, 1.0, 0.3], [1.0, 0.0, 0.9]])
CHOSEN = np.array([2, 0])
HOT = np.eye(3)[CHOSEN]
LOGITS = [[0.5, -1.0, 2.0], [-0.25, 1.5, 0.75]]
PROBABILITIES = [[0.2, 0.5, 0.3], [0.1, 0.6, 0.3]]
A, B = [0.3, -1.2, 2.0], [[0.7], [-0.4]]


def focal(y: Any, z: Any) -> Any:
    p = 1 / (1 + np.exp(-z))
    return -0.3 * y * (1 - p) ** 1.5 * np.log(p) - 0.7 * (1 - y) * p**1.5 * np.log(1 - p)


def symmetric(a: Any) -> Any:
    return (a + np.swapaxes(a, -1, -2)) / 2


def sqrtm(a: Any) -> Any:
    """By the iteration of Denman and Beavers, which has no eigenvalues in it."""
    y, z = symmetric(a), np.eye(len(a), dtype=np.longdouble)
    for _ in range(12):
        y, z = (y + inverse(z)) / 2, (z + inverse(y)) / 2
    return y


def inverse(a: Any) -> Any:
    """Of a 2 × 2 matrix, in long doubles, which NumPy's own does not have."""
    (p, q), (r, s) = a
    return np.array([[s, -q], [-r, p]]) / (p * s - q * r)


def exponential(a: Any) -> Any:
    total = term = np.eye(len(a), dtype=np.longdouble)
    for n in range(1, 40):
        term = term @ symmetric(a) / n
        total = total + term
    return total


def orthogonal(a: Any) -> Any:
    """By Newton's iteration."""
    u = a
    for _ in range(12):
        u = (u + inverse(u).T) / 2
    return u


WEIGHTS = np.array([[0.5, -2.0], [1.0, 0.25]])
PROJECTED = [[2.0, 0.5], [0.25, 1.0]]
TWICE = [[2.0, 0.0], [0.0, 2.0]]


def binary(y: Any, z: Any) -> Any:
    return np.mean(y * softplus(-z) + (1 - y) * softplus(z), -1)


OBLONG = np.array([[0.5, 1.0, -0.25], [1.25, -0.5, 0.75]])


def cubed(s: Any, u: Any, v: Any) -> Any:
    return tf.matmul(u * s[None] ** 3, v, transpose_b=True)


CASES = [
    Case(
        "binary cross-entropy of logits",
        lambda z: f.binary_cross_entropy(LABELS, z, from_logits=True),
        lambda z: binary(LABELS, z),
        [LOGITS],
    ),
    Case(
        "binary cross-entropy of labels too",
        lambda y, z: f.binary_cross_entropy(y, z, from_logits=True, label_smoothing=0.1),
        lambda y, z: binary(0.9 * y + 0.05, z),
        [LABELS, LOGITS],
    ),
    Case(
        "binary cross-entropy of probabilities",
        lambda p: f.binary_cross_entropy(LABELS, p, axis=None),
        lambda p: -LABELS * np.log(p) - (1 - LABELS) * np.log(1 - p),
        [PROBABILITIES],
    ),
    Case(
        "categorical cross-entropy of logits",
        lambda z: f.categorical_cross_entropy(LABELS, z, from_logits=True),
        lambda z: -np.sum(LABELS * log_softmax(z), -1),
        [LOGITS],
    ),
    Case(
        "categorical cross-entropy along another axis",
        lambda y, z: f.categorical_cross_entropy(
            y, z, from_logits=True, axis=0, label_smoothing=0.3
        ),
        lambda y, z: -np.sum((0.7 * y + 0.15) * log_softmax(z.T).T, 0),
        [LABELS, LOGITS],
    ),
    Case(
        "categorical cross-entropy of probabilities",
        lambda p: f.categorical_cross_entropy(LABELS, p),
        lambda p: -np.sum(LABELS * np.log(p), -1),
        [PROBABILITIES],
    ),
    Case(
        "sparse cross-entropy of logits",
        lambda z: f.sparse_categorical_cross_entropy(CHOSEN, z, from_logits=True),
        lambda z: -np.sum(HOT * log_softmax(z), -1),
        [LOGITS],
    ),
    Case(
        "sparse cross-entropy of probabilities",
        lambda p: f.sparse_categorical_cross_entropy(CHOSEN[:, None], p),
        lambda p: -np.sum(HOT * np.log(p), -1),
        [PROBABILITIES],
    ),
    Case("log1mexp", f.log1mexp, lambda x: np.log1p(-np.exp(-x)), [[0.2, 1.0, 5.0]]),
    Case(
        "log_sub_exp",
        f.log_sub_exp,
        lambda x, y: np.log(np.exp(x) - np.exp(y)),
        [[3.0, 1.5], [[1.0], [-0.5]]],
    ),
    Case("logaddexp", f.logaddexp, np.logaddexp, [A, B]),
    Case("logaddexp of equals", f.logaddexp, np.logaddexp, [[1.0], [1.0]]),
    Case(
        "logsumexp",
        lambda x: f.logsumexp(x, axis=(0, -1), keepdims=True),
        lambda x: np.log(np.sum(np.exp(x), keepdims=True)),
        [LOGITS],
    ),
    Case("norm", f.norm, lambda x: np.sqrt(np.sum(x * x)), [LOGITS]),
    Case(
        "norm of rows",
        lambda x: f.norm(x, axis=-1, keepdims=True),
        lambda x: np.sqrt(np.sum(x * x, -1, keepdims=True)),
        [LOGITS],
    ),
    Case("std", lambda x: f.std(x, axis=1), lambda x: np.std(x, 1), [LOGITS]),
    Case(
        "normalize",
        lambda x: f.normalize(x, axis=1),
        lambda x: x / np.sqrt(np.sum(x * x, 1, keepdims=True)),
        [LOGITS],
    ),
    Case("sqrt", f.sqrt, np.sqrt, [[0.25, 3.0]]),
    Case("hypot", f.hypot, np.hypot, [A, B]),
    Case("atan2", f.atan2, np.arctan2, [A, B]),
    Case(
        "focal loss",
        lambda y, z: f.binary_focal_cross_entropy(y, z, alpha=0.3, gamma=1.5, axis=None),
        focal,
        [LABELS, LOGITS],
    ),
    Case(
        "KL divergence",
        f.kl_divergence,
        lambda p, q: np.sum(p * np.log(p / q), -1),
        [[[0.25, 0.7, 0.05], [0.1, 0.1, 0.8]], PROBABILITIES],
        # At 0, the edge of what is defined, there is a gradient of 0 and no difference.
        domain={"y_true": "positive", "y_pred": "positive"},
    ),
    Case(
        "Gaussian NLL",
        lambda y, m, s: f.gaussian_nll(y, m, s, full=True),
        lambda y, m, s: ((y - m) / np.exp(s)) ** 2 / 2 + s + np.log(2 * np.pi) / 2,
        [A, [0.5], B],
    ),
    Case("cumprod", f.cumprod, lambda x: np.cumprod(x, 0), [[[2.0, 0.0], [0.0, 3.0], [4.0, 0.5]]]),
    Case(
        "cumprod, exclusive and reverse",
        lambda x: f.cumprod(x, axis=-1, exclusive=True, reverse=True),
        lambda x: np.stack([x[1] * x[2] * x[3], x[2] * x[3], x[3], 1 + 0 * x[3]]),
        [[2.0, 0.0, 3.0, 5.0]],
    ),
    Case(
        "safe_where",
        lambda x: f.safe_where(x > 0, tf.sqrt, lambda v: v**3, x),
        lambda x: np.where(x > 0, np.sqrt(np.abs(x)), x**3),
        [A],
    ),
    Case("sqrtm", lambda a: f.sqrtm(a) * WEIGHTS, lambda a: sqrtm(a) * WEIGHTS, [PROJECTED]),
    Case(
        "sqrtm, equal eigenvalues",
        lambda a: f.sqrtm(a) * WEIGHTS,
        lambda a: sqrtm(a) * WEIGHTS,
        [TWICE],
    ),
    Case(
        "polar",
        lambda a: f.polar(a)[0] * WEIGHTS + f.polar(a)[1],
        lambda a: orthogonal(a) * WEIGHTS + symmetric(orthogonal(a).T @ a),
        [TWICE],
    ),
    Case(
        "funm",
        lambda a: f.funm(a, tf.exp) * WEIGHTS,
        lambda a: exponential(a) * WEIGHTS,
        [PROJECTED],
    ),
    Case(
        "funm, equal eigenvalues",
        lambda a: f.funm(a, tf.exp) * WEIGHTS,
        lambda a: exponential(a) * WEIGHTS,
        [TWICE],
        second_order=False,
        refused_in=("forward mode",),
    ),
    Case(
        "eigh",
        lambda a: (
            tf.linalg.matmul(f.eigh(a)[1] * f.eigh(a)[0] ** 2, f.eigh(a)[1], transpose_b=True)
            * WEIGHTS
        ),
        lambda a: symmetric(a) @ symmetric(a) * WEIGHTS,
        [PROJECTED],
    ),
    Case(
        "svd",
        lambda a: cubed(*f.svd(a)) * OBLONG[::-1],
        lambda a: a @ a.T @ a * OBLONG[::-1],
        [OBLONG],
    ),
    Case(
        "logdet",
        lambda a: f.logdet((a + tf.linalg.matrix_transpose(a)) / 2),
        lambda a: np.log(a[0, 0] * a[1, 1] - symmetric(a)[0, 1] ** 2),
        [PROJECTED],
    ),
]
