"""A rule against a reference rule, for rules that are meant not to be the derivative of anything: clipped, guided.

Both are run at the same points with the same upstreams, of several sizes, and must give the same.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pullback._define import with_gradient
from pullback._function import GradientFunction
from pullback._rule import OFFERED
from pullback.check import numbers as n
from pullback.check.estimate.ladder import Slope
from pullback.check.probe import Array, OutsideDomain, RuleFault
from pullback.check.search.points import Kind, Point
from pullback.check.verdict.contract import other_sizes
from pullback.check.verdict.course import Course
from pullback.check.verdict.record import Failure, Problem
from pullback.check.verdict.trial import Trial, usual_size
from pullback.errors import CheckError


def reference_of(
    against: Any, fn: Any, is_custom_gradient: Callable[[Any], bool]
) -> Callable[..., Any] | None:
    """The function whose gradient is the reference, if `against` is a rule or has one; else nothing."""

    def has_rule(thing: Any) -> bool:
        own = isinstance(thing, GradientFunction) or hasattr(thing, "__pullback_override__")
        return own or is_custom_gradient(thing)

    if has_rule(against):
        return against
    asked = _asked(against)
    if not asked:
        return None
    plain = fn.__wrapped__ if isinstance(fn, GradientFunction) and fn.rule is not None else fn
    if "original" in asked and plain is fn and has_rule(fn):
        raise CheckError(
            "the reference rule asks for `original`, but what is checked has a gradient of its own in every call: "
            "there is no other to give it. Write against=pb.with_gradient(plain_function, rule)."
        )
    return with_gradient(plain, against)


def _asked(against: Any) -> set[str]:
    """What a rule asks for by name; nothing for a function that is no rule."""
    if isinstance(against, str):
        return set()
    try:
        parameters = inspect.signature(against).parameters.values()
    except (TypeError, ValueError):
        return set()
    names = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    return names if names <= set(OFFERED) else set()


def compare(course: Course, *, quick: bool) -> Iterator[Problem]:
    """The points of a check, at each of which rule and reference must agree."""
    course.measure_scale()
    points = [Point(Kind.GIVEN, course.start), course.another_point()]
    for point in points if quick else [*points, *course.other_points()]:
        yield from _at(course, point)


def _at(course: Course, point: Point) -> Iterator[Problem]:
    short = course.subject.rule.rule_epsilon > n.LONG_FORMAT
    for size in (1.0, *other_sizes(short)):
        w = size * course.upstream
        try:
            rule = course.subject.evaluate_rule(point.x, w, np.zeros_like(point.x))
            wanted = course.subject.reference_vjp(point.x, w)
        except OutsideDomain:
            course.record.left_out.append(point.kind)
            return
        except RuleFault as fault:
            yield Problem(Failure.FAULT, point, fault=fault)
            return
        wrong = np.flatnonzero(~_alike(course, rule.r, wanted))
        if wrong.size:
            slope = Slope(wanted, np.zeros_like(wanted))
            trial = Trial(point, point.x, point.x, w, rule, rule.r, slope, np.abs(rule.r))
            yield Problem(Failure.VALUE, point, trial, wrong)
            return
        course.reached |= rule.r != 0
    course.record.points[1].append(point)
    if point.is_given:
        course.each_input.tested.update(range(len(course.subject.inputs.leaves)))


def _alike(course: Course, r: Array, wanted: Array) -> Array:
    unit = max(n.ROUNDINGS * course.subject.rule.rule_epsilon, course.tolerance)
    same = np.isfinite(r) == np.isfinite(wanted)
    with np.errstate(invalid="ignore"):
        near = np.abs(r - wanted) <= unit * (np.abs(wanted) + usual_size(wanted))
    return same & (near | ~np.isfinite(wanted))
