"""The course of a check on a fake probe: the verdict that is due, by the fitting test, at every seed."""

import dataclasses
import tracemalloc

import numpy as np
import pytest

from pullback.check import numbers as n
from pullback.check.probe import (
    Facts,
    InMode,
    OutsideDomain,
    Raised,
    RuleFault,
    Unsupported,
    WrongShape,
)
from pullback.check.search.points import Kind
from pullback.check.verdict.record import Failure
from pullback.errors import CheckError
from tests.check.fake import EPSILON, NumpyProbe, course_of, first_problem, verdict_of
from tests.check.verdict_cases import CASES, X, Y, elementwise, of_sine, sine, sine_rule


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CASES)
def test_the_verdict_is_the_one_that_is_due_whatever_the_seed(name, seed):
    assert CASES[name].outcome(seed) == CASES[name].due


KINDS = {
    "nothing": Failure.VALUE,
    "added": Failure.VALUE,
    "single": Failure.VALUE,
    "clipped upstream": Failure.UPSTREAM,
    "dead upstream": Failure.UPSTREAM,
    "not a number at zero": Failure.NOT_FINITE,
    "second": Failure.SECOND,
}


@pytest.mark.parametrize("name", KINDS)
def test_wrong_rules_are_met_by_the_fitting_test(name):
    assert first_problem(course_of(CASES[name].make())).kind is KINDS[name]


# what the user gets decides


def twice(xs, us):
    return [2 * us[0] * np.cos(xs[0])]


def right_transpose(xs, us):
    return [us[0] * np.cos(xs[0])]


def test_a_wrong_transpose_of_a_right_rule_is_no_finding():
    probe = NumpyProbe(sine, sine_rule, [X], transpose=twice, analytic=False)
    course = course_of(probe)
    assert first_problem(course) is None
    assert any("second derivatives will be wrong" in note for note in course.record.notes)


def test_a_right_transpose_does_not_save_a_wrong_rule():
    """As where a rule adds something besides its upstream, which transposing loses."""
    probe = NumpyProbe(
        sine, lambda xs, ws: [ws[0] * np.cos(xs[0]) + 0.5], [X], transpose=right_transpose
    )
    problem = first_problem(course_of(probe))
    assert problem.kind in (Failure.VALUE, Failure.UPSTREAM)


def test_what_is_added_far_from_the_given_arguments_is_met_at_every_order():
    def rule(xs, ws):
        return [ws[0] * np.cos(xs[0]) + np.where(np.real(xs[0]) > 3, 0.5, 0.0)]

    probe = NumpyProbe(sine, rule, [X], transpose=right_transpose, facts=Facts((3.0,)))
    for order in (1, 2):
        assert first_problem(course_of(probe, order=order)).kind is Failure.VALUE


@pytest.mark.parametrize("transpose", [None, lambda xs, us: [np.full(xs[0].shape, np.nan)]])
def test_a_rule_that_cannot_be_transposed_is_met_by_one_number(transpose):
    options = {"transposable": False} if transpose is None else {"transpose": transpose}
    wrong = of_sine(lambda x, w, g: 1.001 * g, **options)()
    problem = first_problem(course_of(wrong))
    assert not problem.trial.whole
    assert verdict_of(of_sine(lambda x, w, g: g, **options)()) == "right"


# contract


class Stale:
    """A rule that looks at what the function saw last."""

    def __init__(self):
        self.seen = X

    def fn(self, x):
        self.seen = np.real(x)
        return [np.sin(x)]

    def rule(self, xs, ws):
        return [ws[0] * np.cos(self.seen)]


def test_shared_state_is_met_by_the_call_in_between():
    stale = Stale()
    problem = first_problem(course_of(NumpyProbe(stale.fn, stale.rule, [X]), order=1))
    assert problem.kind is Failure.STALE


@pytest.mark.parametrize("share, verdict", [(1e-13, "right"), (1e-9, "wrong")])
def test_the_size_of_the_upstream_may_change_the_rounding_only(share, verdict):
    """A gradient that grows with the logarithm of its upstream, by a share."""

    def rule(xs, ws):
        size = np.log2(np.sqrt(np.mean(ws[0] ** 2)) + 1e-300)
        return [ws[0] * np.cos(xs[0]) * (1 + share * np.round(size))]

    assert verdict_of(NumpyProbe(sine, rule, [X], transpose=right_transpose)) == verdict


