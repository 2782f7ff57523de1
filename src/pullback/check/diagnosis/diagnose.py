"""From a problem to findings: which inputs, which element in numbers, and the first explanation that is confirmed."""

from dataclasses import replace
from typing import Any, cast

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis import conditions, parts, upstream, whole, words
from pullback.check.diagnosis.draws import Draw, Truth, make_draws
from pullback.check.diagnosis.explanations import Case, Explanation, Search, first_that_holds
from pullback.check.diagnosis.showing import shown
from pullback.check.diagnosis.shrink import Failing
from pullback.check.diagnosis.slips import slips
from pullback.check.probe import Array, Raised, RuleFault, WrongDtype, WrongShape
from pullback.check.report import Finding
from pullback.check.search.points import Point
from pullback.check.verdict.course import Course
from pullback.check.verdict.record import Failure, Problem
from pullback.check.verdict.trial import Trial

# The plain before the complex: what needs no look into the program, then slips in it, then what says less.
PLAIN: tuple[Search, ...] = (
    whole.zero,
    upstream.unused,
    whole.constant_factor,
    upstream.by_output,
    whole.added_term,
    upstream.not_linear,
    whole.rearranged,
    whole.conjugated_input,
    parts.regions,
    whole.rounded,
    conditions.conditions,
    conditions.two_factors,
    whole.passed_through,
    whole.scalar_factor,
    whole.element_by_element,
    whole.instead_of_derivative,
)
DEEPER: tuple[Search, ...] = (
    slips,
    whole.mixed,
    whole.anothers,
    whole.passed_to_extremes,
    conditions.conditions_on_order,
    whole.factor_per_index,
    whole.moving_factor,
    parts.regions_at_least,
    conditions.conditions_at_least,
)


