"""The interval of derivatives along a line: what it says of claims that are right, wrong, or not to be decided."""

import math

import numpy as np
import pytest

from pullback.check.estimate.interval import Claim, Line, State, judge
from tests.check.fake import EPSILON

SINGLE = float(np.finfo(np.float32).eps)


def judged(curve, *claims, noise=0.0, gap=np.inf, epsilon=EPSILON):
    """The states of claims about the derivative of a curve at zero."""
    value = np.array(claims)
    size = np.full(value.size, max(1.0, abs(curve(0.0))))
    claim = Claim(
        value, np.full(value.size, gap), np.fmax(noise, epsilon * size), size, epsilon=epsilon
    )
    line = Line(lambda t: np.full(value.size, curve(t)))
    return judge(line, claim)


def states(curve, *claims, **options):
    return [State(s).name for s in judged(curve, *claims, **options).state]


def sine(t):
    return math.sin(0.7 + t)


SLOPE = math.cos(0.7)


def half_line(t):
    return math.sin(t) if t >= 0 else math.nan


def steps_down(t):
    return t / max(abs(t), 1e-12)


def shaken(t):
    """A sine that looks random in its seventh digit, and is not."""
    value = math.sin((t + 0.3) * 129898.0) * 43758.5453
    return math.sin(0.7 + t) + 1e-7 * (value - math.floor(value) - 0.5)


RIGHT = {
    "smooth": (sine, (SLOPE,)),
    "steep": (lambda t: math.exp(40 * t), (40.0,)),
    "flat": (lambda t: 3.0, (0.0,)),
    "turning": (lambda t: t * t, (0.0,)),
    "kink": (abs, (-1.0, -0.3, 0.0, 1.0)),
    "ramp": (lambda t: max(t, 0.0) + 5 * t, (5.0, 5.5, 6.0)),
    "half line": (half_line, (1.0,)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_claims_inside_are_right(name):
    curve, claims = RIGHT[name]
    assert states(curve, *claims) == ["RIGHT"] * len(claims)


WRONG = {
    "smooth": (sine, (1.0001 * SLOPE, -SLOPE, 0.0, 2.0)),
    "flat": (lambda t: 3.0, (1e-3, 1.0)),
    "turning": (lambda t: t * t, (1e-3,)),
    "kink": (abs, (-1.001, 1.001, 3.0)),
    "half line": (half_line, (2.0, 0.0)),
    "not finite": (sine, (math.nan, math.inf, -math.inf)),
    "not finite at a kink": (abs, (math.nan, math.inf)),
}


@pytest.mark.parametrize("name", WRONG)
def test_claims_outside_are_wrong(name):
    curve, claims = WRONG[name]
    assert states(curve, *claims) == ["WRONG"] * len(claims)


OPEN = {
    "infinite slope": (lambda t: math.copysign(abs(t) ** 0.5, t), (0.0, 1.0, 1e6)),
    "jump": (lambda t: float(t > 0), (0.0, 1.0, math.nan)),
    "settles below every radius": (steps_down, (1e12,)),
    "no value": (lambda t: 0.0 if t == 0 else math.nan, (0.0, 1.0, math.nan, math.inf)),
    "rounding hides it": (lambda t: 1e12 + sine(t), (SLOPE, 2 * SLOPE)),
}


@pytest.mark.parametrize("name", OPEN)
def test_where_nothing_settles_nobody_is_condemned_or_cleared(name):
    curve, claims = OPEN[name]
    assert states(curve, *claims) == ["OPEN"] * len(claims)


def test_what_noise_explains_is_left_open():
    near, far = SLOPE * (1 + 1e-5), 1.5 * SLOPE
    assert states(shaken, far, noise=1e-7) == ["WRONG"]
    assert states(shaken, near, noise=1e-7) == ["OPEN"]


def test_a_bar_that_does_not_resolve_the_gap_decides_nothing():
    claim = SLOPE * (1 + 1e-13)
    assert states(sine, claim) == ["RIGHT"]
    assert states(sine, claim, gap=1e-13) == ["OPEN"]


def test_single_precision_tells_coarse_errors_only():
    def rounded(t):
        return float(np.float32(math.sin(np.float32(0.7 + t))))

    assert states(rounded, 2 * SLOPE, epsilon=SINGLE) == ["WRONG"]
    assert "WRONG" not in states(rounded, SLOPE, SLOPE * (1 + 1e-5), epsilon=SINGLE)


def test_the_sides_of_a_kink_are_the_ends_of_the_interval():
    found = judged(lambda t: 2 * t if t > 0 else -3 * t, 0.5)
    assert found.bends.all()
    np.testing.assert_allclose([found.low[0], found.high[0]], [-3.0, 2.0], rtol=1e-9)


def test_six_further_values_decide_on_a_right_claim():
    distances = []

    def at(t):
        distances.append(t)
        return np.array([sine(t)])

    claim = Claim(
        np.array([SLOPE]), np.array([np.inf]), np.array([EPSILON]), np.array([1.0]), EPSILON
    )
    judge(Line(at), claim)
    assert len(distances) == 7
