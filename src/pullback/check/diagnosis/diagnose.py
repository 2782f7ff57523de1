"""From a problem to findings: which inputs, which element in numbers, and the first explanation that is confirmed."""

import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from pullback.check import numbers as n
from pullback.check.budget import Spent
from pullback.check.diagnosis import (
    conditions,
    findings,
    parts,
    repairs,
    slips,
    upstream,
    whole,
    words,
)
from pullback.check.diagnosis.altered import altered
from pullback.check.diagnosis.draws import Draw, Truth, make_draws
from pullback.check.diagnosis.explanations import Case, Explanation, Search, first_that_holds
from pullback.check.diagnosis.inside import Inside
from pullback.check.diagnosis.meant import Deliberate, deliberate
from pullback.check.diagnosis.runs import runs
from pullback.check.diagnosis.showing import shown
from pullback.check.diagnosis.shrink import Failing
from pullback.check.probe import Array
from pullback.check.report import Finding
from pullback.check.search.points import Kind, Point
from pullback.check.verdict.course import Course
from pullback.check.verdict.record import Failure, Problem

# Slips in the program, the plain before the complex.
SLIPS = (
    slips.scaled,
    slips.optioned,
    slips.taken_for,
    slips.factors,
    altered,
    runs,
    partial(slips.scaled, unlike=True),
)


def inside_program(case: Case) -> Iterator[Explanation]:
    """What was done wrongly inside the program."""
    steps = case.subject.steps() if case.draws.truth.own else None
    if steps is None or not steps.steps:
        return
    inside = Inside(case, steps)
    for search in SLIPS:
        try:
            yield from search(inside)
        except Spent:
            raise
        except Exception as error:  # a slip of ours costs its line
            case.slipped(error)


# The plain before the complex: what needs no look into the program, then slips in it, then what says less.
PLAIN: tuple[Search, ...] = (
    whole.zero,
    upstream.unused,
    whole.constant_factor,
    upstream.by_output,
    whole.added_term,
    upstream.something_added,
    whole.rearranged,
    parts.regions,
    whole.rounded,
    conditions.conditions,
    whole.passed_through,
    whole.element_by_element,
    whole.instead_of_derivative,
)
JOINT: tuple[Search, ...] = (upstream.moved, repairs.options, inside_program)
DEEPER: tuple[Search, ...] = (
    repairs.cancelled,
    *JOINT,
    repairs.repairs,
    whole.not_transposed,
    partial(parts.regions, how_wrong=parts.somehow),
)
BENT = upstream.unused, upstream.something_added, repairs.options, repairs.repairs


# Inputs of which the same is said, what is said, and how many explanations were tried.
Found = tuple[list[Case], Explanation | None, int]


def diagnose(course: Course, problem: Problem, *, explain: bool) -> tuple[Finding, ...]:
    """What is wrong, as findings: at least one. What it may spend is limited; then it says what it has."""
    subject = course.subject
    found: tuple[Finding, ...] = ()
    with subject.within(n.EXPLAINING_CALLS, n.EXPLAINING_SECONDS) as budget, suppress(Spent):
        found = _diagnosed(course, problem, explain)
    found = found or (findings.undetailed(course, problem),)
    if budget.is_spent:
        course.record.note(
            f"the diagnosis ended where it had made {n.EXPLAINING_CALLS} calls or taken "
            f"{n.EXPLAINING_SECONDS:g} s: not all explanations were tried"
        )
    return found


def _diagnosed(course: Course, problem: Problem, explain: bool) -> tuple[Finding, ...]:
    if problem.text and problem.kind in (Failure.UPSTREAM, Failure.NOT_FINITE):
        kind = "upstream" if problem.kind is Failure.UPSTREAM else "nonfinite"
        return (findings.about(course, problem, kind, list(problem.positions), problem.text),)
    match problem.kind:
        case Failure.FAULT:
            return (findings.fault(course, problem),)
        case Failure.STALE:
            text = "changes if another forward call is made before the backward pass: shared state"
            return (findings.about(course, problem, "stale", [0], text),)
        case Failure.NOT_FINITE:
            return (findings.not_finite(course, problem, explain),)
        case Failure.SECOND:
            said = _of_deliberate(course) if explain else None
            finding = findings.second(course, problem)
            return (finding if said is None else _told(finding, said),)
        case Failure.MODE:
            got, wanted = problem.numbers or (None, None)
            source = course.subject.rule.source()
            text, where = problem.text, problem.where
            return (Finding("mode", where, text, got=got, wanted=wanted, source=source),)
        case Failure.VALUE | Failure.UPSTREAM:
            return _values(course, problem, explain)