def diagnose(course: Course, problem: Problem, *, explain: bool) -> tuple[Finding, ...]:
    """What is wrong, as findings: at least one."""
    plain = {
        Failure.FAULT: _fault,
        Failure.STALE: _stale,
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
    """Each input whose gradient is wrong; those with one explanation together."""
    cases = [case for case in _cases(course, problem) if _is_wrong(case)]
    if not cases:
        return (_undetailed(course, problem),)
    if not explain:
        return tuple(_finding(course, problem, [case], None, None) for case in cases)
    found: list[tuple[list[Case], Explanation | None, int]] = []
    for group in _swapped(cases):
        found.append((group, Explanation("swapped", words.SWAPPED, group[0].g), 0))
        cases = [case for case in cases if case not in group]
    about_upstream = problem.kind is Failure.UPSTREAM
    found += [_bent(case) for case in cases] if about_upstream else _explained(cases)
    findings = [_finding(course, problem, *one) for one in _merged(found)]
    # an input without gradient may be meant so: what is wrong otherwise comes first
    return tuple(sorted(findings, key=lambda finding: finding.kind == "none"))


def _cases(course: Course, problem: Problem) -> list[Case]:
    subject, given = course.subject, course.given
    point = cast("Point", problem.point)
    w = course.upstream if problem.trial is None else problem.trial.w
    if problem.kind is Failure.UPSTREAM and problem.numbers is not None:
        w = problem.numbers[0] * w
    suspects = _suspect_entries(course, problem)
    others, into = course.other_points(), course.within(point.kind)
    draws = make_draws(subject, point, w, course.start, others, suspects, into)
    none = () if given is None else given.none
    return [
        Case(subject, draws, k, k in none, course.facts.constants)
        for k in range(len(subject.inputs.leaves))
    ]


def _suspect_entries(course: Course, problem: Problem) -> Array:
    """Entries of the input that may be wrong: those of the output, where they correspond."""
    same = course.subject.inputs.size == course.subject.outputs.size
    known = same and problem.trial is not None and problem.trial.whole
    return problem.positions if known else np.empty(0, int)


def _is_wrong(case: Case) -> bool:
    return any(case.wrong(draw).any() for draw in case.draws.fit)


def _swapped(cases: list[Case]) -> list[list[Case]]:
    """Two gradients in each other's place."""
    for a in cases:
        for b in cases:
            if (
                a.which != b.which
                and a.shape == b.shape
                and all(
                    np.allclose(a.r(d), b.g(d), n.AGREE, 0)
                    and np.allclose(b.r(d), a.g(d), n.AGREE, 0)
                    for d in a.draws.tested
                )
            ):
                return [[a, b]]
    return []


def _explained(cases: list[Case]) -> list[tuple[list[Case], Explanation | None, int]]:
    """Each case by itself; where that is not plain for all of them, one slip for all comes first."""
    plain = [first_that_holds(case, PLAIN) for case in cases]
    texts = {None if one is None else one.text for one, _ in plain}
    if len(cases) > 1 and (None in texts or len(texts) > 1):
        first = cases[0]
        joint = Case(first.subject, first.draws, None)
        one, tried = first_that_holds(joint, (slips,))
        if one is not None:
            return [(cases, one, tried)]
        cases = [replace(case, alone=False) for case in cases]
    found: list[tuple[list[Case], Explanation | None, int]] = []
    for case, (one, tried) in zip(cases, plain, strict=True):
        more = 0
        if one is None:
            one, more = first_that_holds(case, DEEPER)
        found.append(([case], one, tried + more))
    return found


def _bent(case: Case) -> tuple[list[Case], Explanation | None, int]:
    """Not in proportion to the upstream: how is all that is asked."""
    one, tried = first_that_holds(case, (upstream.unused, upstream.not_linear))
    return [case], one or Explanation("linear", words.NOT_LINEAR, case.r), tried


def _merged(
    found: list[tuple[list[Case], Explanation | None, int]],
) -> list[tuple[list[Case], Explanation | None, int]]:
    """Inputs of which the same is said are one finding."""
    kept: dict[Any, tuple[list[Case], Explanation | None, int]] = {}
    for k, (cases, one, tried) in enumerate(found):
        key = one.text if one is not None else k
        kept[key] = ([*kept[key][0], *cases], one, tried) if key in kept else (cases, one, tried)
    return list(kept.values())


def _finding(
    course: Course, problem: Problem, cases: list[Case], one: Explanation | None, tried: int | None
) -> Finding:
    """`tried` is how many explanations were, nothing where none was wanted."""
    case = cases[0]
    draw = max(case.draws.fit, key=lambda d: float(np.max(d.gap[case.span])))
    entry = case.span.start + int(np.argmax(draw.gap[case.span]))
    names = [each.leaf.name for each in cases]
    said = _unexplained(case, draw, tried) if one is None else one.text
    finding = Finding(
        "term" if one is None else one.kind,
        case.leaf.path,
        words.sentence(names, said) + (_blame(course, problem, 1) if tried is not None else ""),
        point=str(problem.point),
        made_up=_is_made_up(problem),
        source=course.subject.rule.source(),
        confirmed=0 if one is None else len(case.draws.fresh),
    )
    numbers = (float(v[entry]) for v in (draw.r, draw.g, draw.floor))
    failing = Failing(draw.x, draw.w, entry, *numbers)
    return shown(course, case.draws.truth, failing, finding, explain=tried is not None)


def _blame(course: Course, problem: Problem, order: int) -> str:
    """The engine's own operations whose gradient is wrong, where nobody else's is at work."""
    subject, point = course.subject, problem.point
    if point is None or course.reads_custom() or subject.reference is not None:
        return ""
    names = subject.rule.wrong_ops(subject.inputs.split(point.x), order)
    return words.blamed(names) if names else ""


def _is_made_up(problem: Problem) -> bool:
    return problem.point is not None and not problem.point.is_given


def _unexplained(case: Case, draw: Draw, tried: int | None) -> str:
    g, r = case.g(draw), case.r(draw)
    known = np.isfinite(g) & np.isfinite(r)
    size = float(np.sqrt(np.sum(g[known] ** 2)))
    gap = float(np.sqrt(np.sum((r - g)[known] ** 2)))
    share = gap / size if size else np.inf
    return words.unexplained(share, int(case.wrong(draw).sum()), int(known.sum()), tried)


def _undetailed(course: Course, problem: Problem) -> Finding:
    """Wrong along a direction, though no entry could be told."""
    trial, leaf = problem.trial, course.subject.inputs.leaves[0]
    source, point = course.subject.rule.source(), str(problem.point)
    if trial is None:
        text = words.sentence([leaf.name], words.NOT_LINEAR)
        return Finding("linear", leaf.path, text, point=point, source=source)
    first = problem.positions[0]
    return Finding(
        "term",
        "",
        "the gradient is wrong along a direction that moves all inputs, by too little to name an entry",
        got=float(trial.claimed[first]),
        wanted=float(trial.slope.value[first]),
        error=float(trial.slope.error[first]),
        point=point,
        made_up=_is_made_up(problem),
        source=source,
    )


def _fault(course: Course, problem: Problem) -> Finding:
    fault = cast("RuleFault", problem.fault)
    leaf = course.subject.inputs.leaves[fault.leaf or 0]
    match fault.reason:
        case WrongShape(came):
            kind, text = "shape", words.sentence([leaf.name], words.shape(came, leaf.shape))
        case WrongDtype(came):
            kind, text = (
                "dtype",
                words.sentence([leaf.name], f"is {came}, the input is {leaf.dtype}"),
            )
        case Raised(error):
            kind, text = "raises", f"the rule raises {error}"
    point = str(problem.point) if problem.point else ""
    return Finding(kind, leaf.path, text, point=point, source=course.subject.rule.source())


def _stale(course: Course, problem: Problem) -> Finding:
    return _about(course, problem, "stale", 0, words.STALE)


def _about(
    course: Course, problem: Problem, kind: str, which: int, text: str, **more: Any
) -> Finding:
    leaf = course.subject.inputs.leaves[which]
    said = words.sentence([leaf.name], text)
    source = course.subject.rule.source()
    point, made_up = str(problem.point), _is_made_up(problem)
    return Finding(kind, leaf.path, said, point=point, made_up=made_up, source=source, **more)


def _not_finite(course: Course, problem: Problem) -> Finding:
    layout, entry = course.subject.inputs, int(problem.positions[0])
    point = cast("Point", problem.point)
    which = layout.leaf_of(entry)
    span = layout.span(which)
    here = [p for p in problem.positions if span.start <= p < span.stop]
    text = words.not_finite(point.x[here], layout.leaves[which].name)
    return _about(course, problem, "nonfinite", which, text)


def _shown_not_finite(course: Course, problem: Problem, finding: Finding, explain: bool) -> Finding:
    point, w, entry = cast("Point", problem.point), course.upstream, int(problem.positions[0])
    truth = Truth(course.subject, point.x, w, np.array([entry]))
    return shown(course, truth, Failing(point.x, w, entry, np.nan), finding, explain=explain)


def _second(course: Course, problem: Problem) -> Finding:
    trial, layout = cast("Trial", problem.trial), course.subject.inputs
    entry = int(problem.positions[0])
    finite = bool(np.isfinite(trial.claimed[problem.positions]).all())
    return _about(
        course,
        problem,
        "second",
        layout.leaf_of(entry),
        (words.SECOND if finite else words.SECOND_NOT_FINITE) + _blame(course, problem, 2),
        got=float(trial.claimed[entry]),
        wanted=float(trial.slope.value[entry]),
        error=float(trial.slope.error[entry]),
        entry=layout.element(entry),
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
