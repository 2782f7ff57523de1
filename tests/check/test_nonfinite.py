"""Gradients that are not finite: a finding where the function has slopes, a note or nothing decided elsewhere."""

import numpy as np
import pytest

from pullback.check.verdict.record import Failure
from tests.check.fake import NumpyProbe, course_of, first_problem, verdict_of

GENERIC = np.array([0.4, -1.0, 2.0])
AT_ZERO = np.array([0.0, -1.0, 2.0])


def elementwise(fn, slope, start):
    return NumpyProbe(
        lambda x: [fn(x)], lambda xs, ws: [ws[0] * slope(xs[0])], [start], analytic=False
    )


def vector_length(start):
    return NumpyProbe(
        lambda x: [np.sqrt(np.sum(x * x))],
        lambda xs, ws: [ws[0] * xs[0] / np.sqrt(np.sum(xs[0] ** 2))],
        [start],
        analytic=False,
    )


SMOOTH = (lambda x: x * x, lambda x: 2 * x * x / x)
KINK = (np.abs, lambda x: x / np.abs(x))
CUSP = (lambda x: np.abs(x) ** 0.5, lambda x: 0.5 * np.sign(x) / np.abs(x) ** 0.5)
ROOT = (np.cbrt, lambda x: 1 / (3 * np.cbrt(x) ** 2))
INFINITE = (lambda x: x * x, lambda x: np.where(x == 0, np.inf, 2 * x))


@pytest.mark.parametrize("case", [SMOOTH, KINK, INFINITE], ids=["smooth", "kink", "infinite"])
@pytest.mark.parametrize("start", [AT_ZERO, GENERIC], ids=["given", "made up"])
def test_one_entry_that_breaks_the_gradient_by_itself_is_a_finding(case, start):
    course = course_of(elementwise(*case, start))
    problem = first_problem(course)
    assert problem is not None
    assert problem.kind is Failure.NOT_FINITE
    assert problem.point is not None
    assert problem.point.is_given == (start is AT_ZERO)
    assert (problem.point.x[problem.positions] == 0).all()


def test_where_several_must_coincide_the_given_arguments_are_a_finding():
    problem = first_problem(course_of(vector_length(np.zeros(3))))
    assert problem is not None
    assert problem.kind is Failure.NOT_FINITE


def test_where_several_must_coincide_made_up_points_are_a_note():
    course = course_of(vector_length(GENERIC))
    assert first_problem(course) is None
    (note,) = [note for note in course.record.notes if "not finite" in note]
    assert "where several entries coincide" in note


@pytest.mark.parametrize("case", [CUSP, ROOT], ids=["cusp", "root"])
def test_where_slopes_are_infinite_no_gradient_is_wrong(case):
    assert verdict_of(elementwise(*case, GENERIC)) == "right"
    assert verdict_of(elementwise(*case, AT_ZERO)) == "undecided"


def test_where_the_function_jumps_no_gradient_is_wrong():
    angle = NumpyProbe(
        lambda y, x: [np.arctan2(y, x)],
        lambda xs, ws: [
            ws[0] * xs[1] / (xs[0] ** 2 + xs[1] ** 2),
            -ws[0] * xs[0] / (xs[0] ** 2 + xs[1] ** 2),
        ],
        [GENERIC, GENERIC[::-1]],
        analytic=False,
    )
    assert verdict_of(angle) == "right"


def test_the_rest_of_a_broken_gradient_is_judged():
    """Zero is at an infinite slope; elsewhere the rule is twice what it should be."""
    twice = elementwise(np.sqrt, lambda x: 1 / np.sqrt(x), np.array([0.0, 1.0, 2.0]))
    problem = first_problem(course_of(twice))
    assert problem is not None
    assert problem.kind is Failure.VALUE


def test_what_comes_from_outputs_without_a_value_is_nobodys_business():
    probe = NumpyProbe(
        lambda x: [np.log(x), x * x],
        lambda xs, ws: [ws[0] / xs[0] + 2 * ws[1] * xs[0]],
        [np.array([-1.0, 1.0, 2.0])],
        analytic=False,
    )
    assert verdict_of(probe) == "undecided"


def test_an_overflow_of_the_rule_where_the_function_is_finite_is_wrong():
    steep = elementwise(np.exp, lambda x: np.exp(2 * x) / np.exp(x), np.array([0.5, 400.0]))
    assert verdict_of(steep) == "wrong"