def _values(course: Course, problem: Problem, explain: bool) -> tuple[Finding, ...]:
    """Each input whose gradient is wrong; those with one explanation together."""
    cases = [case for case in _cases(course, problem) if _is_wrong(case)]
    if not cases:
        return (findings.undetailed(course, problem),)
    if not explain:
        return tuple(_finding(course, problem, [case], None, None) for case in cases)
    found: list[Found] = []
    told, cases = _deliberate(course, problem, cases)
    for group in _swapped(cases):
        found.append(
            (group, Explanation("swapped", "are swapped: each has the other's", group[0].g), 0)
        )
        cases = [case for case in cases if case not in group]
    about_upstream = problem.kind is Failure.UPSTREAM
    found += [_bent(case) for case in cases] if about_upstream else _explained(cases)
    with course.subject.within(n.SHOWING_CALLS, n.SHOWING_SECONDS):
        rest = [_finding(course, problem, *one) for one in _merged(found)]
    # an input without gradient may be meant so: what is wrong otherwise comes first
    return tuple(sorted([*told, *rest], key=lambda finding: finding.kind == "none"))


def _deliberate(
    course: Course, problem: Problem, cases: list[Case]
) -> tuple[list[Finding], list[Case]]:
    """What a rule does that nobody can take for a derivative, and the inputs that it says nothing of."""
    found = _of_deliberate(course)
    about = [case for case in cases if found is not None and found.which in (None, case.which)]
    if found is None or not about:
        return [], cases
    one = Explanation(found.kind, found.text, about[0].r)
    finding = _told(_finding(course, problem, about, one, None), found)
    return [finding], [case for case in cases if case not in about]


def _of_deliberate(course: Course) -> Deliberate | None:
    """What the rule does, if somebody wrote it and it is compared with the function itself."""
    subject = course.subject
    is_own = subject.truth is subject.rule and subject.reference is None
    return deliberate(subject.rule) if is_own and course.reads_custom() else None


def _told(finding: Finding, found: Deliberate) -> Finding:
    return replace(finding, kind=found.kind, diagnosis=f"{found.text}. {words.IF_MEANT}")


