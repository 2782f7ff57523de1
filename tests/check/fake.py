"""A probe without a framework: a NumPy function and a NumPy rule, transposed entry by entry."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from pullback.check.budget import Calls
from pullback.check.probe import (
    Claims,
    Facts,
    InMode,
    Leaf,
    RuleFault,
    Unsupported,
    WrongShape,
)
from pullback.check.search.domain import parse
from pullback.check.subject import Subject
from pullback.check.verdict.course import Course
from pullback.check.verdict.modes import in_modes
from pullback.check.verdict.record import Problem

EPSILON = float(np.finfo(np.float64).eps)
Function = Callable[..., list[np.ndarray]]


class NumpyProbe:
    """Two functions on lists of arrays, and everything the check asks of them.

    `transpose` is what the framework makes of differentiating the rule by its upstream, where that is not the rule
    transposed: a function of inputs and directions.
    """

    def __init__(
        self,
        fn: Function,
        rule: Function,
        start: Sequence[np.ndarray],
        *,
        transposable: bool = True,
        transpose: Function | None = None,
        analytic: bool = True,
        facts: Facts | None = None,
        epsilon: float = EPSILON,
        names: str = "xyzabc",
    ) -> None:
        self.fn, self.rule, self._start = fn, rule, [np.asarray(x, float) for x in start]
        self.name, self.notes = "fake", ()
        self.transposable, self.transpose, self.analytic = transposable, transpose, analytic
        self.facts = facts or Facts()
        self.calls = Calls()
        self.visited: list[np.ndarray] = []  # where the rule was asked for all it has to say
        self.value_epsilon = self.rule_epsilon = epsilon
        self.inputs = tuple(
            Leaf(f"args[{k}]", names[k], x.shape, "float64") for k, x in enumerate(self._start)
        )
        self.outputs = tuple(
            Leaf(f"out[{k}]", f"out[{k}]", y.shape, "float64", kind="output")
            for k, y in enumerate(self._values(self._start))
        )

    def start(self):
        return list(self._start)

    def values(self, xs):
        self.calls.spend()
        return self._values(xs)

    def _values(self, xs):
        with np.errstate(all="ignore"):
            return self.fn(*xs)

    def vjp(self, xs, ws):
        return self.values(xs), self._ruled(xs, ws)

    def vjp_as_given(self, xs, ws):
        return self.vjp(xs, ws)

    def _ruled(self, xs, ws):
        with np.errstate(all="ignore"):
            found = self.rule(xs, ws)
        for k, (g, x) in enumerate(zip(found, xs, strict=True)):
            if g is not None and np.shape(g) != np.shape(x):
                raise RuleFault(WrongShape(np.shape(g)), k)
        return found

    def claims(self, xs, ws, us, *, second):
        self.visited.append(np.concatenate([np.ravel(x) for x in xs]))
        values, vjp = self.vjp(xs, ws)
        jvp = self._jvp(xs, us) if self.transposable else Unsupported("cannot be transposed")
        wanted = second and self.analytic
        again = self._second(xs, ws, us) if wanted else Unsupported("not analytic")
        return Claims(values, vjp, jvp, again)

    def _jvp(self, xs, us):
        if self.transpose is not None:
            return self.transpose(xs, us)
        shapes = [leaf.shape for leaf in self.outputs]
        out = [np.zeros(shape) for shape in shapes]
        for k, shape in enumerate(shapes):
            for i in np.ndindex(*shape):
                ws = [np.zeros(s) for s in shapes]
                ws[k][i] = 1.0
                found = self._ruled(xs, ws)
                pairs = zip(found, us, strict=True)
                out[k][i] = sum(float(np.sum(g * u)) for g, u in pairs if g is not None)
        return out

    def _second(self, xs, ws, us):
        """By the complex step, which is exact for analytic rules."""
        out = [np.zeros(x.shape) for x in xs]
        for k, x in enumerate(xs):
            for i in np.ndindex(*x.shape):
                moved = [np.asarray(a, complex) for a in xs]
                moved[k][i] += 1e-30j
                pairs = zip(self.rule(moved, ws), us, strict=True)
                total = sum(np.sum(g * u) for g, u in pairs if g is not None)
                out[k][i] = np.imag(total) / 1e-30
        return out

    def vjp_after(self, xs, others, ws):
        self.values(others)
        self.calls.spend()
        return self._ruled(xs, ws)

    def traced_function(self):
        return Unsupported("there is no program")

    def traced(self, xs, ws, *, as_given=False):
        return Unsupported("there is no program")

    def modes(self):
        return ("another way",)

    def default_modes(self):
        return self.modes()

    def in_mode(self, mode, xs, ws, us):
        return InMode("vjp", self.vjp(xs, ws)[1], self.rule_epsilon)

    def plain(self, what, xs, ws, us):
        return self.vjp(xs, ws)[1]

    def source(self):
        return "fake.py:1"

    def source_line(self):
        return ""

    def close(self):
        return None


class FakeSubject(Subject):
    """What fake probes compare their values with is what they were given."""

    def facts(self, x, w):
        return self.rule.facts


def course_of(probe: NumpyProbe, **options) -> Course:
    """The course of a check on a fake probe."""
    subject = FakeSubject(probe, options.pop("truth", probe))
    domain = parse(options.pop("domain", None), subject.inputs, subject.start())
    asked = {"order": None, "tolerance": 0.0, "seed": 0, **options}
    return Course(subject, domain, **asked)


def problems(course: Course, *, full: bool = True) -> Iterator[Problem]:
    """What the course meets, part by part."""
    yield from course.quick()
    if full:
        yield from course.full()
        yield from in_modes(course, course.subject.rule.modes())


def first_problem(course: Course, *, full: bool = True) -> Problem | None:
    """What the course meets first."""
    with np.errstate(all="ignore"):
        found = next(problems(course, full=full), None)
        course.finish()
    return found


def verdict_of(probe: NumpyProbe, *, full: bool = True, **options) -> str:
    """`"right"`, `"wrong"` or `"undecided"`, as a report would say."""
    course = course_of(probe, **options)
    if first_problem(course, full=full) is not None:
        return "wrong"
    return "undecided" if course.record.open_given or course.record.reasons else "right"
