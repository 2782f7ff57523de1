"""Every number that a verdict hangs on: changed grossly, some verdict is no longer the one that is due, or too dear.

Numbers of the ladder, of points and of what arguments suggest are held by the tests of those as well; those of the
diagnosis by its own.
"""

import numpy as np
import pytest

from pullback.check import numbers
from pullback.check.estimate import ladder
from pullback.check.probe import Facts, Leaf
from pullback.check.search import points, suggested
from pullback.check.subject import Layout
from tests.check.fake import EPSILON, NumpyProbe, course_of, first_problem
from tests.check.verdict_cases import CASES, X, sine, sine_rule

# A number, what it is changed to, and a case that does not come out as it should then.
CHANGES = [
    ("BARS", 3000.0, "one in a billion"),
    ("BARS", 0.3, "sine"),
    ("COARSE", 0.001, "sine in short numbers"),
    ("FIRST_STEP", 6 / 13, "offset"),
    ("FIRST_STEP_BRIEF", 9 / 13, "sine"),
    ("LEVELS", (1, 1), "offset"),
    ("LEVELS", (30, 30), "sine"),
    ("LEVELS_BRIEF", (1, 1), "sine"),
    ("LEVELS_BRIEF", (30, 30), "sine"),
    ("MOST_RADIUS", 1 / 2, "single"),
    ("RADII", 110, "rounded"),
    ("FINE", 3 / 4, "hinge"),
    ("RESOLVED", 30.0, "one in ten million"),
    ("NOISE_POINTS", 7, "rounded"),
    ("NOISE_POINTS", 170, "rounded"),
    ("NOISE_ORDERS", (1,), "one in ten thousand"),
    ("NOISE_SPACINGS", (1 / 2,), "cancelled"),
    ("NOISE_SPACINGS", (5 / 6,), "noisy"),
    ("NOISE_SPACINGS", (1 / 20,), "one in ten thousand"),
    ("NOISE_FACTOR", 300.0, "single"),
    ("CLAIM_MOVES", (0.02, -0.04, 0.08), "hinge"),
    ("MANY", 1, "sort"),
    ("MANY", 400, "one in ten thousand"),
    ("BALLS", (1 / 100, 1 / 200), "one in ten thousand"),
    ("LASTING", 50.0, "noisy"),
    ("KEPT", 20.0, "sort"),
    ("LASTING", 0.005, "at zero"),
    ("COARSE", 5.0, "beyond a kink"),
    ("UPSTREAM_BITS", 2, "clipped upstream"),
    ("LONG_FORMAT", 2.0**-60, "clipped upstream"),
]


@pytest.mark.parametrize("name, value, case", CHANGES)
def test_a_gross_change_is_noticed(name, value, case, monkeypatch):
    assert CASES[case].outcome() == CASES[case].due
    monkeypatch.setattr(numbers, name, value)
    assert CASES[case].outcome() != CASES[case].due


def layout(*sizes):
    return Layout([Leaf(f"args[{k}]", "xyzab"[k], (n,), "float64") for k, n in enumerate(sizes)])


def made(sizes, constants=()):
    rng = np.random.default_rng(0)
    return list(points.special(rng, layout(*sizes), rng.normal(size=sum(sizes)), constants))


def count(kind, *args):
    return sum(point.kind is kind for point in made(*args))


def test_small_inputs_get_zeros_of_either_kind():
    kind = points.Kind.ZEROS_AMONG_NEGATIVES
    assert (count(kind, (numbers.MANY,)), count(kind, (numbers.MANY + 1,))) == (2, 1)
    several, alone = [p for p in made((60,)) if p.kind is kind]
    assert np.count_nonzero(several.x == 0) > 1
    assert np.count_nonzero(alone.x == 0) == 1


def test_large_inputs_get_fewer_points():
    assert count(points.Kind.ALL_ZEROS, (1000,)) == 1
    assert count(points.Kind.ALL_ZEROS, (numbers.LARGE_INPUT + 1,)) == 0


def test_a_few_inputs_are_put_between_thresholds_one_by_one():
    kind = points.Kind.BETWEEN_THRESHOLDS
    assert count(kind, (100,), (2.0,)) == 1 + 1
    assert count(kind, (100, 100, 100, 100, 100), (2.0,)) == 1 + 3


@pytest.mark.parametrize("off, noticed", [(1e-6, True), (1e-3, False)])
def test_sums_of_one_are_those_of_single_precision(off, noticed):
    start = np.array([0.2, 0.3, 0.5 + off])
    found = suggested.suggested_by(layout(3), start, signs=False)
    assert bool(found.describe()) == noticed


def test_two_numbers_suggest_nothing():
    assert not suggested.suggested_by(layout(2), np.array([0.4, 0.6]), signs=False).describe()


def test_long_vectors_are_sampled():
    """What a sample costs is much less than the whole: the number of entries judged at every step."""
    assert ladder._sample(numbers.SHORT_VECTOR) is None
    sample = ladder._sample(100 * numbers.SHORT_VECTOR)
    assert sample is not None
    assert 1000 < sample.size < numbers.SHORT_VECTOR


@pytest.mark.parametrize("bits, verdict", [(6, "wrong"), (0, "right")])
def test_short_formats_are_tried_with_upstreams_of_other_sizes(bits, verdict, monkeypatch):
    monkeypatch.setattr(numbers, "UPSTREAM_BITS_SHORT", bits)

    def rule(xs, ws):
        return [np.clip(ws[0], -20, 20) * np.cos(xs[0])]

    single = NumpyProbe(
        lambda x: [np.sin(x).astype(np.float32).astype(float)],
        rule,
        [X],
        analytic=False,
        epsilon=2.0**-23,
    )
    problem = first_problem(course_of(single))
    assert ("wrong" if problem else "right") == verdict


def test_made_up_points_outside_the_domain_are_tried_nearer():
    def fn(x):
        return [np.where(np.max(np.abs(np.real(x))) > 4, np.nan, np.sin(x))]

    course = course_of(NumpyProbe(fn, sine_rule, [X], facts=Facts((9.0,)), analytic=False))
    assert first_problem(course) is None
    assert any(point.towards for point in course.record.points[1])


def test_the_unit_of_rounding_that_claims_are_forgiven():
    """A gradient of a few units of an output's rounding moves nothing, one of a million units does."""

    def constant(claim):
        return NumpyProbe(
            lambda x: [0 * x + 1.0], lambda xs, ws: [claim * ws[0]], [X], analytic=False
        )

    assert first_problem(course_of(constant(2 * EPSILON))) is None
    assert first_problem(course_of(constant(1e6 * EPSILON))) is not None


def test_all_is_well_as_it_stands():
    assert first_problem(course_of(NumpyProbe(sine, sine_rule, [X]))) is None
