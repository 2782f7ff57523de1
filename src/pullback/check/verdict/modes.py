"""The other ways of running, compared with the plain one at the given arguments."""

from collections.abc import Iterator, Sequence

import numpy as np

from pullback.check import numbers as n
from pullback.check.probe import Array, InMode, Unsupported, Why
from pullback.check.search import directions
from pullback.check.verdict.course import Course
from pullback.check.verdict.record import Failure, Problem


def in_modes(course: Course, wanted: Sequence[str]) -> Iterator[Problem]:
    """The other ways of running, compared with the plain one."""
    x, rule = course.start, course.subject.rule
    w, first = course.as_given or (course.upstream, None)
    split = course.subject.inputs.split
    u = course.domain.along(x, directions.generic(course.rng, course.subject.inputs, x))
    place = split(x), course.subject.outputs.split(w), split(u)
    plain: dict[str, Sequence[Array | None] | Unsupported] = {} if first is None else {"vjp": first}
    for mode in wanted:
        answer = rule.in_mode(mode, *place)
        if isinstance(answer, InMode) and answer.what not in plain:
            plain[answer.what] = rule.plain(answer.what, *place)
        known = answer if isinstance(answer, Unsupported) else plain[answer.what]
        if isinstance(answer, InMode) and not isinstance(known, Unsupported):
            yield from _compared(course, mode, answer, known)
        elif isinstance(known, Unsupported) and known.why is Why.RULE_RAISES:
            yield Problem(Failure.MODE, text=f"in {mode} the gradient raises {known.reason}")
        elif isinstance(known, Unsupported):
            course.record.note(f"{mode}: not run ({known.reason})")


def _compared(
    course: Course, mode: str, answer: InMode, plain: Sequence[Array | None]
) -> Iterator[Problem]:
    layout = course.subject.inputs if answer.what == "vjp" else course.subject.outputs
    found, known = layout.join(answer.found), layout.join(plain)
    with np.errstate(invalid="ignore"):
        gap = np.where(np.isfinite(found) == np.isfinite(known), np.abs(found - known), np.inf)
    gap = np.where(np.isnan(gap), 0.0, gap)
    size = float(np.max(np.abs(known[np.isfinite(known)]), initial=0.0))
    worst = int(np.argmax(gap)) if gap.size else 0
    if gap.size and gap[worst] > min(n.ROUNDINGS * answer.epsilon, n.COARSE) * size:
        numbers = (float(found[worst]), float(known[worst]))
        text = f"{mode} gives another gradient than eager execution"
        yield Problem(Failure.MODE, text=text, numbers=numbers, where=layout.locate(worst))
    else:
        course.record.modes.append(mode)
