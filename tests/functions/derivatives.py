"""Value, gradient and Hessian of a row of functions: by mpmath, and as TensorFlow finds them in each mode."""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import mpmath as mp
import numpy as np
import tensorflow as tf

DIGITS = 600
STEP = mp.mpf(10) ** -100  # beside an entry; of central differences, whose error is its square
DTYPES = ["float16", "bfloat16", "float32", "float64"]
Point = tuple[float, ...]


@dataclass(frozen=True)
class Known:
    """What is right where differences say nothing: at kinks and infinities."""

    at: Point
    value: Any
    gradient: Any
    hessian: Any

    def is_finite(self) -> bool:
        """Whether all of it is a number."""
        parts = (self.at, self.value, self.gradient, self.hessian)
        return all(mp.isfinite(v) for p in parts for v in np.ravel(np.asarray(p, object)))


@dataclass(frozen=True, eq=False)
class Row:
    """A function of one example, given a batch of points: every entry of its arguments is an entry of a point."""

    name: str
    function: Callable[..., Any]
    formula: Callable[..., Any]  # of all entries, by mpmath: a number or a list
    points: Sequence[Point]
    shapes: Sequence[tuple[int, ...]] = ((),)
    weights: Any = 1.0  # of the outputs, in what is differentiated
    known: Sequence[Known] = ()
    # Errors are counted in the last place of the entry, or of the largest entry beside it, where sums have to cancel.
    of_largest: bool = False
    dtypes: Sequence[str] = field(default_factory=lambda: DTYPES)
    bar: float = 4.0
    forward: bool = True
    bar_of_float64: float = 4.0  # which has no wider format to compute in

    def wanted(self, dtype: str) -> list[Known]:
        """The points that this dtype has, with their derivatives."""
        exact = [self.by_differences(p) for p in map(rounder(dtype), self.points) if p]
        return exact + [k for k in self.known if rounder(dtype)(k.at) == k.at]

    @functools.cache  # noqa: B019  # rows live as long as the tests
    def by_differences(self, at: Point) -> Known:
        with mp.workdps(DIGITS):
            return _differences(self, at)