def _cases(course: Course, problem: Problem) -> list[Case]:
    subject, given = course.subject, course.given
    point = cast("Point", problem.point)
    w = course.upstream if problem.trial is None else problem.trial.w
    if problem.kind is Failure.UPSTREAM and problem.numbers is not None:
        w = problem.numbers[0] * w
    suspects = _suspect_entries(course, problem)
    others, into = course.other_points(), course.within(point.kind)
    draws = make_draws(subject, point, w, course.start, others, suspects, into)
    none, facts = () if given is None else given.none, course.read_facts()
    return [
        Case(subject, draws, k, k in none, facts.constants, facts.short, course.record.note)
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

    def has(a: Case, b: Case) -> bool:
        return all(np.allclose(a.r(d), b.g(d), n.AGREE, 0) for d in a.draws.tested)

    for a, b in itertools.combinations(cases, 2):
        if a.shape == b.shape and has(a, b) and has(b, a):
            return [[a, b]]
    return []


def _explained(cases: list[Case]) -> list[Found]:
    """Each case by itself; where that is not plain for all of them, one slip for all comes first."""
    plain = [first_that_holds(case, PLAIN) for case in cases]
    texts = {None if one is None else one.text for one, _ in plain}
    if len(cases) > 1 and None in texts:
        first = cases[0]
        joint = replace(first, which=None, none=False)
        one, tried = first_that_holds(joint, JOINT)
        if one is not None:
            # of what is said of all inputs, the first is shown
            said = replace(one, predict=lambda d: first.part(np.ravel(one.predict(d))))
            return [(cases, said, tried)]
    found: list[Found] = []
    for case, (one, tried) in zip(cases, plain, strict=True):
        more = 0
        if one is None:
            one, more = first_that_holds(case, DEEPER)
        found.append(([case], one, tried + more))
    return found


def _bent(case: Case) -> Found:
    """Not in proportion to the upstream: why is all that is asked."""
    one, tried = first_that_holds(case, BENT)
    return [case], one or Explanation("linear", words.NOT_LINEAR, case.r), tried


def _merged(found: list[Found]) -> list[Found]:
    """Inputs of which the same is said are one finding."""
    kept: dict[Any, Found] = {}
    for k, (cases, one, tried) in enumerate(found):
        key = one.text if one is not None else k
        kept[key] = ([*kept[key][0], *cases], one, tried) if key in kept else (cases, one, tried)
    return list(kept.values())


def _finding(
    course: Course, problem: Problem, cases: list[Case], one: Explanation | None, tried: int | None
) -> Finding:
    """`tried` is how many explanations were, nothing where none was wanted."""
    case, is_open = cases[0], one is None
    draw = max(case.draws.fit, key=lambda d: float(np.max(d.gap[case.span])))
    entry = case.span.start + int(np.argmax(draw.gap[case.span]))
    one = one or Explanation("term", _unexplained(case, draw), case.r)
    confirmed = 0 if is_open else len(case.draws.fresh)
    finding = findings.about(
        course, problem, one.kind, _inputs(cases), one.text, confirmed=confirmed
    )
    if one.place:
        finding = replace(finding, source=one.place, code=one.code)
    if tried is not None:
        of = findings.blamed(course, problem, 1)
        many = f"; none of {tried} explanations tried predicts it" if is_open and tried else ""
        finding = findings.remarked(finding, many + of.text, of.names)
    numbers = (float(v[entry]) for v in (draw.r, draw.g, draw.floor))
    failing = Failing(draw.x, draw.w, entry, *numbers)
    same = partial(_said_there_too, course, case, None if is_open else one)
    return shown(course, case.draws.truth, failing, finding, explain=tried is not None, same=same)


def _said_there_too(course: Course, case: Case, one: Explanation | None, at: Failing) -> bool:
    """Whether a check of a smaller input would say the same, and nothing plainer that holds only there."""
    point, w, truth = Point(Kind.GIVEN, at.x), case.draws.fit[0].w, case.draws.truth
    if not truth.is_cheap and case.layout.size > n.FEW:  # draws all around would cost too much
        draw = case.draws.truth.draw(at.x, at.w)
        return one is None or (draw is not None and case.agrees(one.predict, draw))
    if truth.own and not Truth(case.subject, at.x, w, truth.entries).own:  # at a kink
        return False
    draws = make_draws(
        case.subject,
        point,
        w,
        at.x,
        course.other_points(),
        np.empty(0, int),
        course.within(Kind.GIVEN),
    )
    there = replace(case, draws=draws)
    plain, _ = first_that_holds(there, PLAIN)
    if plain is None:
        return one is None or there.holds(one.predict)
    return one is not None and plain.text == one.text


def _inputs(cases: list[Case]) -> list[int]:
    """The inputs of which something is said; all of them where it is said of all together."""
    every = range(len(cases[0].layout.leaves))
    return [k for each in cases for k in (every if each.which is None else [each.which])]


def _unexplained(case: Case, draw: Draw) -> str:
    """The honest line: how far off, in how many elements."""
    g, r = case.g(draw), case.r(draw)
    known = np.isfinite(g) & np.isfinite(r)
    size, gap = (float(np.sqrt(np.sum(a[known] ** 2))) for a in (g, r - g))
    amount = f"off by {words.short(100 * gap / size)} %" if size else "not zero, as it should be,"
    wrong, total = int(case.wrong(draw).sum()), int(known.sum())
    many = "all elements" if wrong == total else f"{wrong} of {total} elements"
    return f"is {amount} in {many}"
