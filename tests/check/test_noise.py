"""Noise is measured, not guessed: right rules of noisy functions pass, wrong ones do not."""

import numpy as np
import pytest

from pullback.check.estimate.interval import Line
from pullback.check.estimate.noise import noise_along, usual_unit
from pullback.check.verdict.record import Failure
from tests.check.fake import EPSILON, NumpyProbe, course_of, first_problem, verdict_of

MANY = 400
START = np.linspace(0.3, 2.8, MANY)
ONES = np.ones(MANY)
X = np.random.default_rng(2).normal(size=8)


def along(curve, size=ONES):
    return noise_along(Line(curve), size, EPSILON)


@pytest.mark.parametrize("level", [1e-12, 1e-6, 1e-3])
def test_the_level_of_independent_errors_is_found(level):
    rng = np.random.default_rng(0)
    found = along(lambda t: np.sin(START + t) + level * rng.normal(size=MANY))
    assert level / 3 < np.median(found) < 10 * level
    assert found.min() > 0


def test_a_smooth_function_has_the_rounding_of_its_format_only():
    unit = usual_unit(Line(lambda t: np.sin(20 * (START + t))), ONES, EPSILON)
    assert EPSILON / 20 < unit < 10 * EPSILON


def test_a_function_that_rounds_inside_has_that_unit():
    line = Line(lambda t: np.sin(START + t).astype(np.float32).astype(float))
    single = float(np.finfo(np.float32).eps)
    assert single / 20 < usual_unit(line, ONES, EPSILON) < 10 * single


def test_a_kink_is_no_noise():
    slopes = np.linspace(-3, 3, MANY)
    assert along(lambda t: slopes * abs(t)).max() < 1e-14


def test_what_is_steep_is_no_noise():
    assert along(lambda t: np.exp(100 * (START + t)), np.exp(100 * START)).max() < np.inf
    relative = along(lambda t: np.exp(100 * t) * ONES)
    assert relative.max() < 1e-9


def test_a_staircase_is_not_taken_for_quiet():
    found = along(lambda t: np.round(np.sin(START + t), 6))
    assert np.median(found) > 1e-7


def test_chaos_tells_nothing():
    rng = np.random.default_rng(0)
    assert np.isinf(along(lambda t: rng.normal(size=MANY))).all()


def shaken(x, size):
    """A function of `x` that looks random and is not."""
    value = np.sin(x * 129898.0) * 43758.5453
    return size * (value - np.floor(value) - 0.5)


FUNCTIONS = {
    "shaken": lambda x: np.sin(x) + shaken(x, 1e-7),
    "rounded": lambda x: np.round(np.sin(x), 6),
    "in float32": lambda x: np.sin(x.astype(np.float32)).astype(float),
    "cancelled": lambda x: (1e7 + np.sin(x)) - 1e7,
}


def noisy(name, factor):
    return NumpyProbe(
        lambda x: [FUNCTIONS[name](x)],
        lambda xs, ws: [factor * ws[0] * np.cos(xs[0])],
        [X],
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_right_rules_of_noisy_functions_pass(name, seed):
    assert verdict_of(noisy(name, 1.0), seed=seed) == "right"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_wrong_rules_of_noisy_functions_do_not(name):
    assert first_problem(course_of(noisy(name, 1.1))).kind is Failure.VALUE


def test_where_the_function_is_zero_noise_is_not_taken_for_infinite():
    x = np.array([0.4, -1.1, 0.7])
    probe = NumpyProbe(
        lambda a, b: [np.mean((a - b) ** 2)],
        lambda xs, ws: [ws[0] * (xs[0] - xs[1]), -2 * ws[0] * (xs[0] - xs[1]) / 3],
        [x, x],
    )
    assert first_problem(course_of(probe)).kind in (Failure.VALUE, Failure.SECOND)
