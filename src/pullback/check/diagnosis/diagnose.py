"""From a problem to findings: which inputs, which element in numbers, and the first explanation that is confirmed."""

from dataclasses import replace

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis import changed, conditions, factors, parts, whole, words
from pullback.check.diagnosis.draws import Draw, Draws, Truth, make_draws
from pullback.check.diagnosis.explanations import Case, Search, first_that_holds
from pullback.check.diagnosis.showing import shown
from pullback.check.diagnosis.shrink import Failing
from pullback.check.probe import Array, Raised, WrongDtype, WrongShape
from pullback.check.report import Finding
from pullback.check.verdict.course import Course
from pullback.check.verdict.record import Failure, Problem

# The plain before the complex.
SEARCHES: tuple[Search, ...] = (
    whole.zero,
    whole.upstream_unused,
    whole.constant_factor,
    whole.anothers,
    parts.by_output,
    parts.regions,
    whole.rounded,
    whole.rearranged,
    whole.passed_through,
    whole.moving_factor,
    factors.element_by_element,
    conditions.conditions,
    parts.by_position_of_output,
    changed.upstream,
    changed.saved_input,
    factors.instead_of_derivative,
    whole.added_term,
)


def diagnose(course: Course, problem: Problem, *, explain: bool) -> tuple[Finding, ...]:
    """What is wrong, as findings: at least one."""
    plain = {
        Failure.FAULT: _fault,
        Failure.STALE: _stale,
        Failure.UPSTREAM: _upstream,
        Failure.NOT_FINITE: _not_finite,
        Failure.SECOND: _second,
        Failure.MODE: _mode,
    }
    if problem.kind in plain:
        finding = plain[problem.kind](course, problem)
        if problem.kind is Failure.NOT_FINITE:
            finding = _shown_not_finite(course, problem, finding, explain)
        return (finding,)
    return _values(course, problem, explain)


def _values(course: Course, problem: Problem, explain: bool) -> tuple[Finding, ...]:
    """Each input whose gradient is wrong."""
    subject, trial = course.subject, problem.trial
    assert trial is not None and problem.point is not None
    draws = make_draws(
        subject,
        problem.point,
        trial.w,
        course.start,
        course.other_points(),
        _suspect_entries(course, problem),
    )
    wrong = [k for k in range(len(subject.inputs.leaves)) if _is_wrong(course, draws, k)]
    findings = [_of_input(course, problem, draws, k, explain) for k in wrong]
    merged = _together(course, draws, wrong, findings) if explain else findings
    # an input without gradient may be meant so: what is wrong otherwise comes first
    merged.sort(key=lambda finding: finding.kind == "none")
    return tuple(merged) or (_undetailed(course, problem),)


def _suspect_entries(course: Course, problem: Problem) -> Array:
    """Entries of the input that may be wrong: those of the output, where they correspond."""
    same = course.subject.inputs.size == course.subject.outputs.size
    return (
        problem.positions
        if same and problem.trial is not None and problem.trial.whole
        else np.empty(0, int)
    )


def _is_wrong(course: Course, draws: Draws, which: int) -> bool:
    span = course.subject.inputs.span(which)
    return any((draw.gap[span] > 0).any() for draw in draws.fit)


def _of_input(course: Course, problem: Problem, draws: Draws, which: int, explain: bool) -> Finding:
    given = course.given
    none = given is not None and which in given.none
    case = Case(course.subject, draws, which, none, course.facts.constants)
    draw = max(draws.fit, key=lambda d: float(np.max(d.gap[case.span])))
    entry = case.span.start + int(np.argmax(draw.gap[case.span]))
    found, tried = first_that_holds(case, SEARCHES) if explain else (None, 0)
    kind, text = (found.kind, found.text) if found else ("term", _unexplained(case, draw, tried))
    finding = Finding(
        kind,
        course.subject.inputs.leaves[which].path,
        text,
        point=str(problem.point),
        made_up=_is_made_up(problem),
        source=course.subject.rule.source(),
    )
    numbers = (float(v[entry]) for v in (draw.r, draw.g, draw.floor))
    failing = Failing(draw.x, draw.w, entry, *numbers)
    return shown(course, draws.truth, failing, finding, explain=explain)


def _is_made_up(problem: Problem) -> bool:
    return problem.point is not None and not problem.point.is_given


def _unexplained(case: Case, draw: Draw, tried: int) -> str:
    g, r = case.g(draw), case.r(draw)
    known = np.isfinite(g) & np.isfinite(r)
    size = float(np.sqrt(np.sum(g[known] ** 2)))
    gap = float(np.sqrt(np.sum((r - g)[known] ** 2)))
    wrong = case.wrong(draw)
    share = gap / size if size else np.inf
    return words.unexplained(case.name, share, int(wrong.sum()), int(known.sum()), tried)


