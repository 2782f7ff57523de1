"""What holds for every gradient: in proportion to its upstream, and independent of other calls."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from pullback.check import numbers as n
from pullback.check.probe import Array, OutsideDomain
from pullback.check.search import points
from pullback.check.search.points import Kind, Point
from pullback.check.verdict.record import Failure, Problem
from pullback.check.verdict.trial import usual_size

if TYPE_CHECKING:
    from pullback.check.verdict.course import Course


def contract(course: "Course") -> Iterator[Problem]:
    """At the given arguments: upstreams of other sizes, and another forward call before the rule runs."""
    subject, x = course.subject, course.start
    w = np.where(np.isfinite(course.first), course.upstream, 0.0)  # as for what is given
    plain = course.given.r if course.given is not None else subject.pull(x, w)[1]
    if not np.isfinite(plain).all():
        return
    short = subject.rule.rule_epsilon > n.LONG_FORMAT
    factor = _out_of_proportion(course, plain, w, short)
    if factor and not short and course.read_facts().short:  # it may be overflow inside
        factor = _out_of_proportion(course, plain, w, True)
    if factor:
        yield Problem(Failure.UPSTREAM, Point(Kind.GIVEN, x), numbers=(factor, 0.0))
        return
    opposite = points.opposite(course.rng, subject.inputs, x)
    for other in (course.suggested.into(course.domain.into(opposite)), course.elsewhere(2)):
        with contextlib.suppress(OutsideDomain):
            if not _alike(course, plain, subject.pull_after(x, other, w)):
                yield Problem(Failure.STALE, Point(Kind.GIVEN, x))
            return


def _out_of_proportion(course: "Course", plain: Array, w: Array, short: bool) -> float:
    """A factor of the upstream by which the gradient is not multiplied; zero if there is none."""
    for factor in other_sizes(short):
        if not _alike(course, plain, course.subject.pull(course.start, factor * w)[1] / factor):
            return factor
    return 0.0


def other_sizes(short: bool) -> tuple[float, float]:
    """Factors of the upstream to which a rule must be in proportion; less far apart in short formats."""
    bits = n.UPSTREAM_BITS_SHORT if short else n.UPSTREAM_BITS
    return 2.0**bits, 2.0**-bits


def _alike(course: "Course", a: Array, b: Array) -> bool:
    tolerance = n.ROUNDINGS * course.subject.rule.rule_epsilon
    with np.errstate(invalid="ignore"):
        return bool(np.all(np.abs(a - b) <= tolerance * np.maximum(np.abs(a), usual_size(a))))
