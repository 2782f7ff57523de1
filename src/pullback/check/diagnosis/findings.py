"""Findings: what was met, where, and in which numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis import words
from pullback.check.diagnosis.draws import Truth
from pullback.check.diagnosis.showing import shown
from pullback.check.diagnosis.shrink import Failing
from pullback.check.probe import Array, Ignored, Raised, RuleFault, WrongDtype, WrongShape
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
    finding = Finding(
        kind,
        leaves[0].path,
        words.sentence([leaf.name for leaf in leaves], text),
        point=str(point),
        made_up=point is not None and not point.is_given,
        source=course.subject.rule.source(),
        paths=tuple(leaf.path for leaf in leaves),
    )
    return replace(finding, **more)


@dataclass(frozen=True)
class Blame:
    """The engine's own operations whose gradient is wrong, and what is said of them."""

    text: str = ""
    names: tuple[str, ...] = ()


def blamed(course: Course, problem: Problem, order: int) -> Blame:
    """The engine's own operations whose gradient is wrong: the gradient itself, or what a rule is made of."""
    subject, point = course.subject, problem.point
    budget = subject.rule.calls.budget
    is_spent = budget is not None and budget.is_spent
    if point is None or subject.reference is not None or is_spent:
        return Blame()
    if not course.reads_custom():
        found = subject.wrong_operations(point.x, order)
        if found.stopped:
            return Blame(f": {words.stopped(found.stopped)}")
        names, so = found.names, "no rule of yours"
    elif order > 1:
        names = subject.wrong_in_rule(point.x, course.upstream)
        so = "and the rule is differentiated through it"
    else:
        return Blame()
    of = f"the engine's own gradient of {', '.join(names)} is wrong there, {so}"
    return Blame(f" ({of})", names) if names else Blame()


def undetailed(course: Course, problem: Problem) -> Finding:
    """Wrong along a direction, though no entry could be told."""
    if problem.trial is None:
        return about(course, problem, "linear", [0], words.NOT_LINEAR)
    layout, numbers = course.subject.inputs, _compared(problem.trial, problem.positions[0])
    parts = [problem.trial.u[layout.span(k)] for k in range(len(layout.leaves))]
    moved = [k for k, part in enumerate(parts) if part.any()]
    if len(moved) == 1:
        text = words.along_a_direction(numbers["got"], numbers["wanted"])
        return about(course, problem, "term", moved, text, **numbers)
    text = "the gradient is wrong along a direction that moves all inputs, by too little to name an entry"
    finding = about(course, problem, "term", moved, "", **numbers)
    return replace(finding, path="", diagnosis=text)


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
        case Ignored(function, keyword):
            kind, text = "ignored", words.ignored(function, keyword)
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
    )
    of, numbers, where = blamed(course, problem, 2), _compared(trial, entry), layout.element(entry)
    which = [layout.leaf_of(entry)]
    finding = about(course, problem, "second", which, text, entry=where, **numbers)
    return remarked(finding, of.text, of.names)


def remarked(finding: Finding, remark: str, names: tuple[str, ...] = ()) -> Finding:
    """With words at the end for whoever wrote the rule."""
    diagnosis = finding.diagnosis + remark
    return replace(finding, diagnosis=diagnosis, remark=remark, blamed=names)
