"""Whether a rule is wrong, by differences of the function in float64: no part of the check is used."""

# ruff: noqa: ANN001, ANN201, ANN202
from __future__ import annotations

import numpy as np
import tensorflow as tf

from benchmarks.check_bench.sealed.cases import is_number

SMALL = 1e-7
COARSE = 2e-2
ROUNDING = 1e-3


def lifted(value):
    """The same in double precision."""
    if not is_number(value):
        return value
    return tf.cast(value, tf.complex128 if value.dtype.is_complex else tf.float64)


def variables_of(fn) -> list[tf.Variable]:
    return [v.value if hasattr(v, "value") else v for v in getattr(fn, "trainable_variables", [])]


def _draw(rng, like):
    draws = rng.normal(size=like.shape)
    if like.dtype.is_complex:
        draws = draws + 1j * rng.normal(size=like.shape)
    return tf.constant(draws, like.dtype)


def _dot(left, right) -> tf.Tensor:
    """The real inner product, in double precision."""
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if a is not None]
    terms = [tf.reduce_sum(tf.math.real(lifted(a) * tf.math.conj(lifted(b)))) for a, b in pairs]
    return tf.add_n(terms) if terms else tf.constant(0.0, tf.float64)


class Subject:
    """A function of its numbers: tensors in the arguments and the layer's own variables."""

    def __init__(self, fn, args) -> None:
        self.fn = fn
        self.variables = variables_of(fn)
        self.start = [tf.identity(v) for v in self.variables]
        self.coarse = bool(self.variables)
        self._place(args if self.coarse else tf.nest.map_structure(lifted, args))
        if not self.coarse and not self._runs():
            self.coarse = True
            self._place(args)

    def _place(self, args) -> None:
        self.args = args
        self.flat = tf.nest.flatten(args, expand_composites=True)
        self.at = [a for a in self.flat if is_number(a)]

    def _runs(self) -> bool:
        """Whether the function runs in double precision."""
        try:
            self.outputs(self.numbers())
        except (TypeError, ValueError, tf.errors.InvalidArgumentError):
            return False
        return True

    def numbers(self) -> list:
        return [*self.at, *self.start]

    def outputs(self, numbers) -> list:
        """The outputs that are numbers, at other numbers."""
        for variable, value in zip(self.variables, numbers[len(self.at) :], strict=True):
            variable.assign(value)
        moved = iter(numbers)
        flat = [next(moved) if is_number(a) else a for a in self.flat]
        packed = tf.nest.pack_sequence_as(self.args, flat, expand_composites=True)
        outputs = tf.nest.flatten(self.fn(*packed), expand_composites=True)
        return [out for out in outputs if is_number(out)]

    def restore(self) -> None:
        for variable, value in zip(self.variables, self.start, strict=True):
            variable.assign(value)

    def gradient(self, numbers, upstream, *, between=None) -> list:
        """What the rule gives; `between` is called after the forward pass."""
        with tf.GradientTape() as tape:
            tape.watch(numbers[: len(self.at)])
            outputs = self.outputs(numbers)
        if between is not None:
            between()
        sources = [*numbers[: len(self.at)], *self.variables]
        return tape.gradient(outputs, sources, upstream, unconnected_gradients="zero")


# The shorter ladder is for points close to a kink.
LADDERS = ((1 / 64, 5), (1 / 4096, 5))
COARSE_LADDERS = ((1 / 32, 2),)


def resolution(fn, args) -> float:
    """The gap below which nothing can be said: that of single precision where double is not to be had."""
    return COARSE if Subject(fn, args).coarse else SMALL


def extrapolated(value, first, levels) -> float:
    """The derivative of `value` at 0, by central differences and Richardson's extrapolation."""
    steps = [first / 2**k for k in range(levels)]
    rows = [[(value(h) - value(-h)) / (2 * h)] for h in steps]
    for k in range(1, levels):
        for j in range(1, k + 1):
            rows[k].append(rows[k][-1] + (rows[k][-1] - rows[k - 1][j - 1]) / (4**j - 1))
    return float(rows[-1][-1])


