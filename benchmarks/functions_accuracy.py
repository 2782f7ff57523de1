"""How many units in the last place the stable functions are off, beside TensorFlow's own, against mpmath.

`python benchmarks/functions_accuracy.py` prints the table and writes it into docs/functions.md between its markers.
Points are float32 numbers over the whole range, chosen by a fixed seed, and the extremes. TensorFlow flushes subnormal
numbers to 0: a result below the smallest normal number counts as right if the other one is below it too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _measure import quiet

quiet()

import mpmath as mp
import numpy as np
import tensorflow as tf

import pullback as pb

mp.mp.dps = 60
f = pb.functions
BAR = 4.0
MANY = 2**16  # points of a graph, so that its functions are compiled units
RUNS = 25
PAGE = Path(__file__).parents[1] / "docs" / "functions.md"
MARKS = "<!-- accuracy: begin -->", "<!-- accuracy: end -->"
TINY, LARGE = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
RNG = np.random.default_rng(13)


def spread(count: int = 200, low: float = 1e-37, high: float = 3e38) -> Any:
    """Positive numbers whose logarithms are uniform."""
    return np.exp(RNG.uniform(np.log(low), np.log(high), count)).astype("f")


def signed(count: int = 200, low: float = 1e-37, high: float = 3e38) -> Any:
    return spread(count, low, high) * RNG.choice([-1, 1], count).astype("f")


@dataclass(frozen=True)
class Row:
    """A function of scalars: ours, TensorFlow's, and its value and partial derivatives by mpmath."""

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    value: Callable[..., Any]
    slopes: Sequence[Callable[..., Any]]
    points: Sequence[Any]  # one array per argument


def ulps(found: Any, true: Any) -> float:
    """The error in units of the last place of the true number."""
    if abs(true) < TINY:
        return 0.0 if abs(float(found)) <= TINY else mp.inf
    if abs(true) > LARGE:
        return 0.0 if abs(found) >= LARGE and (found > 0) == (true > 0) else mp.inf
    if not np.isfinite(found):
        return mp.inf
    exponent = int(mp.floor(mp.log(abs(true), 2)))
    return float(abs(mp.mpf(float(found)) - true) / mp.mpf(2) ** (exponent - 23))


