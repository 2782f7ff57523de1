"""Findings: what was met, where, and in which numbers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis import words
from pullback.check.diagnosis.draws import Truth
from pullback.check.diagnosis.showing import shown
from pullback.check.diagnosis.shrink import Failing
from pullback.check.probe import Array, Raised, RuleFault, WrongDtype, WrongShape
from pullback.check.report import Finding, FindingKind
from pullback.check.search.points import Point
from pullback.check.verdict.course import Course
from pullback.check.verdict.record import Problem
from pullback.check.verdict.trial import Trial


def about(
    course: Course,
    problem: Problem,
    kind: FindingKind,
    inputs: Sequence[int],
    text: str,
    **more: Any,
) -> Finding:
    """A finding about some inputs, with where it was met."""
    point, leaves = problem.point, [course.subject.inputs.leaves[k] for k in inputs]
    return Finding(
        kind,
        leaves[0].path,
        words.sentence([leaf.name for leaf in leaves], text),
        point=str(point),
        made_up=point is not None and not point.is_given,
        source=course.subject.rule.source(),
        **more,
    )


def blame(course: Course, problem: Problem, order: int) -> str:
    """The engine's own operations whose gradient is wrong: the gradient itself, or what a rule is made of."""
    subject, point = course.subject, problem.point
    is_spent = subject.budget is not None and subject.budget.is_spent
    if point is None or subject.reference is not None or is_spent:
        return ""
    if not course.reads_custom():
        found = subject.wrong_operations(point.x, order)
        stopped = [name for name in found if ":" in name]  # where somebody wrote that
        if stopped:
            return f": {words.stopped(stopped[0])}"
        names = ", ".join(found)
        of = f"the engine's own gradient of {names} is wrong there, no rule of yours"
    elif order > 1:
        names = ", ".join(subject.wrong_in_rule(point.x, course.upstream))
        of = f"the engine's own gradient of {names} is wrong there, and the rule is differentiated through it"
    else:
        return ""
    return f" ({of})" if names else ""


def undetailed(course: Course, problem: Problem) -> Finding:
    """Wrong along a direction, though no entry could be told."""
    if problem.trial is None:
        return about(course, problem, "linear", [0], words.NOT_LINEAR)
    layout, numbers = course.subject.inputs, _compared(problem.trial, problem.positions[0])
    parts = [problem.trial.u[layout.span(k)] for k in range(len(layout.leaves))]
    moved = [k for k, part in enumerate(parts) if part.any()]
    if len(moved) == 1:
        text = "is wrong along a direction, by too little to name an entry"
        return about(course, problem, "term", moved, text, **numbers)
    text = "the gradient is wrong along a direction that moves all inputs, by too little to name an entry"
    return replace(about(course, problem, "term", [0], "", **numbers), path="", diagnosis=text)


def _compared(trial: Trial, entry: int) -> dict[str, float]:
    values = trial.claimed, trial.slope.value, trial.slope.error
    return dict(zip(("got", "wanted", "error"), (float(v[entry]) for v in values), strict=True))


def fault(course: Course, problem: Problem) -> Finding:
    fault = cast("RuleFault", problem.fault)
    leaf = course.subject.inputs.leaves[fault.leaf or 0]
    match fault.reason:
        case WrongShape(came):
            kind, text = "shape", words.sentence([leaf.name], words.shape(came, leaf.shape))
        case WrongDtype(came):
            text = words.sentence([leaf.name], f"is {came}, the input is {leaf.dtype}")
            kind = "dtype"
        case Raised(error):
            kind, text = "raises", f"the rule raises {error}"
    point = str(problem.point) if problem.point else ""
    return Finding(kind, leaf.path, text, point=point, source=course.subject.rule.source())


def not_finite(course: Course, problem: Problem, explain: bool) -> Finding:
    layout, entry = course.subject.inputs, int(problem.positions[0])
    x, w = cast("Point", problem.point).x, course.upstream
    which = layout.leaf_of(entry)
    span = layout.span(which)
    broken = np.array([p for p in problem.positions if span.start <= p < span.stop])
    where = _where_broken(course, x, broken, which) or f"at {broken.size} elements"
    text = f"is not finite {where}, where the function is finite and has finite slopes"
    finding = about(course, problem, "nonfinite", [which], text)
    truth = Truth(course.subject, x, w, np.array([entry]))
    return shown(course, truth, Failing(x, w, entry, np.nan), finding, explain=explain)


def _where_broken(course: Course, x: Array, broken: Array, which: int) -> str:
    """What the entries have in common: a value, or that of another input; it must matter, and nothing else."""
    layout, leaf = course.subject.inputs, course.subject.inputs.leaves[which]
    spans = [layout.span(k) for k, other in enumerate(layout.leaves) if other.shape == leaf.shape]
    twins = [broken - layout.span(which).start + span.start for span in spans]
    named = {layout.leaves[layout.leaf_of(int(twin[0]))].name: twin for twin in twins}
    claims = [(words.short(float(x[broken[0]])), broken, x[broken] == x[broken[0]])]
    claims += [
        (name, np.r_[broken, t], x[broken] == x[t])
        for name, t in named.items()
        if name != leaf.name
    ]

    def is_broken(moved: Array) -> bool:
        at = x.copy()
        at[moved] = np.where(at[moved] == 0, n.NEAR, (1 + n.NEAR) * at[moved])
        return not np.isfinite(course.subject.pull_or_nan(at, course.upstream)[1][broken]).any()

    for name, held, same in claims:
        others = np.setdiff1d(np.arange(x.size), held)
        if same.all() and is_broken(others) and not is_broken(broken):
            return f"where {leaf.name} = {name}"
    return ""


def second(course: Course, problem: Problem) -> Finding:
    trial, layout = cast("Trial", problem.trial), course.subject.inputs
    entry = int(problem.positions[0])
    finite = bool(np.isfinite(trial.claimed[problem.positions]).all())
    text = (
        "is right to first order, wrong to second: a saved tensor was detached, or the rule is not "
        "differentiable as written"
        if finite
        else "is right to first order, but its own derivative is not finite (NaN or infinite)"
    ) + blame(course, problem, 2)
    numbers, where = _compared(trial, entry), layout.element(entry)
    which = [layout.leaf_of(entry)]
    return about(course, problem, "second", which, text, entry=where, **numbers)