def _direction(rng, numbers, along):
    if along == "ones":
        return [tf.ones_like(a) for a in numbers]
    if along == "relative":
        return [a * _draw(rng, a) for a in numbers]
    return [_draw(rng, a) for a in numbers]


def _moved(numbers, along, h):
    return [a + tf.cast(h, a.dtype) * u for a, u in zip(numbers, along, strict=True)]


def gap(fn, args, *, along="random", shows="first", draws=3) -> float:
    """How far the rule is from the function, relative to what is added up; inf if not finite."""
    subject, rng, worst = Subject(fn, args), np.random.default_rng(99), 0.0
    for _ in range(draws):
        numbers = subject.numbers()
        upstream = [_draw(rng, out) for out in subject.outputs(numbers)]
        if shows == "upstream":
            upstream = [w * 2.0**20 for w in upstream]
        direction = _direction(rng, numbers, along)
        one = _second if shows == "second" else _first
        worst = max(worst, one(subject, upstream, direction, rng, shows))
        subject.restore()
    return worst


def _closest(claim, value, size, ladders=LADDERS) -> float:
    truths = [extrapolated(value, *ladder) for ladder in ladders]
    # Rounding of the differences themselves is not held against a claim of zero.
    size += ROUNDING * abs(float(value(0.0))) + 1e-300
    gaps = [abs(float(claim) - t) / (abs(t) + size) for t in truths]
    return min(g if np.isfinite(g) else np.inf for g in gaps)


def _size(gradient, direction) -> float:
    pairs = zip(gradient, direction, strict=True)
    return sum(float(tf.reduce_sum(tf.abs(lifted(g) * lifted(u)))) for g, u in pairs)


def _first(subject, upstream, direction, rng, shows) -> float:
    numbers = subject.numbers()
    other = _moved(numbers, [_draw(rng, a) for a in numbers], 0.1)
    between = (lambda: subject.outputs(other)) if shows == "stale" else None
    gradient = subject.gradient(numbers, upstream, between=between)
    return _closest(
        _dot(gradient, direction),
        lambda h: _dot(upstream, subject.outputs(_moved(numbers, direction, h))),
        _size(gradient, direction),
        COARSE_LADDERS if subject.coarse else LADDERS,
    )


def _second(subject, upstream, direction, rng, shows) -> float:
    numbers = subject.numbers()
    weights = [_draw(rng, a) for a in numbers]
    with tf.GradientTape() as tape:
        tape.watch(numbers)
        total = _dot(weights, subject.gradient(numbers, upstream))
    claimed = tape.gradient(total, numbers, unconnected_gradients="zero")
    return _closest(
        _dot(claimed, direction),
        lambda h: _dot(weights, subject.gradient(_moved(numbers, direction, h), upstream)),
        _size(claimed, direction),
    )


def outside_sides(fn, args, step=1e-6) -> float:
    """How far the gradient of any output is outside the slopes of its two sides, entry by entry."""
    subject = Subject(fn, args)
    (x,) = subject.numbers()[:1]
    rest, here = subject.numbers()[1:], subject.outputs(subject.numbers())[0]
    worst = 0.0
    for place in range(int(tf.size(x))):
        u = tf.reshape(tf.one_hot(place, int(tf.size(x)), dtype=x.dtype), x.shape)
        above = (subject.outputs([x + step * u, *rest])[0] - here) / step
        below = (here - subject.outputs([x - step * u, *rest])[0]) / step
        for out in range(int(tf.size(here))):
            w = tf.reshape(tf.one_hot(out, int(tf.size(here)), dtype=x.dtype), here.shape)
            claim = float(_dot(subject.gradient([x, *rest], [w])[:1], [u]))
            sides = [float(_dot([side], [w])) for side in (above, below)]
            worst = max(worst, min(sides) - claim, claim - max(sides))
    return worst