def test_outputs_without_a_value_do_not_disturb_the_contract():
    probe = NumpyProbe(
        lambda x: [np.log(x), x * x],
        lambda xs, ws: [np.where(ws[0] == 0, 0, ws[0] / xs[0]) + 2 * ws[1] * xs[0]],
        [np.array([-1.0, 1.0, 2.0])],
        analytic=False,
    )
    assert verdict_of(probe) == "undecided"


def test_a_rule_that_raises_is_a_fault():
    def rule(xs, ws):
        raise RuleFault(Raised("ValueError: no"))

    assert first_problem(course_of(NumpyProbe(sine, rule, [X]))).kind is Failure.FAULT


def test_a_gradient_of_another_shape_is_a_fault():
    problem = first_problem(course_of(NumpyProbe(sine, lambda xs, ws: [np.sum(ws[0])], [X])))
    assert problem.kind is Failure.FAULT
    assert problem.fault.reason == WrongShape(())


def strict_rule(slope):
    def rule(xs, ws):
        if (np.real(xs[0]) == 0).any():
            raise RuleFault(Raised("ValueError: a zero"))
        return [ws[0] * slope(xs[0])]

    return rule


def test_a_rule_that_raises_at_a_made_up_point_where_slopes_exist_is_a_fault():
    problem = first_problem(course_of(NumpyProbe(sine, strict_rule(np.cos), [X])))
    assert problem.kind is Failure.FAULT
    assert not problem.point.is_given


def test_a_rule_that_raises_at_an_infinite_slope_is_a_note():
    probe = NumpyProbe(
        lambda x: [np.cbrt(x)],
        strict_rule(lambda x: 1 / (3 * np.cbrt(x) ** 2)),
        [X],
        analytic=False,
    )
    course = course_of(probe)
    assert first_problem(course) is None
    assert any("the rule raises at" in note for note in course.record.notes)


# a verdict must be earned


def told_of(course):
    """Why there is no verdict: reasons, or what was raised."""
    try:
        assert first_problem(course) is None
    except (OutsideDomain, CheckError) as error:
        return [str(error)]
    return course.record.reasons


@pytest.mark.parametrize("after", [1, 3, 10, 30, 60])
def test_a_function_that_begins_to_raise_is_never_right(after):
    calls = []

    def fn(x):
        calls.append(x)
        if len(calls) > after:
            raise OutsideDomain("tired")
        return [np.sin(x)]

    course = course_of(NumpyProbe(fn, sine_rule, [X], analytic=False))
    assert any("tired" in reason for reason in told_of(course))


def test_a_function_that_gives_other_values_at_the_end_is_undecided():
    counts = []

    def fn(x):
        counts.append(1)
        return [np.sin(x) + (len(counts) > 60)]

    course = course_of(NumpyProbe(fn, sine_rule, [X], analytic=False))
    first_problem(course)
    assert "the function gave other values at the end of the check" in course.record.reasons


def test_no_point_is_not_right():
    probe = NumpyProbe(lambda x: [x[:0]], lambda xs, ws: [0 * xs[0]], [X], analytic=False)
    course = course_of(probe)
    assert first_problem(course) is None
    assert "nothing could be compared at the given arguments" in course.record.reasons


def test_a_function_of_whole_numbers_only_is_undecided():
    def fn(x):
        if (np.real(x) != np.round(np.real(x))).any():
            raise OutsideDomain("whole numbers, please")
        return [2 * x]

    probe = NumpyProbe(fn, lambda xs, ws: [2 * ws[0]], [np.array([1.0, 2.0, 3.0])])
    assert verdict_of(probe) == "undecided"


def test_the_given_point_must_have_a_value():
    probe = elementwise(np.log, lambda x: 1 / x, -np.abs(X))()
    with pytest.raises(CheckError, match="no finite value at the given arguments"):
        first_problem(course_of(probe))


@pytest.mark.parametrize("seed", range(3))
def test_zero_with_slope_zero_is_decided(seed):
    """Where values vanish there is no size to compare with but that of values nearby."""
    a = np.array([0.4, -1.1, 0.7])
    probe = NumpyProbe(
        lambda x, y: [np.mean((x - y) ** 2)],
        lambda xs, ws: [2 * ws[0] * (xs[0] - xs[1]) / 3, -2 * ws[0] * (xs[0] - xs[1]) / 3],
        [a, a],
    )
    assert verdict_of(probe, seed=seed) == "right"


