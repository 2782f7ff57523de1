"""What a trial says of a rule: claims that differences do not confirm, once evidence for them has been looked for."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from pullback.check import numbers as n
from pullback.check.budget import Spent
from pullback.check.probe import Array
from pullback.check.verdict.intermediate import is_unsettled
from pullback.check.verdict.record import Failure, Problem
from pullback.check.verdict.resolve import resolve
from pullback.check.verdict.trial import Trial, as_one_number, as_whole, is_finite, stands_for_rule

if TYPE_CHECKING:
    from pullback.check.verdict.course import Course


def first_order(course: "Course", trial: Trial) -> Iterator[Problem]:
    """J·u from the transposed rule where it stands for what the user gets; else what the user gets."""
    if stands_for_rule(trial, course.subject):
        yield from _judged(course, as_whole(trial), Failure.VALUE)
        return
    problems = list(_judged(course, as_one_number(trial), Failure.VALUE))
    yield from problems
    if not problems and course.order > 1 and is_finite(trial):
        course.record.note(
            "right as it is, but its own derivative is not: second derivatives will be wrong"
        )


def second_order(course: "Course", trial: Trial) -> Iterator[Problem]:
    """Unless second derivatives were asked for, those at values put at a branch of the program are a note.

    So are those that nobody but the engine has a part in.
    """
    for problem in _judged(course, trial, Failure.SECOND):
        if course.is_order_asked_for or (course.reads_custom() and not trial.point.is_placed):
            yield problem
        elif trial.point.is_placed:
            course.record.note(
                f"second derivatives at {trial.point} are not those of the function (order=2 makes this a finding)"
            )
            course.second_at_placed = False
        else:
            found = course.subject.wrong_operations(trial.x, 2)
            course.record.note_second_of_engine(found)
            course.order = 1


def _judged(course: "Course", trial: Trial, kind: Failure) -> Iterator[Problem]:
    epsilon = max(course.subject.epsilon, course.subject.rule.rule_epsilon)
    suspects = trial.suspects(epsilon)
    suspects = suspects[~is_tolerated(course, trial, suspects, trial.gap[suspects])]
    known = np.isfinite(trial.rule.values) if trial.order == 1 and trial.whole else None
    if known is not None and not known.all():
        suspects = suspects[known[suspects]]
        course.open(trial.point, int((~known).sum()), "some outputs have no finite value")
    course.record.add(trial.point, trial.order)
    suspects = _within_reach(course, trial, suspects, epsilon)
    if not suspects.size:
        _told(course, trial, suspects)
        return
    # at the given arguments second derivatives that stay open cost the verdict if they were asked for
    must_settle = trial.order == 1 or (trial.point.is_given and course.is_order_asked_for)
    try:
        found = resolve(course.subject, trial, suspects, must_settle=must_settle)
    except Spent:  # nobody knows what they come to
        course.record.open_elsewhere += suspects.size
        raise
    course.record.kinks += found.at_kink.size
    wrong = found.wrong[~is_tolerated(course, trial, found.wrong, found.off)]
    bent = wrong.size and trial.point.kind.is_threshold and found.bends.all()
    if bent and not course.reads_custom():
        # which side of its kinks an engine takes is its own affair
        course.record.note(f"the engine's gradient at {trial.point} is that of neither side")
        return
    # only a rule that somebody wrote can be one for a limit: the engine differentiates what was run
    custom = bool(wrong.size) and not trial.point.is_given and course.reads_custom()
    if custom and is_unsettled(course.subject, course.start, trial.x, trial.w):
        course.record.note(
            f"an iteration inside the function does not settle at {trial.point}, as it does at the given "
            "arguments: a rule for its limit is not tested there"
        )
    elif wrong.size:
        yield Problem(kind, trial.point, trial, wrong)
    elif not found.undecided.size:
        _told(course, trial, suspects)
    elif must_settle:
        what = "derivative" if trial.order == 1 else "second derivative"
        course.open(trial.point, found.undecided.size, f"differences resolve no {what} there")


def _told(course: "Course", trial: Trial, excused: Array) -> None:
    """What was found right at the given arguments tells of inputs."""
    if trial.point.is_given and trial.order == 1:
        course.each_input.take(trial, excused)


def _within_reach(course: "Course", trial: Trial, suspects: Array, epsilon: float) -> Array:
    """At points that were made up, without what rounding hides from differences: derivatives next to nothing."""
    if trial.point.kind.is_generic or not suspects.size:
        return suspects
    hidden = trial.hidden(suspects, epsilon)
    if hidden.any() and trial.order == 1:
        course.open(trial.point, int(hidden.sum()), "")
    return suspects[~hidden]


def is_tolerated(course: "Course", trial: Trial, positions: Array, off: Array) -> Array:
    """Which entries are off by no more than was asked to be tolerated, or than the arguments are rounded by."""
    subject = course.subject
    layout = subject.inputs if trial.order > 1 else subject.outputs
    share = trial.share(positions, off, layout, with_values=subject.is_rule_rounded)
    tolerated = share <= tolerance_of(course)
    course.record.tolerated = max(course.record.tolerated, np.max(share[tolerated], initial=0.0))
    return tolerated


def tolerance_of(course: "Course") -> float:
    """The share by which gradients may be off: as asked for, or as the arguments, or the rule, are rounded."""
    rounded = max(leaf.epsilon for leaf in course.subject.inputs.leaves)
    if course.subject.is_rule_rounded:
        rounded = max(rounded, n.UNITS * course.subject.rule.rule_epsilon)
    return max(course.tolerance, rounded)