def _together(
    course: Course, draws: Draws, wrong: list[int], findings: list[Finding]
) -> list[Finding]:
    """Two gradients in each other's place are one finding."""
    layout = course.subject.inputs
    for a in wrong:
        for b in wrong:
            if a < b and layout.leaves[a].shape == layout.leaves[b].shape:
                crossed = all(
                    np.allclose(d.r[layout.span(a)], d.g[layout.span(b)], n.AGREE, 0)
                    and np.allclose(d.r[layout.span(b)], d.g[layout.span(a)], n.AGREE, 0)
                    for d in draws.tested
                )
                if crossed:
                    text = words.swapped(layout.leaves[a].name, layout.leaves[b].name)
                    rest = [f for k, f in zip(wrong, findings, strict=True) if k not in (a, b)]
                    return [
                        replace(findings[wrong.index(a)], kind="swapped", diagnosis=text),
                        *rest,
                    ]
    return findings


def _undetailed(course: Course, problem: Problem) -> Finding:
    """Wrong along a direction, though no entry could be told."""
    trial, judgement = problem.trial, problem.judgement
    assert trial is not None and judgement is not None
    got = float(trial.claimed[problem.positions[0]])
    return Finding(
        "term",
        "",
        "the gradient is wrong along a direction that moves all inputs, by too little to name an entry",
        got=got,
        wanted=float(trial.slope.value[problem.positions[0]]),
        error=float(trial.slope.error[problem.positions[0]]),
        point=str(problem.point),
        made_up=_is_made_up(problem),
        source=course.subject.rule.source(),
    )


def _fault(course: Course, problem: Problem) -> Finding:
    fault = problem.fault
    assert fault is not None
    leaves, which = course.subject.inputs.leaves, fault.leaf or 0
    match fault.reason:
        case WrongShape(came):
            kind, text = "shape", words.shape(leaves[which].name, came, leaves[which].shape)
        case WrongDtype(came):
            kind, text = (
                "dtype",
                f"the gradient for `{leaves[which].name}` is {came}, the input is {leaves[which].dtype}",
            )
        case Raised(error):
            kind, text = "raises", f"the rule raises {error}"
    point = str(problem.point) if problem.point else ""
    return Finding(kind, leaves[which].path, text, point=point, source=course.subject.rule.source())


def _stale(course: Course, problem: Problem) -> Finding:
    path = course.subject.inputs.leaves[0].path
    return Finding(
        "stale", path, words.STALE, point=str(problem.point), source=course.subject.rule.source()
    )


def _upstream(course: Course, problem: Problem) -> Finding:
    path = course.subject.inputs.leaves[0].path
    return Finding(
        "linear",
        path,
        words.NOT_LINEAR,
        point=str(problem.point),
        source=course.subject.rule.source(),
    )


def _not_finite(course: Course, problem: Problem) -> Finding:
    layout = course.subject.inputs
    entry = int(problem.positions[0])
    leaf = layout.leaves[layout.leaf_of(entry)]
    assert problem.point is not None
    value = float(problem.point.x[entry])
    text = words.not_finite(leaf.name, f"{leaf.name} = {words.short(value)}")
    return Finding(
        "nonfinite",
        leaf.path,
        text,
        point=str(problem.point),
        made_up=_is_made_up(problem),
        source=course.subject.rule.source(),
    )


def _shown_not_finite(course: Course, problem: Problem, finding: Finding, explain: bool) -> Finding:
    point, w, entry = problem.point, course.upstream, int(problem.positions[0])
    assert point is not None
    truth = Truth(course.subject, point.x, w, np.array([entry]))
    return shown(course, truth, Failing(point.x, w, entry, np.nan), finding, explain=explain)


def _second(course: Course, problem: Problem) -> Finding:
    trial, layout = problem.trial, course.subject.inputs
    assert trial is not None
    entry = int(problem.positions[0])
    finite = bool(np.isfinite(trial.claimed[problem.positions]).all())
    return Finding(
        "second",
        layout.leaves[layout.leaf_of(entry)].path,
        words.SECOND if finite else words.SECOND_NOT_FINITE,
        got=float(trial.claimed[entry]),
        wanted=float(trial.slope.value[entry]),
        error=float(trial.slope.error[entry]),
        point=str(problem.point),
        entry=layout.element(entry),
        source=course.subject.rule.source(),
    )


def _mode(course: Course, problem: Problem) -> Finding:
    got, wanted = problem.numbers or (None, None)
    return Finding(
        "mode",
        problem.where,
        problem.text,
        got=got,
        wanted=wanted,
        source=course.subject.rule.source(),
    )
