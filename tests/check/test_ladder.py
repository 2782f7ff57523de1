"""Differences along a line: right to their error bars, and the bars are honest."""

import math

import numpy as np
import pytest

from pullback.check.estimate.ladder import Plan, Slope, plan_for, slopes

EPSILON = float(np.finfo(np.float64).eps)


def nothing(part) -> float:
    """No rounding beyond that of the values."""
    return 0.0


def slope(curve, plan) -> Slope:
    """The slope of one vector."""
    (found,) = slopes(lambda t: (curve(t),), plan, EPSILON, (nothing,))
    return found


CURVES = {
    "sine": (lambda t: math.sin(0.7 + t), math.cos(0.7)),
    "steep": (lambda t: math.sin(100 * (0.7 + t)), 100 * math.cos(70)),
    "offset": (lambda t: 1e8 + (0.7 + t) ** 2, 1.4),
    "tiny": (lambda t: 1e-200 * math.exp(t), 1e-200),
    "straight": (lambda t: 3 * t, 3.0),
}


@pytest.mark.parametrize(
    "plan", [plan_for(EPSILON), plan_for(EPSILON, brief=True)], ids=["accurate", "brief"]
)
@pytest.mark.parametrize("name", CURVES)
def test_the_truth_lies_within_a_few_error_bars(name, plan):
    curve, truth = CURVES[name]
    found = slope(lambda t: np.array([curve(t)]), plan)
    assert abs(found.value[0] - truth) <= 10 * found.error[0]


@pytest.mark.parametrize("name", ["sine", "tiny", "straight"])
def test_smooth_curves_are_found_to_eleven_digits(name):
    curve, truth = CURVES[name]
    found = slope(lambda t: np.array([curve(t)]), plan_for(EPSILON))
    assert found.value[0] == pytest.approx(truth, rel=1e-11)
    assert found.error[0] < 1e-10 * abs(truth)


def test_noise_widens_the_error_bar():
    rng = np.random.default_rng(0)
    noisy = slope(lambda t: np.sin(0.7 + t) + 1e-6 * rng.normal(size=1), plan_for(EPSILON))
    assert abs(noisy.value[0] - math.cos(0.7)) <= 30 * noisy.error[0]
    assert noisy.error[0] > 1e-7


def test_what_is_not_finite_has_an_infinite_error_bar():
    found = slope(lambda t: np.array([t, np.nan]), plan_for(EPSILON))
    assert np.isfinite(found.error[0])
    assert np.isinf(found.error[1])


def test_no_error_bar_of_many_is_small_by_chance():
    rng = np.random.default_rng(1)
    found = slope(
        lambda t: np.full(20_000, t) + 1e-9 * rng.normal(size=20_000),
        plan_for(EPSILON),
    )
    assert np.max(np.abs(found.value - 1) / found.error) < 200


def test_the_first_vector_decides_how_many_steps_are_taken():
    calls = []

    def line(t):
        calls.append(t)
        return np.array([t]), np.array([math.sin(1e5 * t)])

    slopes(line, Plan(1 / 64, 4, 3, 8, 1e-9), EPSILON, (nothing, nothing))
    assert len(calls) == 6


@pytest.mark.parametrize("epsilon", [2.0**-7, 2.0**-10, 2.0**-23, EPSILON])
def test_coarser_numbers_get_longer_steps(epsilon):
    assert plan_for(epsilon).first >= plan_for(EPSILON).first


def test_long_vectors_are_found_as_well_as_short_ones():
    """Beyond the sample, entries are worked out in blocks: the same numbers, whichever way."""
    rates = np.linspace(0.1, 3, 40_000)
    found = slope(lambda t: np.sin(rates * (0.7 + t)), plan_for(EPSILON))
    np.testing.assert_allclose(found.value, rates * np.cos(0.7 * rates), rtol=1e-8, atol=1e-10)
    few = slope(lambda t: np.sin(rates[::400] * (0.7 + t)), plan_for(EPSILON))
    np.testing.assert_allclose(found.value[::400], few.value, rtol=1e-9)


def test_a_brief_ladder_takes_fewer_steps():
    def steps(**options):
        taken = []

        def curve(t):
            taken.append(t)
            return np.array([math.exp(3 * t)])

        slope(curve, plan_for(EPSILON, **options))
        return len(taken)

    assert steps(brief=True) < steps()
    assert steps() <= 14
