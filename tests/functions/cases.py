"""Each function at ordinary points, beside its formula in NumPy, of which differences give the derivative."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

import pullback as pb

f = pb.functions
STEP = 1e-3  # of long doubles, with differences of fourth order: the derivative is right to 1e-11


@dataclass(frozen=True)
class Case:
    name: str
    function: Callable[..., Any]
    formula: Callable[..., Any]
    at: Sequence[Any]
    second_order: bool = True

    def tensors(self) -> list[Any]:
        return [tf.constant(x, tf.float32) for x in self.at]

    def arrays(self) -> list[Any]:
        return [np.asarray(x, np.float32).astype(np.longdouble) for x in self.at]

    def value(self) -> Any:
        return np.asarray(self.formula(*self.arrays()), np.float64)

    def gradient(self) -> list[Any]:
        return gradient(lambda *xs: np.sum(self.formula(*xs)), self.arrays())

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


def binary(y: Any, z: Any) -> Any:
    return np.mean(y * softplus(-z) + (1 - y) * softplus(z), -1)


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
]