def step(function: Callable[..., Any]) -> Callable[..., Any]:
    """A value and its gradients."""

    def run(*xs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(xs)
            y = function(*xs)
        return y, tape.gradient(y, xs)

    return run


def worst(function: Callable[..., Any], row: Row) -> tuple[float, float]:
    """The largest error of values and of gradients: eagerly, and in a graph of so many points that it has units."""
    many = [tf.constant(np.resize(p, MANY)) for p in row.points]
    runs = [step(function)(*map(tf.constant, row.points)), tf.function(step(function))(*many)]
    exact = [[mp.mpf(float(v)) for v in point] for point in zip(*row.points, strict=True)]
    values = [row.value(*p) for p in exact]
    slopes = [[s(*p) for p in exact] for s in row.slopes]
    found = [(worst_of(y, values), *map(worst_of, gs, slopes)) for y, gs in runs]
    return max(v for v, *_ in found), max(g for _, *gradients in found for g in gradients)


def worst_of(found: Any, wanted: Sequence[Any]) -> float:
    return float(max(map(ulps, found.numpy()[: len(wanted)], wanted)))


def sigmoid(z: Any) -> Any:
    return 1 / (1 + mp.exp(-z))


def softplus(z: Any) -> Any:
    return mp.log1p(mp.exp(z)) if z < 1000 else z


def pairs(*rows: Sequence[float]) -> list[Any]:
    return [np.array(r, "f") for r in zip(*rows, strict=True)]


def columns(first: Any, second: Any, *extremes: Sequence[float]) -> list[Any]:
    return [np.concatenate([c, e]) for c, e in zip((first, second), pairs(*extremes), strict=True)]


def two(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of vectors, as one of their two entries."""
    return lambda x, y: function(tf.stack([x, y], -1))


def logsumexp2(x: Any, y: Any) -> Any:
    return max(x, y) + mp.log1p(mp.exp(-abs(x - y)))


def length(x: Any, y: Any) -> Any:
    return mp.sqrt(x * x + y * y)


def over(a: Any, b: Any) -> Any:
    return a / b if b else mp.mpf(0)


Z = np.concatenate([signed(300, 1e-37, 100.0), signed(60, 100.0), [0.0, LARGE, -LARGE]]).astype("f")
SMALL = signed(300, 1e-6, 90.0)
X, Y = signed(300), signed(300)
NEAR = np.clip(X[:100] * RNG.uniform(0.1, 10.0, 100), -LARGE, LARGE).astype("f")
WIDE = columns(
    np.concatenate([X, X[:100]]),
    np.concatenate([Y, NEAR]),
    (0, 0),
    (LARGE, 0),
    (1e20, 1e20),
    (0, 1e-30),
)
LOGS = columns(SMALL, RNG.permutation(SMALL), (0, 0), (88, -10), (-80, 1.2345678), (1000, 999))
GAPS = np.concatenate([spread(200, 1e-7, 80.0), [1.0]]).astype("f")
LOWER = np.concatenate([SMALL[:200], [0.0]]).astype("f")
UPPER = LOWER + GAPS
P = np.concatenate([RNG.uniform(0, 1, 200), spread(100, 1e-37, 1.0)]).astype("f")
P = P[(P > 0) & (P < 1)]


def bce(labels: float, function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda z: function(tf.fill(tf.shape(z), labels), z)


def ours_bce(y: Any, z: Any) -> Any:
    return f.binary_cross_entropy(y, z, from_logits=True, axis=None)


def sparse(function: Callable[..., Any]) -> Callable[..., Any]:
    return two(lambda z: function(tf.zeros(tf.shape(z)[:1], tf.int32), z))


def dense(function: Callable[..., Any]) -> Callable[..., Any]:
    return two(lambda z: function(tf.one_hot(tf.zeros(tf.shape(z)[:1], tf.int32), 2), z))


def ours_sparse(y: Any, z: Any) -> Any:
    return f.sparse_categorical_cross_entropy(y, z, from_logits=True)


def ours_dense(y: Any, z: Any) -> Any:
    return f.categorical_cross_entropy(y, z, from_logits=True)


def keras_bce(y: Any, p: Any) -> Any:
    import keras

    return keras.losses.binary_crossentropy(y[:, None], p[:, None])


def focal_one(z: Any) -> Any:
    return sigmoid(-z) ** 2 * softplus(-z)


def focal_slope(z: Any) -> Any:
    q = sigmoid(-z)
    return -(q**2) * (2 * sigmoid(z) * softplus(-z) + q)


def keras_focal(y: Any, z: Any) -> Any:
    import keras

    return keras.losses.binary_focal_crossentropy(y[:, None], z[:, None], from_logits=True)


ENTROPY_SLOPES = [lambda x, y: -sigmoid(y - x), lambda x, y: sigmoid(y - x)]
ROWS = [
    Row(
        "`binary_cross_entropy`, logits, label 1",
        bce(1.0, ours_bce),
        bce(1.0, lambda y, z: tf.nn.sigmoid_cross_entropy_with_logits(y, z)),
        lambda z: softplus(-z),
        [lambda z: -sigmoid(-z)],
        [Z],
    ),
    Row(
        "`binary_cross_entropy`, probabilities, label 0",
        bce(0.0, lambda y, p: f.binary_cross_entropy(y, p, axis=None)),
        bce(0.0, keras_bce),
        lambda p: -mp.log(1 - p),
        [lambda p: 1 / (1 - p)],
        [P],
    ),
    Row(
        "`sparse_categorical_cross_entropy`",
        sparse(ours_sparse),
        sparse(lambda y, z: tf.nn.sparse_softmax_cross_entropy_with_logits(y, z)),
        lambda x, y: softplus(y - x),
        ENTROPY_SLOPES,
        LOGS,
    ),
    Row(
        "`categorical_cross_entropy`",
        dense(ours_dense),
        dense(lambda y, z: tf.nn.softmax_cross_entropy_with_logits(y, z)),
        lambda x, y: softplus(y - x),
        ENTROPY_SLOPES,
        LOGS,
    ),
    Row(
        "`binary_focal_cross_entropy`, label 1",
        bce(1.0, lambda y, z: f.binary_focal_cross_entropy(y, z, axis=None)),
        bce(1.0, keras_focal),
        focal_one,
        [focal_slope],
        [SMALL],
    ),
    Row(
        "`log1mexp`",
        f.log1mexp,
        lambda x: tf.math.log(1.0 - tf.exp(-x)),
        lambda x: mp.log(-mp.expm1(-x)),
        [lambda x: 1 / mp.expm1(x)],
        [spread(300, 1e-30, 87.0)],
    ),
    Row(
        "`log_sub_exp`",
        f.log_sub_exp,
        lambda x, y: tf.math.log(tf.exp(x) - tf.exp(y)),
        lambda x, y: x + mp.log(-mp.expm1(y - x)),
        [lambda x, y: 1 / -mp.expm1(y - x), lambda x, y: -1 / mp.expm1(x - y)],
        [UPPER[UPPER > LOWER], LOWER[UPPER > LOWER]],
    ),
    Row(
        "`logaddexp`",
        f.logaddexp,
        tf.experimental.numpy.logaddexp,
        logsumexp2,
        [lambda x, y: sigmoid(x - y), lambda x, y: sigmoid(y - x)],
        LOGS,
    ),
    Row(
        "`logsumexp`",
        two(lambda x: f.logsumexp(x, -1)),
        two(lambda x: tf.reduce_logsumexp(x, -1)),
        logsumexp2,
        [lambda x, y: sigmoid(x - y), lambda x, y: sigmoid(y - x)],
        LOGS,
    ),
    Row(
        "`norm`",
        two(lambda x: f.norm(x, axis=-1)),
        two(lambda x: tf.norm(x, axis=-1)),
        length,
        [lambda x, y: over(x, length(x, y)), lambda x, y: over(y, length(x, y))],
        WIDE,
    ),
    Row(
        "`hypot`",
        f.hypot,
        lambda x, y: tf.sqrt(x * x + y * y),
        length,
        [lambda x, y: over(x, length(x, y)), lambda x, y: over(y, length(x, y))],
        WIDE,
    ),
    Row(
        "`atan2`",
        f.atan2,
        tf.atan2,
        lambda y, x: mp.atan2(y, x) if x or y else mp.mpf(0),
        [lambda y, x: over(x, x * x + y * y), lambda y, x: -over(y, x * x + y * y)],
        WIDE,
    ),
    Row(
        "`std`",
        two(lambda x: f.std(x, -1)),
        two(lambda x: tf.math.reduce_std(x, -1)),
        lambda x, y: abs(x - y) / 2,
        [lambda x, y: mp.sign(x - y) / 2, lambda x, y: mp.sign(y - x) / 2],
        WIDE,
    ),
    Row(
        "`sqrt`",
        f.sqrt,
        tf.sqrt,
        mp.sqrt,
        [lambda x: over(mp.mpf(1) / 2, mp.sqrt(x))],
        [np.concatenate([spread(300), np.zeros(1, "f")])],
    ),
]


def seconds(function: Callable[..., Any], xs: Sequence[Any]) -> float:
    """The least CPU time of a value and a gradient, in a traced function."""
    traced = tf.function(step(function))
    traced(*xs)
    found = []
    for _ in range(RUNS):
        start = time.process_time()
        traced(*xs)
        found.append(time.process_time() - start)
    return min(found)


def ratio(row: Row) -> float:
    """Time beside TensorFlow's, on 2¹⁸ ordinary points."""
    positive = all((p >= 0).all() for p in row.points)
    xs = [
        tf.random.stateless_uniform([2**18], [i, 2], 0.01 if positive else -3.0, 0.9)
        for i in range(len(row.points))
    ]
    xs = [x + 4.0 if row.name == "`log_sub_exp`" and i == 0 else x for i, x in enumerate(xs)]
    return seconds(row.ours, xs) / seconds(row.theirs, xs)


def shown(error: float) -> str:
    if not np.isfinite(error):
        return "∞"
    return f"{error:.1f}" if error < 1000 else f"{error:.0e}"


def table() -> str:
    lines = [
        "| function | value, ulp | TensorFlow | gradient, ulp | TensorFlow | CPU time |",
        "|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        (value, slope), (other_value, other_slope) = worst(row.ours, row), worst(row.theirs, row)
        errors = " | ".join(map(shown, (value, other_value, slope, other_slope)))
        lines.append(f"| {row.name} | {errors} | {ratio(row):.2f} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    PAGE.write_text(f"{before}{MARKS[0]}\n{table()}\n{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
