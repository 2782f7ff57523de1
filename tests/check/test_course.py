"""The course of a check on a fake probe: right rules pass, wrong ones are met by the fitting test."""

import numpy as np
import pytest

from pullback.check.course.examine import Failure
from pullback.check.probe import Raised, RuleFault
from pullback.check.search.points import Kind, Place
from pullback.errors import CheckError
from tests.check.fake import NumpyProbe, examination, first_problem

X = np.random.default_rng(5).normal(size=6)
Y = np.random.default_rng(6).normal(size=6)


def sine(x):
    return [np.sin(x)]


def sine_rule(xs, ws):
    return [ws[0] * np.cos(xs[0])]


RIGHT = {
    "sine": NumpyProbe(sine, sine_rule, [X]),
    "product": NumpyProbe(
        lambda x, y: [x * y, np.sum(x)],
        lambda xs, ws: [ws[0] * xs[1] + ws[1], ws[0] * xs[0]],
        [X, Y],
    ),
    "absolute": NumpyProbe(
        lambda x: [np.abs(x)], lambda xs, ws: [ws[0] * np.sign(np.real(xs[0]))], [X]
    ),
    "logarithm": NumpyProbe(lambda x: [np.log(x)], lambda xs, ws: [ws[0] / xs[0]], [np.abs(X)]),
    "largest": NumpyProbe(
        lambda x: [np.max(x)],
        lambda xs, ws: [
            ws[0]
            * (np.real(xs[0]) == np.max(np.real(xs[0])))
            / np.sum(np.real(xs[0]) == np.max(np.real(xs[0])))
        ],
        [X],
    ),
    "not transposable": NumpyProbe(sine, sine_rule, [X], transposable=False),
    "first order only": NumpyProbe(sine, sine_rule, [X], analytic=False),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", RIGHT)
def test_right_rules_pass(name, seed):
    assert first_problem(examination(RIGHT[name], seed=seed)) is None


class Stale:
    """A rule that looks at what the function saw last."""

    def __init__(self):
        self.seen = X

    def fn(self, x):
        self.seen = np.real(x)
        return [np.sin(x)]

    def rule(self, xs, ws):
        return [ws[0] * np.cos(self.seen)]


def where(condition, factor):
    def rule(xs, ws):
        x = np.real(xs[0])
        return [ws[0] * np.cos(xs[0]) * np.where(condition(x), factor, 1.0)]

    return rule


def detached_rule(xs, ws):
    return [ws[0] * np.cos(np.real(xs[0]))]


WRONG = {
    "factor": (sine, lambda xs, ws: [1.0001 * ws[0] * np.cos(xs[0])], Failure.VALUE),
    "float32": (
        sine,
        lambda xs, ws: [(ws[0] * np.cos(np.real(xs[0]))).astype(np.float32).astype(float)],
        Failure.VALUE,
    ),
    "none": (sine, lambda xs, ws: [None], Failure.VALUE),
    "added": (sine, lambda xs, ws: [ws[0] * np.cos(xs[0]) + 1.0], Failure.VALUE),
    "at zero": (sine, where(lambda x: x == 0, 2.0), Failure.VALUE),
    "large": (sine, where(lambda x: np.abs(x) > 5, 0.0), Failure.VALUE),
    "tied": (sine, where(lambda x: x == np.roll(x, 1), 2.0), Failure.VALUE),
    "stale": (Stale().fn, Stale().rule, Failure.VALUE),
    "second": (sine, detached_rule, Failure.SECOND),
    "shape": (sine, lambda xs, ws: [np.sum(ws[0])], Failure.FAULT),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rules_are_met(name):
    fn, rule, kind = WRONG[name]
    problem = first_problem(examination(NumpyProbe(fn, rule, [X])))
    assert problem is not None
    assert problem.kind is kind


def test_shared_state_is_met_by_the_call_in_between():
    stale = Stale()
    problem = first_problem(examination(NumpyProbe(stale.fn, stale.rule, [X]), order=1))
    assert problem is not None
    assert problem.kind is Failure.STALE


def test_a_wrong_rule_that_cannot_be_transposed_is_met_by_one_number():
    probe = NumpyProbe(
        sine, lambda xs, ws: [1.001 * ws[0] * np.cos(xs[0])], [X], transposable=False
    )
    problem = first_problem(examination(probe))
    assert problem is not None
    assert problem.trial is not None
    assert not problem.trial.whole


def test_against_compares_with_another_function():
    rounding = NumpyProbe(
        lambda x: [np.round(np.real(x))], lambda xs, ws: [ws[0]], [X], analytic=False
    )
    identity = NumpyProbe(lambda x: [x + 0.0], lambda xs, ws: [ws[0]], [X])
    assert first_problem(examination(rounding, truth=identity)) is None


def test_a_quick_check_takes_at_most_thirty_calls():
    exam = examination(RIGHT["sine"])
    assert first_problem(exam, full=False) is None
    assert exam.subject.calls <= 30


def test_a_full_check_takes_at_most_150_calls():
    exam = examination(RIGHT["product"])
    assert first_problem(exam) is None
    assert exam.subject.calls <= 150


def test_the_given_point_must_have_a_value():
    probe = NumpyProbe(lambda x: [np.log(x)], lambda xs, ws: [ws[0] / xs[0]], [-np.abs(X)])
    with pytest.raises(CheckError, match="no finite value at the given arguments"):
        first_problem(examination(probe))


def test_points_outside_the_domain_are_left_out():
    exam = examination(RIGHT["logarithm"])
    first_problem(exam)
    assert Place(Kind.NEGATIVE) in exam.left_out


def test_kinks_are_counted_not_blamed():
    probe = NumpyProbe(
        lambda x: [np.maximum(x, 0)], lambda xs, ws: [ws[0] * (np.real(xs[0]) > 0)], [X]
    )
    exam = examination(probe)
    assert first_problem(exam) is None
    assert exam.kinks > 0


def test_the_gradient_beyond_the_span_of_a_kink_is_wrong():
    def rule(xs, ws):
        x = np.real(xs[0])
        return [ws[0] * np.where(x == 0, 3.0, np.sign(x))]

    problem = first_problem(examination(NumpyProbe(lambda x: [np.abs(x)], rule, [X])))
    assert problem is not None
    assert problem.trial is not None
    zeros = (Kind.ZEROS_AMONG_NEGATIVES, Kind.ZEROS_AMONG_POSITIVES, Kind.ALL_ZEROS, Kind.GRID)
    assert problem.trial.point.kind in zeros


def test_a_rule_that_raises_is_a_fault():
    def rule(xs, ws):
        raise RuleFault(Raised("ValueError: no"))

    problem = first_problem(examination(NumpyProbe(sine, rule, [X])))
    assert problem is not None
    assert problem.kind is Failure.FAULT


def _row_extreme(which, at_zero):
    """The greatest or least of rows of four, with a rule that is wrong where that is zero."""

    def rule(xs, ws):
        x = np.real(xs[0]).reshape(2, 4)
        best = x == which(x, 1, keepdims=True)
        share = np.where((x == 0) & best, at_zero, 1.0) * best / best.sum(1, keepdims=True)
        return [(ws[0][:, None] * share).reshape(-1)]

    return NumpyProbe(lambda x: [which(x.reshape(2, 4), 1)], rule, [np.arange(1.0, 9) - 4.4])


@pytest.mark.parametrize("which", [np.max, np.min], ids=["greatest", "least"])
def test_a_zero_is_tried_where_it_is_the_extreme(which):
    for seed in range(5):
        assert first_problem(examination(_row_extreme(which, 1.0), seed=seed)) is None
        assert first_problem(examination(_row_extreme(which, 0.0), seed=seed)).kind is Failure.VALUE


def test_zeros_are_moved_together_lest_the_one_moved_does_not_matter():
    def rule(xs, ws):
        slope = np.concatenate([np.cos(xs[0][:3]), 2 * xs[0][3:]])
        return [ws[0] * np.where(xs[0] == 0, 0.0, slope)]

    probe = NumpyProbe(lambda x: [np.concatenate([np.sin(x[:3]), x[3:] ** 2])], rule, [X])
    for seed in range(5):
        assert first_problem(examination(probe, seed=seed)).kind is Failure.VALUE
