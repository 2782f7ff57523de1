"""What holds for every gradient: finite as the user gets it, linear in its upstream, independent of other calls."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pullback.check import numbers as n
from pullback.check.probe import Array, OutsideDomain, Unsupported
from pullback.check.search import points
from pullback.check.search.points import Kind, Point
from pullback.check.subject import Layout
from pullback.check.verdict.record import Failure, Problem
from pullback.check.verdict.trial import usual_size

if TYPE_CHECKING:
    from pullback.check.verdict.course import Course


def contract(course: "Course") -> Iterator[Problem]:
    """At the given arguments: their own format, upstreams of other sizes and of zeros, another forward call before."""
    subject, x = course.subject, course.start
    finite = np.isfinite(course.first)
    w = course.upstream if finite.all() else np.where(finite, course.upstream, 0.0)  # as given
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
    broken = _broken_as_given(course, plain, w) or _not_linear(course, plain, w)
    if broken is not None:
        yield broken
        return
    opposite = points.opposite(course.rng, subject.inputs, x)
    for other in (course.within(Kind.ANOTHER)(opposite), course.elsewhere(2)):
        with contextlib.suppress(OutsideDomain):
            if not _alike(course, plain, subject.pull_after(x, other, w)):
                yield Problem(Failure.STALE, Point(Kind.GIVEN, x))
            return


def _broken_as_given(course: "Course", plain: Array, w: Array) -> Problem | None:
    """A gradient that is finite in a longer format than the user's, and not in that one."""
    subject, x = course.subject, course.start
    inputs, outputs = subject.inputs, subject.outputs
    shorter = any(leaf.epsilon > subject.rule.rule_epsilon for leaf in inputs.leaves)
    if not shorter:
        _keep_for_modes(course, w, inputs.split(plain))
    if not shorter or np.any(np.abs(course.first) > _largest(outputs)):
        return None
    found = subject.rule.plain("vjp", inputs.split(x), outputs.split(w), ())
    if isinstance(found, Unsupported):
        return None
    _keep_for_modes(course, w, found)
    broken = ~np.isfinite(subject.known(inputs.join(found))) & (np.abs(plain) < _largest(inputs))
    if not broken.any():
        return None
    leaf = inputs.leaf_of(int(np.flatnonzero(broken)[0]))
    dtype = inputs.leaves[leaf].dtype
    text = f"is NaN or infinite as it runs in {dtype}, though it is not when computed in a longer format"
    return Problem(Failure.NOT_FINITE, Point(Kind.GIVEN, x), positions=np.array([leaf]), text=text)


def _keep_for_modes(course: "Course", w: Array, found: Sequence[Array | None]) -> None:
    """What other ways of running are compared with; long vectors are rather worked out again."""
    if course.start.size < n.LARGE_INPUT:
        course.as_given = w, found


def _largest(layout: Layout) -> Array:
    """The largest number that each entry can hold."""
    return layout.fill([leaf.largest for leaf in layout.leaves])


def _not_linear(course: "Course", plain: Array, w: Array) -> Problem | None:
    """What outputs that nobody uses show: upstreams of zero, for all outputs or for all but one."""
    subject, x = course.subject, course.start
    nothing = subject.pull(x, np.zeros_like(w))[1]
    if not np.array_equal(nothing, np.zeros_like(nothing)):
        leaf = subject.inputs.leaf_of(int(np.flatnonzero(nothing != 0)[0]))
        text = "is not zero for an upstream of zero, as it comes where an output is not used"
        return Problem(
            Failure.UPSTREAM, Point(Kind.GIVEN, x), positions=np.array([leaf]), text=text
        )
    count = len(subject.outputs.leaves)
    if not 1 < count <= n.SEVERAL:
        return None
    alone = np.zeros((count, w.size))
    for k in range(count):
        alone[k, subject.outputs.span(k)] = w[subject.outputs.span(k)]
    parts = np.array([subject.pull(x, part)[1] for part in alone])
    size = np.maximum(np.sum(np.abs(parts), axis=0), usual_size(plain))
    with np.errstate(invalid="ignore"):
        fits = np.abs(parts.sum(axis=0) - plain) <= n.ROUNDINGS * subject.rule.rule_epsilon * size
    if fits.all():
        return None
    leaf = subject.inputs.leaf_of(int(np.flatnonzero(~fits)[0]))
    text = (
        "is not the sum of what the upstream of each output gives: one that is not used changes it"
    )
    return Problem(Failure.UPSTREAM, Point(Kind.GIVEN, x), positions=np.array([leaf]), text=text)


def _out_of_proportion(course: "Course", plain: Array, w: Array, short: bool) -> float:
    """A factor of the upstream by which the gradient is not multiplied; zero if there is none."""
    largest = _largest(course.subject.inputs)
    for factor in other_sizes(short):
        found = course.subject.pull(course.start, factor * w)[1] / factor
        if not _alike(course, plain, np.where(factor * np.abs(plain) > largest, plain, found)):
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
