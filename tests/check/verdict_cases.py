"""Functions and rules in NumPy, each with the verdict that is due and the number of calls that is enough for it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pullback.check.probe import Facts
from tests.check.fake import NumpyProbe, course_of, first_problem

RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=6), RNG.normal(size=6)
POSITIVE = np.abs(X) + 0.1


@dataclass(frozen=True)
class Case:
    """What is checked, how, and what is due."""

    make: Callable[[], NumpyProbe]
    verdict: str
    calls: int = 400
    options: dict[str, Any] = field(default_factory=dict)

    def outcome(self, seed: int = 0) -> tuple[str, bool]:
        """The verdict, and whether it took no more calls than it may."""
        course = course_of(self.make(), seed=seed, **self.options)
        found, record = first_problem(course), course.record
        open_given = record.open_given or record.reasons
        verdict = "wrong" if found is not None else "undecided" if open_given else "right"
        return verdict, course.subject.calls <= self.calls

    @property
    def due(self) -> tuple[str, bool]:
        """The outcome that is due."""
        return self.verdict, True


def sine(x):
    return [np.sin(x)]


def sine_rule(xs, ws):
    return [ws[0] * np.cos(xs[0])]


def of_sine(change, **options):
    """The sine, with what a change makes of its input, its upstream and the right gradient."""
    return lambda: NumpyProbe(
        sine, lambda xs, ws: [change(xs[0], ws[0], ws[0] * np.cos(xs[0]))], [X], **options
    )


def where(condition, factor):
    """A change of the gradient where a condition on the input holds."""
    return lambda x, w, g: g * np.where(condition(np.real(x)), factor, 1.0)


def single(values):
    return np.real(values).astype(np.float32).astype(float)


def elementwise(fn, slope, start, **options):
    return lambda: NumpyProbe(
        lambda x: [fn(x)], lambda xs, ws: [ws[0] * slope(xs[0])], [start], **options
    )


def largest(credit):
    """The greatest entry; ties get `credit` of their number."""

    def rule(xs, ws):
        best = np.real(xs[0]) == np.max(np.real(xs[0]))
        return [ws[0] * best / credit(np.sum(best))]

    return lambda: NumpyProbe(lambda x: [np.max(x)], rule, [X])


def in_order(start):
    """A sort whose gradient goes to the first of equals."""

    def rule(xs, ws):
        g = np.zeros(ws[0].shape, np.result_type(xs[0], ws[0]))
        g[np.argsort(np.real(xs[0]), kind="stable")] = ws[0]
        return [g]

    return lambda: NumpyProbe(lambda x: [np.sort(x)], rule, [np.array(start)])


def product():
    return NumpyProbe(
        lambda x, y: [x * y, np.sum(x)],
        lambda xs, ws: [ws[0] * xs[1] + ws[1], ws[0] * xs[0]],
        [X, Y],
    )


def converted(labels):
    """Labels of zeros and ones become those of minus and plus one, as Keras does."""
    binary = np.all((np.real(labels) == 0) | (np.real(labels) == 1))
    return (2 * labels - 1, 2.0) if binary else (labels, 1.0)


def hinge():
    def fn(labels, guess):
        margin = 1 - converted(labels)[0] * guess
        return [np.where(np.real(margin) > 0, margin, 0)]

    def rule(xs, ws):
        signs, factor = converted(xs[0])
        active = ws[0] * (np.real(1 - signs * xs[1]) > 0)
        return [-active * xs[1] * factor, -active * signs]

    return NumpyProbe(fn, rule, [np.array([1.0, -1, 1, -1]), np.array([0.3, 0.2, -0.7, 2.0])])


def signed():
    """A value and a sign that is a matter of convention, as in a decomposition; another one at zero."""

    def sign(x):
        return np.where(np.real(x) == 0, 1.0, -1.0)

    return NumpyProbe(lambda x: [sign(x), sign(x) * x], lambda xs, ws: [sign(xs[0]) * ws[1]], [X])


def shaken(x):
    """Looks random in the seventh digit, and is not."""
    value = np.sin(x * 129898.0) * 43758.5453
    return np.sin(x) + 1e-7 * (value - np.floor(value) - 0.5)


def length(at_zero):
    def rule(xs, ws):
        size = np.sqrt(np.sum(xs[0] ** 2))
        return [np.full(xs[0].shape, at_zero) if size == 0 else ws[0] * xs[0] / size]

    return lambda: NumpyProbe(lambda x: [np.sqrt(np.sum(x * x))], rule, [X])


CASES = {
    "sine": Case(of_sine(lambda x, w, g: g), "right", 120),
    "sine in short numbers": Case(
        lambda: NumpyProbe(
            lambda x: [np.sin(x).astype(np.float32).astype(float)],
            sine_rule,
            [X],
            analytic=False,
            epsilon=2.0**-23,
        ),
        "right",
    ),
    "product": Case(product, "right", 160),
    "absolute": Case(elementwise(np.abs, lambda x: np.sign(np.real(x)), X), "right", 260),
    "logarithm": Case(elementwise(np.log, lambda x: 1 / x, POSITIVE), "right", 400),
    "exponential": Case(elementwise(np.exp, np.exp, X), "right", 160),
    "steep": Case(elementwise(lambda x: np.sin(50 * x), lambda x: 50 * np.cos(50 * x), X), "right"),
    "offset": Case(elementwise(lambda x: 1e6 + np.sin(x), np.cos, X), "right", 300),
    "huge": Case(elementwise(lambda x: 1e80 * np.sin(x), lambda x: 1e80 * np.cos(x), X), "right"),
    "flat": Case(elementwise(lambda x: 0 * x + 3, lambda x: 0 * x, X), "right", 120),
    "greatest": Case(largest(lambda count: count), "right", 1500),
    "sort": Case(in_order([0.3, -1.0, 2.0, 0.7]), "right", 1500),
    "hinge": Case(hinge, "right", 2500),
    "signed": Case(signed, "right", 2500),
    "length": Case(length(0.0), "right", 700),
    "noisy": Case(elementwise(shaken, np.cos, X), "right", 1500),
    "single inside": Case(elementwise(lambda x: np.sin(single(x)), np.cos, X), "right", 1500),
    "rounded": Case(elementwise(lambda x: np.round(np.sin(x), 6), np.cos, X), "right", 1500),
    "cancelled": Case(elementwise(lambda x: (1e7 + np.sin(x)) - 1e7, np.cos, X), "right", 1500),
    "one in ten thousand": Case(of_sine(lambda x, w, g: 1.0001 * g), "wrong"),
    "one in ten million": Case(of_sine(lambda x, w, g: (1 + 1e-7) * g), "wrong", 500),
    "one in a billion": Case(of_sine(lambda x, w, g: (1 + 1e-9) * g), "wrong", 500),
    "single": Case(of_sine(lambda x, w, g: single(g), analytic=False), "wrong"),
    "nothing": Case(lambda: NumpyProbe(sine, lambda xs, ws: [None], [X]), "wrong"),
    "added": Case(of_sine(lambda x, w, g: g + 1.0), "wrong"),
    "at zero": Case(of_sine(where(lambda x: x == 0, 2.0)), "wrong"),
    "far out": Case(of_sine(where(lambda x: np.abs(x) > 5, 0.0)), "wrong"),
    "beyond a threshold": Case(
        of_sine(where(lambda x: x > 300, 0.0), facts=Facts((300.0,))), "wrong"
    ),
    "tied": Case(of_sine(where(lambda x: x == np.roll(x, 1), 2.0)), "wrong"),
    "every tie": Case(largest(lambda count: 1), "wrong", 3000),
    "clipped upstream": Case(
        of_sine(lambda x, w, g: np.clip(w, -1e3, 1e3) * np.cos(x)), "wrong", 60
    ),
    "dead upstream": Case(of_sine(lambda x, w, g: np.where(np.abs(w) > 1e-3, g, 0.0)), "wrong", 60),
    "beyond a kink": Case(
        elementwise(np.abs, lambda x: np.where(np.real(x) == 0, 1.5, np.sign(np.real(x))), X),
        "wrong",
        2000,
    ),
    "not a number at zero": Case(elementwise(lambda x: x * x, lambda x: 2 * x * x / x, X), "wrong"),
    "doubled in short numbers": Case(
        lambda: NumpyProbe(
            lambda x: [np.sin(x).astype(np.float32).astype(float)],
            lambda xs, ws: [2 * ws[0] * np.cos(xs[0])],
            [X],
            analytic=False,
            epsilon=2.0**-23,
        ),
        "wrong",
    ),
    "second": Case(of_sine(lambda x, w, g: w * np.cos(np.real(x))), "wrong"),
    "infinite slope": Case(
        elementwise(np.sqrt, lambda x: 0.5 / np.sqrt(x), np.array([0.0, 1, 2])), "undecided", 2000
    ),
}
