"""Entries of a gradient that are small beside others: a wrong one is not seen in what all of them do together."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from pullback.check import numbers as n
from pullback.check.estimate.ladder import plan_for
from pullback.check.probe import Array
from pullback.check.search import directions
from pullback.check.search.points import Point
from pullback.check.verdict.judging import is_tolerated
from pullback.check.verdict.record import Failure, Problem
from pullback.check.verdict.resolve import resolve
from pullback.check.verdict.trial import as_one_number, as_whole, run, stands_for_rule

if TYPE_CHECKING:
    from pullback.check.verdict.course import Course


def smaller_scales(course: "Course", point: Point, u: Array) -> Iterator[Problem]:
    """At the given arguments, along the parts of a direction whose entries count alike.

    What rounding hides of them costs no verdict.
    """
    given, subject = course.given, course.subject
    if given is not None and u.size < n.LARGE_INPUT:
        w = np.where(np.isfinite(given.values), course.upstream, 0.0)
        for part in directions.of_smaller_scales(subject.inputs, u, given.r):
            if not _is_of_untested(course, u, part):
                yield from judge_part(course, point, w, part)


def _is_of_untested(course: "Course", u: Array, part: Array) -> bool:
    """Whether it moves nothing but inputs as a whole that are to be tested by themselves anyway."""
    tested, layout = course.each_input.tested, course.subject.inputs
    spans = [(k in tested, layout.span(k)) for k in range(len(layout.leaves))]
    left_out = [not part[span].any() for _, span in spans]
    whole = [np.array_equal(part[span], u[span]) for _, span in spans]
    pairs = zip(spans, left_out, whole, strict=True)
    return all(out or (not known and all_of_it) for (known, _), out, all_of_it in pairs)


def judge_part(course: "Course", point: Point, w: Array, part: Array) -> Iterator[Problem]:
    """The given arguments along a part of a direction."""
    subject = course.subject
    rule = subject.evaluate_rule(point.x, w, part, second=False)
    (trial,) = run(subject, point, part, w, rule, plan_for(subject.epsilon, brief=True))
    trial = as_whole(trial) if stands_for_rule(trial, subject) else as_one_number(trial)
    suspects = trial.suspects(subject.epsilon)
    suspects = suspects[~trial.hidden(suspects, subject.epsilon)]
    suspects = suspects[~is_tolerated(course, trial, suspects, trial.gap[suspects])]
    found = resolve(subject, trial, suspects) if suspects.size else None
    if found is not None and found.wrong.size:
        yield Problem(Failure.VALUE, point, trial, found.wrong)
    elif found is None or not found.undecided.size:
        course.each_input.take(trial, suspects)
