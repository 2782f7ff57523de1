"""Rules that overflow where the function does not: how far out the gradient is finite, on rays through the arguments.

Both are run in the arguments' own format, in which they overflow. What is NaN at a size is NaN beyond it as well, so
that one look at the far end of where the function has values tells of all the way; where it begins is found by halving.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pullback.check import numbers as n
from pullback.check.probe import Array, OutsideDomain, RuleFault
from pullback.check.search import directions
from pullback.check.search.points import Kind, Point
from pullback.check.verdict.nonfinite import slopes_beside
from pullback.check.verdict.record import Failure, Problem

if TYPE_CHECKING:
    from pullback.check.verdict.course import Course


def far_out(course: "Course") -> Iterator[Problem]:
    """All inputs larger, of the other sign too where that is meant; each by itself if all do not get far."""
    layout, x = course.subject.inputs, course.start
    if x.size >= n.LARGE_INPUT or course.given is None or not np.isfinite(x).all():
        return
    every, known = np.ones(x.size, bool), _run(course, x)
    if known is None:
        return
    rays = [_Ray(course, every, 1.0, known)]
    if not ((x > 0).any() and (x < 0).any()):
        rays.append(_Ray(course, every, -1.0, known))
    for ray in rays:
        yield from ray.judge()
    if rays[0].reach < n.SHORT_WAY and 1 < len(layout.leaves) <= n.SEVERAL:
        for k in range(len(layout.leaves)):
            ray = _Ray(course, layout.fill(list(range(len(layout.leaves)))) == k, 1.0, known)
            yield from ray.judge()


@dataclass
class _Ray:
    """Some entries of the given arguments, so and so many times as large."""

    course: "Course"
    moved: Array
    sign: float
    known: Array  # where the gradient is not finite as given: other parts of the check tell of it
    reach: float = 1.0

    def at(self, times: float) -> Array:
        x = self.course.start
        return np.where(self.moved, self.sign * times * x, x)

    def seen(self, times: float) -> Array | None:
        """Where the gradient is not finite; nothing outside of the domain, or where the function has no value."""
        x = self.at(times)
        if not np.array_equal(self.course.within(Kind.FAR)(x), x):
            return None
        seen = _run(self.course, x)
        return None if seen is None else seen & ~self.known

    @property
    def most(self) -> float:
        """How many times as large entries can be in their format."""
        layout, x = self.course.subject.inputs, np.abs(self.course.start)
        largest = layout.fill([leaf.largest for leaf in layout.leaves])
        return float(np.min(largest / np.fmax(x, 1.0), where=self.moved, initial=np.inf)) / 2

    def judge(self) -> Iterator[Problem]:
        """Where the gradient ceases to be finite."""
        bad, good = self._broken_at(), 1.0
        while bad is not None and bad > (1 + n.NEAR**n.FEW_ELEMENTS) * good:
            middle = _between(good, bad)
            seen = self.seen(middle)
            good, bad = (good, middle) if seen is not None and seen.any() else (middle, bad)
        seen = None if bad is None else self.seen(bad)
        if bad is not None and seen is not None and seen.any():
            yield from self._told(bad, int(np.flatnonzero(seen)[0]))

    def _broken_at(self) -> float | None:
        """A size at which the gradient is not finite, sought as far out as the function has values."""
        times = bad = self.most
        while bad > n.IN_SCALE * self.reach:
            seen = self.seen(times)
            if seen is not None and seen.any():
                return times
            self.reach, bad = (self.reach, times) if seen is None else (times, bad)
            times = _between(self.reach, bad)
        return None

    def _told(self, times: float, entry: int) -> Iterator[Problem]:
        """A finding where one entry alone brings it about, not far from the given arguments, and there are slopes."""
        course, layout = self.course, self.course.subject.inputs
        leaf, value = layout.leaves[layout.leaf_of(entry)], float(self.at(times)[entry])
        x = course.start.copy()
        x[entry] = (1 + n.NEAR) * value
        seen = _run(course, x)
        alone = seen is not None and bool(seen[entry])
        place = f"all of it is {times:.3g} times as large as given"
        if alone:
            place = f"{leaf.name} {'>' if value > 0 else '<'} {value:.3g}"
        text = f"is not finite where {place}, though the function is"
        is_long = leaf.largest > n.SHORT_WAY**n.FEW
        if alone and times <= n.SHORT_WAY and is_long and self._has_slope(x, entry):
            found = np.array([layout.leaf_of(entry)])
            yield Problem(Failure.NOT_FINITE, Point(Kind.FAR, x), positions=found, text=text)
        else:
            course.record.note(f"the gradient for `{leaf.name}` {text}")

    def _has_slope(self, x: Array, entry: int) -> bool:
        subject = self.course.subject
        u = np.where(np.arange(x.size) == entry, directions.leaf_scales(subject.inputs, x), 0.0)
        return slopes_beside(subject, x, subject.value_or_nan(x), u) is not None


def _between(low: float, high: float) -> float:
    return float(np.sqrt(low) * np.sqrt(high))


def _run(course: "Course", x: Array) -> Array | None:
    """Where the gradient is not finite, as it runs in the arguments' format; nothing where the function has no value.

    Values whose squares overflow count as none: beside them a rule may overflow where the function just does not.
    """
    subject = course.subject
    split = subject.inputs.split(x), subject.upstream(course.upstream)
    try:
        values, r = subject.rule.vjp_as_given(*split)
    except (OutsideDomain, RuleFault):
        return None
    largest = subject.outputs.fill([leaf.largest for leaf in subject.outputs.leaves])
    if not (np.abs(subject.outputs.join(values)) <= np.sqrt(largest)).all():
        return None
    return ~np.isfinite(subject.inputs.join(r))