def rounder(dtype: str) -> Callable[[Point], Point | None]:
    """Points as this dtype has them; `None` where an entry leaves its range, or two become one."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))

    def rounded(at: Point) -> Point | None:
        with np.errstate(over="ignore"):
            found = np.array(at, np.float64).astype(kind)
        tiny = float(ml_dtypes.finfo(kind).tiny)
        fits = [
            bool(np.isfinite(f) == np.isfinite(a)) and (a == 0 or abs(f) >= tiny)
            for f, a in zip(found.astype(np.float64), at, strict=True)
        ]
        if len(set(found.tolist())) < len(set(at)) or not all(fits):
            return None
        return tuple(found.astype(np.float64).tolist())

    return rounded


def _differences(row: Row, at: Point) -> Known:
    sizes = [abs(x) for x in at if x]
    steps = [STEP * mp.mpf(abs(x) or min(sizes, default=1.0)) for x in at]

    @functools.cache
    def value(moves: tuple[int, ...]) -> list[Any]:
        entries = [mp.mpf(x) + k * h for x, k, h in zip(at, moves, steps, strict=True)]
        found = row.formula(*entries)
        return found if isinstance(found, list) else [found]

    def total(*moves: tuple[int, int]) -> Any:
        now = [0] * len(at)
        for i, k in moves:
            now[i] += k
        weights = np.broadcast_to(row.weights, len(value(tuple(now))))
        return mp.fsum(
            mp.mpf(float(w)) * v for w, v in zip(weights, value(tuple(now)), strict=True)
        )

    n = range(len(at))
    gradient = [(total((i, 1)) - total((i, -1))) / (2 * steps[i]) for i in n]
    hessian: Any = [
        [
            mp.fsum(a * b * total((i, a), (j, b)) for a in (1, -1) for b in (1, -1))
            / (4 * steps[i] * steps[j])
            for j in n
        ]
        for i in n
    ]
    # What is left of zeros.
    least = max((abs(h) for row in hessian for h in row), default=0) * mp.mpf(10) ** -150
    hessian = [[h if abs(h) > least else mp.mpf(0) for h in row] for row in hessian]
    gradient = [g if abs(g) > least else mp.mpf(0) for g in gradient]
    return Known(at, value((0,) * len(at)), gradient, hessian)


def ulps(found: Any, wanted: Any, dtype: str, of_largest: bool = False) -> Any:
    """Errors in units of the last place. What leaves the range of the dtype is to be infinite, or 0."""
    limits = ml_dtypes.finfo(dtype)
    tiny, most, eps = (mp.mpf(float(v)) for v in (limits.tiny, limits.max, limits.eps))
    wanted = [mp.mpf(w) for w in np.ravel(np.asarray(wanted, object))]
    found = np.ravel(np.asarray(found, np.float64)).tolist()
    largest = max((abs(w) for w in wanted if mp.isfinite(w)), default=mp.mpf(0))
    assert len(found) == len(wanted), (found, wanted)

    def error(f: float, w: Any) -> float:
        if mp.isnan(w):
            return 0.0 if np.isnan(f) else np.inf
        size = max(largest, abs(w)) if of_largest and mp.isfinite(w) else abs(w)
        if size < tiny:
            return 0.0 if abs(f) <= tiny else np.inf
        if abs(w) > most * (1 - 4 * eps):
            return 0.0 if abs(f) >= most * (1 - 4 * eps) and (f > 0) == (w > 0) else np.inf
        if not np.isfinite(f):
            return np.inf
        unit = eps * mp.mpf(2) ** int(mp.floor(mp.log(size, 2)))
        # Below the normal numbers, units are no smaller.
        return float(abs(mp.mpf(f) - w) / max(unit, tiny * eps))

    return np.array([error(f, w) for f, w in zip(found, wanted, strict=True)])


def arguments(row: Row, wanted: Sequence[Known], dtype: str) -> list[Any]:
    table = np.array([k.at for k in wanted], np.float64).reshape(len(wanted), -1)
    sizes = [int(np.prod(s)) for s in row.shapes]
    columns = np.split(table, np.cumsum(sizes)[:-1], axis=1)
    return [
        tf.cast(tf.constant(c.reshape(-1, *s)), dtype)
        for c, s in zip(columns, row.shapes, strict=True)
    ]


def first_order(row: Row, xs: Sequence[Any]) -> tuple[Any, Any]:
    """The values of a batch, and the gradients of the weighted sum with one column for each entry of the arguments."""
    with tf.GradientTape() as tape:
        tape.watch(xs)
        y = row.function(*xs)
    weights = tf.broadcast_to(tf.cast(row.weights, y.dtype), tf.shape(y))
    return y, tape.gradient(y, xs, output_gradients=weights)


def joined(found: Sequence[Any], xs: Sequence[Any]) -> Any:
    flat = [
        tf.reshape(tf.zeros_like(x) if g is None else tf.convert_to_tensor(g), [tf.shape(x)[0], -1])
        for g, x in zip(found, xs, strict=True)
    ]
    return tf.concat(flat, 1)


def reverse_over_reverse(row: Row, xs: Sequence[Any]) -> list[Any]:
    """Values, gradients and Hessians of a batch."""
    entries = sum(int(np.prod(s)) for s in row.shapes)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(xs)
        y, found = first_order(row, xs)
        gradients = joined(found, xs)
        columns = [tf.reduce_sum(gradients[:, i]) for i in range(entries)]
    rows = [joined(tape.gradient(c, xs), xs) for c in columns]
    return [y, gradients, tf.stack(rows, 1)]


def forward_over_reverse(row: Row, xs: Sequence[Any]) -> list[Any]:
    rows = []
    for k, x in enumerate(xs):
        for place in np.ndindex(*row.shapes[k]):
            unit = np.zeros(x.shape)
            unit[(slice(None), *place)] = 1.0
            tangents = [
                tf.cast(unit, x.dtype) if i == k else tf.zeros_like(v) for i, v in enumerate(xs)
            ]
            with tf.autodiff.ForwardAccumulator(list(xs), tangents) as accumulator:
                y, found = first_order(row, xs)
                gradients = joined(found, xs)
            pushed = accumulator.jvp(gradients, tf.UnconnectedGradients.ZERO)
            rows.append(pushed)
    return [y, gradients, tf.stack(rows, 1)]


def mapped(row: Row, xs: Sequence[Any]) -> list[Any]:
    def one(x: Any) -> list[Any]:
        return [v[0] for v in reverse_over_reverse(row, [v[None] for v in x])]

    return tf.vectorized_map(one, list(xs))


def in_function(**options: Any) -> Callable[..., list[Any]]:
    def run(row: Row, xs: Sequence[Any]) -> list[Any]:
        return tf.function(lambda *args: reverse_over_reverse(row, args), **options)(*xs)

    return run


FORWARD = {"forward over reverse"}
MOST_FORWARD = 2  # points: each rule is tried there, which takes time
WAYS = {
    "eager": reverse_over_reverse,
    "forward over reverse": forward_over_reverse,
    "graph": in_function(),
    "XLA": in_function(jit_compile=True),
    "vectorized_map": mapped,
}


def errors(row: Row, dtype: str, way: str) -> Iterator[tuple[str, Point, Any, Any, Any]]:
    """What is off by more than the bar: which derivative, where, what came, what was wanted, and by how much."""
    wanted = row.wanted(dtype)
    if way in FORWARD:
        # A tangent of 0 times an infinite slope is NaN there.
        wanted = [k for k in wanted if k.is_finite() and row.forward][-MOST_FORWARD:]
    if not wanted:
        return
    xs = arguments(row, wanted, dtype)
    found = [tf.cast(v, tf.float64).numpy() for v in WAYS[way](row, xs)]
    bar = row.bar_of_float64 if dtype == "float64" else row.bar
    # To transpose a rule is to differentiate its formula.
    of_largest = row.of_largest or way in FORWARD
    for i, k in enumerate(wanted):
        for what, f in zip(("value", "gradient", "hessian"), found, strict=True):
            w = getattr(k, what)
            off = ulps(f[i], w, dtype, of_largest)
            if np.max(off, initial=0.0) > bar:
                shown = [float(v) for v in np.ravel(np.asarray(w, object))]
                yield what, k.at, np.ravel(f[i]).tolist(), shown, float(np.max(off))
