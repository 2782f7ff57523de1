"""Noise is measured, not guessed: right rules of noisy functions pass, wrong ones do not."""

import numpy as np
import pytest

from pullback.check.course.examine import Failure
from pullback.check.measure.noise import noise_of, usual_noise
from tests.check.fake import NumpyProbe, examination, first_problem

MANY = 400
X = np.random.default_rng(2).normal(size=8)


@pytest.mark.parametrize("level", [1e-12, 1e-6, 1e-3])
def test_the_level_of_independent_errors_is_found(level):
    rng = np.random.default_rng(0)
    start = np.linspace(0.3, 2.8, MANY)
    found = noise_of(
        lambda t: np.sin(start + t) + level * rng.normal(size=MANY), np.zeros(MANY), 1e-4
    )
    assert level / 3 < np.median(found) < 10 * level
    assert found.min() > 0


def test_a_smooth_function_has_next_to_no_noise():
    start = np.linspace(0.5, 3, MANY)
    assert usual_noise(lambda t: np.sin(20 * (start + t)), np.ones(MANY), 1e-4) < 1e-14


def test_a_kink_is_no_noise():
    slopes = np.linspace(-3, 3, MANY)
    assert noise_of(lambda t: slopes * abs(t), np.ones(MANY), 1e-4).max() < 1e-14


def test_chaos_tells_nothing():
    rng = np.random.default_rng(0)
    assert np.isinf(noise_of(lambda t: rng.normal(size=MANY), np.zeros(MANY), 1e-4)).all()


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
    assert first_problem(examination(noisy(name, 1.0), seed=seed)) is None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_wrong_rules_of_noisy_functions_do_not(name):
    assert first_problem(examination(noisy(name, 1.1), seed=0)).kind is Failure.VALUE


def test_where_the_function_is_zero_noise_is_not_taken_for_infinite():
    x = np.array([0.4, -1.1, 0.7])
    probe = NumpyProbe(
        lambda a, b: [np.mean((a - b) ** 2)],
        lambda xs, ws: [ws[0] * (xs[0] - xs[1]), -2 * ws[0] * (xs[0] - xs[1]) / 3],
        [x, x],
    )
    assert first_problem(examination(probe, seed=0)).kind is Failure.VALUE