# points


def kinds(course):
    return {point.kind for point in course.record.points[1]}


def test_points_outside_the_domain_are_tried_part_of_the_way():
    course = course_of(CASES["logarithm"].make())
    assert first_problem(course) is None
    (point,) = [point for point in course.record.points[1] if point.kind is Kind.NEGATIVE]
    assert point.towards
    assert "part of the way" in str(point)


def test_points_outside_the_domain_even_so_are_left_out():
    def fn(x):
        if np.abs(np.real(x)).max() > 1.1 * np.abs(X).max():
            raise OutsideDomain("too large")
        return [np.sin(x)]

    course = course_of(NumpyProbe(fn, sine_rule, [X], analytic=False))
    first_problem(course)
    assert Kind.LARGE in course.record.left_out


def test_short_formats_are_not_tried_far_out():
    short = NumpyProbe(sine, sine_rule, [X], analytic=False, epsilon=2.0**-7)
    course = course_of(short)
    first_problem(course)
    assert Kind.ANOTHER in kinds(course)
    assert Kind.LARGE not in kinds(course)
    usual = course_of(CASES["sine"].make())
    first_problem(usual)
    assert {Kind.LARGE, Kind.VERY_LARGE} <= kinds(usual)


def second_order_points(facts):
    course = course_of(NumpyProbe(sine, sine_rule, [X], facts=facts))
    assert first_problem(course) is None
    return {point.kind for point in course.record.points[2]}


def test_second_order_is_tested_wherever_the_rule_branches():
    assert second_order_points(Facts(branches=False)) == {Kind.GIVEN, Kind.ANOTHER}
    found = second_order_points(Facts((3.0,)))
    assert {Kind.GIVEN, Kind.ANOTHER, Kind.ABOVE_THRESHOLDS, Kind.NEGATIVE, Kind.LARGE} <= found


def test_a_rule_detached_beyond_a_threshold_is_wrong_to_second_order():
    def rule(xs, ws):
        x = xs[0]
        return [ws[0] * np.where(np.real(x) > 3, np.cos(np.real(x)), np.cos(x))]

    probe = NumpyProbe(sine, rule, [X], facts=Facts((3.0,)))
    assert first_problem(course_of(probe)).kind is Failure.SECOND
    assert verdict_of(probe, full=False, order=1) == "right"


def test_a_second_derivative_that_is_not_a_number_is_wrong():
    def rule(xs, ws):
        x = xs[0]
        slip = 0.0 if np.isrealobj(x) else np.where(np.real(x) < 0, np.nan, 0.0) * 1j
        return [ws[0] * np.cos(x) + slip]

    assert first_problem(course_of(NumpyProbe(sine, rule, [X]))).kind is Failure.SECOND


def test_second_order_is_not_judged_where_first_order_is_open():
    def holes(x):
        return np.where(np.real(x) == np.round(np.real(x)), x * x, np.nan)

    def slope(x):
        return np.where(np.real(x) == np.round(np.real(x)), 2 * x, 0)

    assert verdict_of(elementwise(holes, slope, np.array([1.0, 2, 3]))()) == "undecided"


def test_zeros_are_moved_together_lest_the_one_moved_does_not_matter():
    def rule(xs, ws):
        slope = np.concatenate([np.cos(xs[0][:3]), 2 * xs[0][3:]])
        return [ws[0] * np.where(xs[0] == 0, 0.0, slope)]

    probe = NumpyProbe(lambda x: [np.concatenate([np.sin(x[:3]), x[3:] ** 2])], rule, [X])
    for seed in range(5):
        assert first_problem(course_of(probe, seed=seed)).kind is Failure.VALUE


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
        assert verdict_of(_row_extreme(which, 1.0), seed=seed) == "right"
        assert verdict_of(_row_extreme(which, 0.0), seed=seed) == "wrong"


def test_one_steep_entry_does_not_hide_the_others():
    x = np.append(np.abs(np.random.default_rng(1).normal(size=40)) + 0.1, 1e-30)
    probe = elementwise(np.log, lambda x: 2 / x, x, analytic=False)()
    assert verdict_of(probe, full=False) == "wrong"


# options


