"""The smallest failing input: other entries zero or one, few digits, an upstream of ones, while one entry stays wrong.

What was simplified is believed only if the verdict there is the same: zeros and ties are where kinks are, and at a kink
the program's own derivative is one of several right ones.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis.draws import Truth
from pullback.check.estimate.ladder import plan_for
from pullback.check.probe import Array, OutsideDomain, RuleFault
from pullback.check.search.directions import leaf_scales
from pullback.check.search.points import Kind, Point
from pullback.check.subject import Layout
from pullback.check.verdict.course import Course
from pullback.check.verdict.nonfinite import Broken, judge_broken
from pullback.check.verdict.resolve import resolve
from pullback.check.verdict.trial import as_one_number, run


@dataclass(frozen=True)
class Failing:
    """An input and an upstream for which one entry of the gradient is wrong: `r` by the rule, `g` by the function."""

    x: Array
    w: Array
    entry: int
    r: float
    g: float = np.nan
    error: float = 0.0

    @property
    def share(self) -> float:
        """How far off, relative to the size of the two; one for what is not finite."""
        size = max(abs(self.r), abs(self.g))
        return abs(self.r - self.g) / size if np.isfinite(size) and size else 1.0


# What other entries are put to; at zeros and ties another thing may be wrong, or seem so.
PLAINEST, PLAIN = (0.0, 1.0), (1.0,)


def smallest(
    course: Course,
    truth: Truth,
    failing: Failing,
    *,
    keep: bool,
    fill: tuple[float, ...] = PLAINEST,
) -> Failing:
    """The failing input in its plainest form; with `keep` the input stays, and only the upstream is made plain."""
    search = _Search(course, truth, failing, fill)
    search.simplify(keep=keep)
    if keep and np.isfinite(failing.r):
        return search.found
    return search.confirmed() or (failing if keep else smallest(course, truth, failing, keep=True))


class _Search:
    """Steps towards a plainer input, each kept if the same entry is still wrong."""

    def __init__(
        self, course: Course, truth: Truth, failing: Failing, fill: tuple[float, ...]
    ) -> None:
        self.fill, self.course, self.truth, self.first, self.found = (
            fill,
            course,
            truth,
            failing,
            failing,
        )
        self.left, self.until = n.MANY, time.monotonic() + n.SECONDS
        self.bound = [
            into for into in (course.domain.into, course.suggested.into) if _stays(into, failing.x)
        ]

    def simplify(self, *, keep: bool) -> None:
        """An upstream of ones or of one output; then other entries, the entry itself, and digits."""
        x, w = self.found.x, self.found.w
        for plain in (np.ones_like(w), *_single_outputs(w.size, self.found.entry), _rounded(w, 1)):
            if self.step(x, plain):
                break
        if keep:
            return
        self.step(_as_given(self.course.subject.inputs, x), self.found.w)
        self.others()
        self.put(np.array([self.found.entry]), float(np.sign(x[self.found.entry])))
        for digits in n.DIGITS:
            if self.step(_rounded(self.found.x, digits), self.found.w):
                break

    def others(self) -> None:
        """All other entries zero or one, or as many of them as can be."""
        groups = [np.delete(np.arange(self.found.x.size), self.found.entry)]
        while groups and self.left > len(n.DIGITS) + 1:  # what the steps after this one need
            group = groups.pop(0)
            if group.size and not any(self.put(group, value) for value in self.fill):
                half = group.size // 2
                groups += [group[:half], group[half:]] if half else []

    def put(self, group: Array, value: float) -> bool:
        x = self.found.x.copy()
        x[group] = value
        return self.step(x, self.found.w)

    def step(self, x: Array, w: Array) -> bool:
        """Whether it fails there too, at the same entry and by as much."""
        self.left = max(0, self.left - 1) if time.monotonic() < self.until else 0
        if not self.left or not all(_stays(into, x) for into in self.bound):
            return False
        there = self.at(_as_given(self.course.subject.inputs, x), w)
        if there is None or there.share < n.KEPT * self.first.share:
            return False
        self.found = there
        return True

    def at(self, x: Array, w: Array) -> Failing | None:
        """Rule and truth for the entry at another point, if they differ there in the same way."""
        subject, entry = self.course.subject, self.first.entry
        try:
            y, r = subject.pull(x, w)
        except (OutsideDomain, RuleFault):
            return None
        here = replace(self.first, x=x, w=w, r=float(r[entry]), g=np.nan)
        same = np.isfinite(here.r) == np.isfinite(self.first.r) and np.isfinite(y[w != 0]).all()
        if not same or not np.isfinite(here.r):
            return here if same else None
        g, floor = self.truth.vjp(x, w)
        size = np.sqrt(np.sum((w * (np.abs(y) + subject.scale))[w != 0] ** 2))
        noise = n.ROUNDINGS * subject.epsilon * size / self.unit(x)
        here = replace(here, g=float(g[entry]), error=float(floor[entry]))
        return here if abs(here.r - here.g) > max(here.error, noise) else None

    def unit(self, x: Array) -> float:
        """A step of the entry's own size."""
        entry = self.first.entry
        return abs(x[entry]) or float(leaf_scales(self.course.subject.inputs, x)[entry])

    def confirmed(self) -> Failing | None:
        """What was found, if the verdict along this one entry is the same."""
        subject, failing = self.course.subject, self.found
        if subject.reference is not None:  # which is the truth, whatever the function does
            return failing
        x, w, point = failing.x, failing.w, Point(Kind.GIVEN, failing.x)
        alone = np.arange(x.size) == failing.entry
        if not np.isfinite(failing.r):
            found = judge_broken(subject, point, w, subject.value(x), alone, self.course.start)
            g, floor = (float(v[failing.entry]) for v in self.truth.vjp(x, w))
            return replace(failing, g=g, error=floor) if found is Broken.WRONG else None
        u = np.where(alone, self.unit(x), 0.0)
        rule = subject.evaluate_rule(x, w, u)
        trial = next(run(subject, point, u, w, rule, plan_for(subject.epsilon)))
        resolved = resolve(subject, as_one_number(trial), np.array([0]))
        return failing if resolved.wrong.size else None


def _single_outputs(size: int, entry: int) -> Iterator[Array]:
    """Upstreams of one output: the one in the entry's place, and some throughout."""
    some = np.linspace(0, size - 1, n.FEW_ELEMENTS).astype(int)
    for k in dict.fromkeys([entry % size, *some.tolist()]):
        yield np.eye(1, size, k)[0]


def _stays(into: Callable[[Array], Array], x: Array) -> bool:
    return bool(np.array_equal(into(x), x, equal_nan=True))


def _rounded(x: Array, digits: int) -> Array:
    """Entries with so many digits."""
    with np.errstate(all="ignore"):
        unit = 10.0 ** (np.floor(np.log10(np.abs(x))) - digits + 1)
        return np.where((x == 0) | ~np.isfinite(x), x, np.round(x / unit) * unit)


def _as_given(layout: Layout, x: Array) -> Array:
    """The point as the inputs' own dtypes can hold it."""
    out, short = x.copy(), {"float32": "f4", "complex64": "f4", "float16": "f2"}
    for k, leaf in enumerate(layout.leaves):
        out[layout.span(k)] = x[layout.span(k)].astype(short.get(leaf.dtype, "f8"))
    return out
