"""Suspects are tested again: each excuse is evidence for a class of right rules, which are called wrong without it."""

import numpy as np
import pytest

from pullback.check.verdict import resolve
from tests.check.fake import NumpyProbe, course_of, first_problem, verdict_of
from tests.check.verdict_cases import CASES, X, hinge, in_order

# The class of functions that need the excuse, by what is told of it.
NEEDED = {
    "_noise": ["noisy", "single inside", "rounded", "cancelled"],
    "_jumping": ["signed"],
    "_claim_noise": ["hinge"],
    "_neighbours": ["sort"],
    "_each_input_alone": ["hinge"],
}


def as_it_was(subject, trial, chosen, found, wrong, line):
    """No excuse."""
    return found.state[wrong]


@pytest.mark.parametrize(
    "excuse, name", [(e, name) for e, names in NEEDED.items() for name in names]
)
def test_without_the_excuse_a_right_rule_is_called_wrong(excuse, name, monkeypatch):
    assert verdict_of(CASES[name].make()) == "right"
    monkeypatch.setattr(resolve, excuse, as_it_was)
    assert verdict_of(CASES[name].make()) == "wrong"


def wronged(probe, factor):
    """The same function, with a rule that is wrong by a factor."""
    rule = probe.rule
    probe.rule = lambda xs, ws: [factor * g for g in rule(xs, ws)]
    return probe


@pytest.mark.parametrize("name", sorted({name for names in NEEDED.values() for name in names}))
def test_no_excuse_saves_a_wrong_rule_of_the_same_function(name):
    assert verdict_of(wronged(CASES[name].make(), 1.1)) == "wrong"


@pytest.mark.parametrize("start", [[1.0, 1.0, 1.0, 3.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
def test_any_order_of_equals_is_right(start):
    assert verdict_of(in_order(start)()) == "right"


def test_ties_that_get_more_than_their_share_are_wrong():
    def rule(xs, ws):
        best = np.real(xs[0]) == np.max(np.real(xs[0]))
        return [2.0 * ws[0] * best / np.sum(best) if np.sum(best) > 1 else ws[0] * best]

    probe = NumpyProbe(lambda x: [np.max(x)], rule, [np.array([1.0, 2.0, 2.0])], analytic=False)
    assert verdict_of(probe) == "wrong"


def test_noise_is_measured_once_where_the_user_is():
    course = course_of(CASES["cancelled"].make())
    first_problem(course)
    unit = course.subject.unit
    assert unit is not None
    # (1e7 + y) - 1e7 rounds y to the unit of 1e7
    assert 1e7 * 2.0**-52 / 10 < unit < 1e7 * 2.0**-52 * 10


def test_a_kink_is_counted_and_its_claim_is_inside():
    ramp = NumpyProbe(
        lambda x: [np.maximum(x, 0)], lambda xs, ws: [ws[0] * (np.real(xs[0]) > 0)], [X]
    )
    course = course_of(ramp)
    assert first_problem(course) is None
    assert course.record.kinks > 0


def test_of_very_many_suspects_the_worst_are_looked_at(monkeypatch):
    monkeypatch.setattr(resolve.n, "MOST_SUSPECTS", 2)

    def rule(xs, ws):
        g = ws[0] * np.cos(xs[0])
        return [g * np.where(np.arange(g.size) == 3, 2.0, 1.0001)]

    problem = first_problem(course_of(NumpyProbe(lambda x: [np.sin(x)], rule, [X])))
    assert problem is not None
    assert problem.positions.size == 2
    assert 3 in problem.positions


def test_labels_that_are_converted_do_not_hide_a_wrong_sign():
    probe = hinge()
    rule = probe.rule
    probe.rule = lambda xs, ws: [rule(xs, ws)[0], -rule(xs, ws)[1]]
    assert verdict_of(probe) == "wrong"