def test_against_compares_with_another_function():
    rounding = NumpyProbe(
        lambda x: [np.round(np.real(x))], lambda xs, ws: [ws[0]], [X], analytic=False
    )
    identity = NumpyProbe(lambda x: [x + 0.0], lambda xs, ws: [ws[0]], [X])
    assert verdict_of(rounding, truth=identity) == "right"


def test_thresholds_of_the_function_compared_with_are_looked_at():
    x = np.array([0.1, -0.2, 0.3])
    rounding = NumpyProbe(
        lambda x: [np.round(np.real(x))], lambda xs, ws: [ws[0]], [x], analytic=False
    )
    clipped = NumpyProbe(
        lambda x: [np.clip(x, -1, 1)],
        lambda xs, ws: [ws[0] * (np.abs(np.real(xs[0])) < 1)],
        [x],
        facts=Facts((1.0,)),
    )
    assert verdict_of(rounding, truth=clipped) == "wrong"


def test_a_domain_keeps_every_point_inside():
    probe = CASES["logarithm"].make()
    assert verdict_of(probe, domain="positive") == "right"
    assert (np.array(probe.visited) > 0).all()


def test_functions_of_symmetric_matrices_are_tested_within_those():
    """The rule takes the lower triangle for granted to mirror the upper one."""
    a = np.array([[2.0, 0.3], [0.3, 1.0]])
    probe = NumpyProbe(
        lambda m: [m[0, 0] * m[1, 1] - m[1, 0] ** 2],
        lambda xs, ws: [
            ws[0] * np.array([[xs[0][1, 1], -xs[0][1, 0]], [-xs[0][1, 0], xs[0][0, 0]]])
        ],
        [a],
        analytic=False,
    )
    course = course_of(probe)
    assert first_problem(course) is None
    assert "x: right for symmetric matrices, tested within those" in course.record.notes


# modes


class InAnotherMode(NumpyProbe):
    """Another way of running, which gives what it is told to."""

    answer: InMode | Unsupported | None = None
    factor = 1.0

    def in_mode(self, mode, xs, ws, us):
        if isinstance(self.answer, Unsupported):
            return self.answer
        found = [self.factor * g for g in self._ruled(xs, ws)]
        return InMode("vjp", found, self.rule_epsilon)


@pytest.mark.parametrize("units, kind", [(50, None), (1e6, Failure.MODE)])
def test_another_way_of_running_may_round_otherwise(units, kind):
    probe = InAnotherMode(sine, sine_rule, [X])
    probe.factor = 1 + units * EPSILON
    course = course_of(probe)
    problem = first_problem(course)
    assert (problem.kind if problem else None) is kind
    assert course.record.modes == ([] if kind else ["another way"])


def test_a_mode_that_cannot_be_run_is_a_note():
    probe = InAnotherMode(sine, sine_rule, [X])
    probe.answer = Unsupported("it reads variables")
    course = course_of(probe)
    assert first_problem(course) is None
    assert "another way: not run (it reads variables)" in course.record.notes


# economy


def test_a_quick_check_takes_at_most_25_calls():
    course = course_of(CASES["product"].make())
    assert first_problem(course, full=False) is None
    assert course.subject.calls <= 25


def test_a_full_check_takes_at_most_90_calls():
    course = course_of(CASES["product"].make())
    assert first_problem(course) is None
    assert course.subject.calls <= 90


def test_leaves_are_told_apart_in_the_record():
    course = course_of(NumpyProbe(sine, sine_rule, [Y]))
    first_problem(course)
    point = course.record.points[1][0]
    assert point.is_given
    assert not dataclasses.replace(point, kind=Kind.ANOTHER).is_given


def test_a_check_of_a_long_vector_lets_go_of_what_it_is_done_with():
    """The trial at the given arguments, eight vectors, is over when another point is tried."""
    x = np.random.default_rng(0).normal(size=n.LARGE_INPUT)

    def rule(xs, ws):
        return [ws[0] * np.cos(xs[0])]

    probe = NumpyProbe(sine, rule, [x], transpose=lambda xs, us: [us[0] * np.cos(xs[0])])
    tracemalloc.start()
    try:
        assert verdict_of(probe, full=False, order=1) == "right"
        most = tracemalloc.get_traced_memory()[1] / x.nbytes
    finally:
        tracemalloc.stop()
    assert most <= 21
