"""A probe without a framework: a NumPy function and a NumPy rule, transposed entry by entry."""

from collections.abc import Callable, Sequence

import numpy as np

from pullback.check.course.examine import Examination, Problem
from pullback.check.probe import Claims, Facts, InMode, Leaf, RuleFault, Unsupported, WrongShape
from pullback.check.probe.flat import Subject
from pullback.check.search.domain import parse

EPSILON = float(np.finfo(np.float64).eps)
Function = Callable[..., list[np.ndarray]]


class NumpyProbe:
    """Two functions on lists of arrays, and everything the check asks of them."""

    def __init__(
        self,
        fn: Function,
        rule: Function,
        start: Sequence[np.ndarray],
        *,
        transposable: bool = True,
        analytic: bool = True,
        constants: tuple[float, ...] = (),
        epsilon: float = EPSILON,
    ) -> None:
        self.fn, self.rule, self._start = fn, rule, [np.asarray(x, float) for x in start]
        self.name, self.notes, self.calls = "fake", (), 0
        self.transposable, self.analytic, self.constants = transposable, analytic, constants
        self.value_epsilon = self.rule_epsilon = epsilon
        names = "xyzabc"
        self.inputs = tuple(
            Leaf(f"args[{k}]", names[k], x.shape, "float64") for k, x in enumerate(self._start)
        )
        self.outputs = tuple(
            Leaf(f"out[{k}]", f"out[{k}]", y.shape, "float64", kind="output")
            for k, y in enumerate(self.values(self._start))
        )

    def start(self):
        return list(self._start)

    def values(self, xs):
        with np.errstate(all="ignore"):
            return self.fn(*xs)

    def vjp(self, xs, ws):
        return self.values(xs), self._ruled(xs, ws)

    def _ruled(self, xs, ws):
        with np.errstate(all="ignore"):
            found = self.rule(xs, ws)
        for k, (g, x) in enumerate(zip(found, xs, strict=True)):
            if g is not None and np.shape(g) != np.shape(x):
                raise RuleFault(WrongShape(np.shape(g)), k)
        return found

    def claims(self, xs, ws, us, *, second):
        values, vjp = self.vjp(xs, ws)
        jvp = self._jvp(xs, us) if self.transposable else Unsupported("cannot be transposed")
        wanted = second and self.analytic
        again = self._second(xs, ws, us) if wanted else Unsupported("not analytic")
        return Claims(values, vjp, jvp, again)

    def _jvp(self, xs, us):
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
        return self._ruled(xs, ws)

    def facts(self, xs, ws):
        return Facts(self.constants)

    def modes(self):
        return ("another way",)

    def default_modes(self):
        return self.modes()

    def in_mode(self, mode, xs, ws, us):
        return InMode("vjp", self._ruled(xs, ws), self.rule_epsilon)

    def plain(self, what, xs, ws, us):
        return self._ruled(xs, ws)

    def source(self):
        return "fake.py:1"

    def close(self):
        return None


def examination(probe: NumpyProbe, **options) -> Examination:
    """An examination of a fake probe."""
    subject = Subject(probe, options.pop("truth", probe))
    domain = parse(options.pop("domain", None), subject.inputs, subject.start())
    return Examination(subject, domain, order=options.pop("order", 2), seed=options.pop("seed", 0))


def first_problem(exam: Examination, *, full: bool = True) -> Problem | None:
    """What the examination meets first."""

    def course():
        yield from exam.quick()
        if full:
            yield from exam.full()
            yield from exam.in_modes(exam.subject.rule.modes())

    with np.errstate(all="ignore"):
        return next(course(), None)
