"""The course of a check: contract, generic points, special points, modes; it stops at the first failure."""

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pullback.check.doubt.witness import Doubt, doubt
from pullback.check.measure.ladder import Plan, brief_plan, generic_plan
from pullback.check.measure.trial import ANOTHER, GIVEN, Trial, run
from pullback.check.probe import Array, InMode, OutsideDomain, RuleFault, Unsupported, Why
from pullback.check.probe.flat import Subject
from pullback.check.probe.vectors import all_finite, typical
from pullback.check.search import directions, points
from pullback.check.search.domain import Domain, symmetric_leaves
from pullback.check.search.points import Place
from pullback.errors import CheckError


class Failure(enum.Enum):
    """Which test failed."""

    FAULT = enum.auto()  # the rule raises, or gives something that is no gradient of its input
    ZERO = enum.auto()  # an upstream of zero gives a gradient
    STALE = enum.auto()
    LINEAR = enum.auto()
    DETACHED_UPSTREAM = enum.auto()
    VALUE = enum.auto()
    SECOND = enum.auto()
    MODE = enum.auto()


@dataclass(frozen=True)
class Problem:
    """Something wrong, before it is explained.

    Positions are entries of J·u (order 1) or of the gradient (order 2).
    """

    kind: Failure
    trial: Trial | None = None
    positions: Array = field(default_factory=lambda: np.empty(0, int))
    fault: RuleFault | None = None
    text: str = ""
    generic: bool = True
    at_kink: bool = False
    numbers: tuple[float, float] | None = None
    where: str = ""


class Examination:
    """One check under way: the subject, the random numbers, and what has been seen so far."""

    def __init__(self, subject: Subject, domain: Domain, *, order: int, seed: int) -> None:
        self.subject, self.domain, self.order = subject, domain, order
        self.rng = np.random.default_rng(seed)
        self.start = domain.start
        self.reached = np.zeros(subject.inputs.size, bool)
        self.judged = np.zeros(subject.inputs.size, bool)
        self.right_in_general = np.zeros(subject.inputs.size, bool)
        self.points: list[Place] = []
        self.left_out: list[Place] = []
        self.modes: list[str] = []
        self.notes: list[str] = []
        self.constants: tuple[float, ...] = ()
        self.kinks = self.undecided = 0
        self.orders = 1
        self.alone = self.looked = False
        self.upstream = directions.signed(self.rng, subject.outputs.size)
        self.told: Array | None = None

    # the parts of a check, each giving the first problem it meets

    def quick(self) -> Iterator[Problem]:
        """Contract and two generic points."""
        self._measure_scale()
        try:
            yield from self._generic(GIVEN, self.start)
            yield from self._contract()
            yield from self._second_point()
        except RuleFault as fault:
            yield Problem(Failure.FAULT, fault=fault)

    def full(self) -> Iterator[Problem]:
        """Points where rules tend to be wrong."""
        self.right_in_general = self.reached.copy()
        self.look_at_program()
        layout = self.subject.inputs
        for point in points.special(self.rng, layout, self.start, self.constants):
            if self.subject.epsilon < 1e-4 or point.kind not in points.FAR_OUT:
                yield from self._special(point)
        yield from self._unreached()

    def look_at_program(self) -> None:
        """Learn what function and rule compare their values with; once."""
        if self.looked:
            return
        self.looked = True
        xs = self.subject.inputs.split(self.start)
        facts = self.subject.rule.facts(xs, self.subject.outputs.split(self.upstream))
        self.subject.calls += 1
        self.constants, self.notes = facts.constants, [*self.notes, *facts.notes]

    def in_modes(self, wanted: Sequence[str]) -> Iterator[Problem]:
        """The other ways of running, compared with the plain one."""
        x, w = self.start, self.upstream
        split = self.subject.inputs.split
        place = split(x), self.subject.outputs.split(w), split(self._direction(x))
        plain: dict[str, Sequence[Array | None] | Unsupported] = {}
        for mode in wanted:
            self.subject.calls += 1
            answer = self.subject.rule.in_mode(mode, *place)
            if isinstance(answer, InMode) and answer.what not in plain:
                self.subject.calls += 1
                plain[answer.what] = self.subject.rule.plain(answer.what, *place)
            yield from self._mode(mode, answer, plain)

    # contract

    def _measure_scale(self) -> None:
        try:
            y = self.subject.value(self.start)
        except OutsideDomain as error:
            raise CheckError(f"the function raised for the given arguments: {error}") from error
        if y.size and not np.isfinite(y).any():
            raise CheckError(
                f"{self.subject.rule.name} gives no finite value at the given arguments "
                f"(all of its {y.size} outputs are NaN or infinite). Pass arguments inside its domain."
            )
        layout = self.subject.outputs
        sizes = [typical(y[layout.span(k)]) for k in range(len(layout.leaves))]
        self.subject.scale = layout.fill(sizes)

    def _contract(self) -> Iterator[Problem]:
        subject, x, w = self.subject, self.start, self.upstream
        plain = subject.pull(x, w)[1] if self.told is None else self.told
        self.told = None
        if not all_finite(plain):
            return
        _, at_zero = subject.pull(x, np.zeros_like(w))
        if np.any(at_zero != 0):
            yield Problem(Failure.ZERO)
        other = self.domain.into(points.opposite(self.rng, subject.inputs, x))
        try:
            late = subject.pull_after(x, other, w)
        except OutsideDomain:
            late = subject.pull_after(x, self._elsewhere(2), w)
        if not _alike(plain, late, subject.rule.rule_epsilon):
            yield Problem(Failure.STALE)

    # points

    def _generic(self, name: Place, x: Array) -> Iterator[Problem]:
        plan = generic_plan(self.subject.epsilon)
        for kind in (directions.generic, directions.relative):
            u = self.domain.along(x, kind(self.rng, self.subject.inputs, x))
            found = list(self._tried(name, x, u, plan, self._wants_second(name)))
            problems = [p for p in found if p is not None]
            if problems and self._symmetric_instead(problems[0]):
                yield from self._generic(name, x)
                return
            yield from problems
            if found or problems:
                return

    def _wants_second(self, name: Place) -> bool:
        """Second order at one generic point: the one that is not the user's, if there is one."""
        return self.order > 1 and (name != GIVEN or self.alone)

    def _symmetric_instead(self, problem: Problem) -> bool:
        """Whether the function means symmetric matrices only, so that the test must keep to them."""
        which = symmetric_leaves(self.subject.inputs, self.start)
        if problem.kind is not Failure.VALUE or not which or self.domain.matrices:
            return False
        before, self.domain = self.domain, self.domain.with_symmetric(which)
        plan = generic_plan(self.subject.epsilon)
        u = self._direction(self.start)
        if any(self._tried(Place(points.Kind.SYMMETRIC), self.start, u, plan, False)):
            self.domain = before
            return False
        names = ", ".join(self.subject.inputs.leaves[k].name for k in which)
        self.notes.append(f"{names}: right for symmetric matrices, tested within those")
        return True

    def _second_point(self) -> Iterator[Problem]:
        self.upstream = directions.signed(self.rng, self.subject.outputs.size)
        for attempt in range(3):
            tried = len(self.points)
            yield from self._generic(ANOTHER, self._elsewhere(attempt))
            if len(self.points) > tried:
                return
        self.left_out.append(ANOTHER)
        if self.order > 1:
            self.alone = True
            yield from self._generic(GIVEN, self.start)

    def _special(self, point: points.Point) -> Iterator[Problem]:
        """One special point, or one part of the way there if it lies outside the domain."""
        held = self._held(point)
        for share in (1.0, 0.3):
            far = point.x if share == 1.0 else points.towards(self.start, point.x, share)
            x = self.domain.into(far)
            name = Place(point.kind, towards=share < 1.0)
            try:
                found = self._along_special(point, name, x, held)
            except RuleFault as fault:
                self._note(
                    f"the rule raises at {name} inputs, where the function does not: {fault}"
                )
                return
            yield from (replace(p, generic=False) for p in found if p is not None)
            if found:
                return
            self.left_out.append(Place(point.kind))

    def _held(self, point: points.Point) -> Array | None:
        if point.special.size and point.special.any():
            return point.special
        return np.zeros(point.x.size, bool) if point.keep_ties else None

    def _along_special(
        self, point: points.Point, name: Place, x: Array, held: Array | None
    ) -> list[Problem | None]:
        found: list[Problem | None] = []
        for u in self._special_directions(point, x):
            found += self._tried(name, x, self.domain.along(x, u), self._brief(), False, held)
            if any(found):
                break
        return found

    def _special_directions(self, point: points.Point, x: Array) -> Iterator[Array]:
        """All entries; then, if that met kinks, one of each of those that sit at chosen values."""
        layout, before = self.subject.inputs, (self.kinks, self.undecided)
        if point.keep_ties:
            yield directions.tie_keeping(self.rng, layout, x)
            return
        yield directions.generic(self.rng, layout, x)
        if point.special.any() and before != (self.kinks, self.undecided):
            yield directions.sparse_at(self.rng, layout, x, point.special)

    def _unreached(self) -> Iterator[Problem]:
        """Points for entries whose gradient was zero wherever something could be told so far."""
        for moved in (points.turned, points.raised):
            dead = ~self.judged
            if dead.any() and not dead.all():
                x = moved(self.rng, self._elsewhere(0), dead)
                point = points.Point(points.Kind.NOT_REACHED, x, points.NOTHING)
                yield from self._special(point)

    def _tried(
        self, name: Place, x: Array, u: Array, plan: Plan, second: bool, held: Array | None = None
    ) -> Iterator[Problem | None]:
        """Problems at one point; a `None` says that something was tested and is right."""
        try:
            first, again = run(self.subject, name, x, u, self.upstream, plan, second=second)
        except OutsideDomain:
            return
        first = replace(first, held=held)
        if name == GIVEN and not self.points:
            self.told = first.said.r
        self.reached |= first.said.r != 0
        if not first.resolved().any():
            return
        if name not in self.points[-1:]:
            self.points.append(name)
        kinks, unclear = self.kinks, self.kinks + self.undecided
        yield from self._judged(first, Failure.VALUE)
        if unclear == self.kinks + self.undecided:
            self.judged |= first.said.r != 0
        if kinks == self.kinks and (second or self.order == 1):
            yield from self._linear(first)
        if again is not None:
            self.orders = 2
            yield from self._judged(again, Failure.SECOND)
        elif second and first.said.no_second:
            self._note(f"second order not available: {first.said.no_second.reason}")
        yield None

    def _judged(self, trial: Trial, kind: Failure) -> Iterator[Problem]:
        suspects = trial.suspects(self.subject.rule.rule_epsilon)
        if not suspects.size:
            return
        try:
            found = doubt(self.subject, trial, suspects)
        except OutsideDomain:
            found = Doubt(np.empty(0, int), np.empty(0, int), suspects)
        self.kinks += found.kinks.size
        self.undecided += found.open.size
        if found.wrong.size:
            yield Problem(kind, trial, found.wrong, at_kink=found.at_kink)

    def _linear(self, trial: Trial) -> Iterator[Problem]:
        """⟨vjp(w), u⟩ = ⟨w, J·u⟩: true of every rule that is linear in its upstream."""
        said = trial.said
        if said.jvp is None:
            unused = said.no_jvp is not None and said.no_jvp.why is Why.UPSTREAM_UNUSED
            if self.order > 1 and np.any(said.r) and unused:
                yield Problem(Failure.DETACHED_UPSTREAM, trial)
            return
        left, right = said.r * trial.u, said.jvp * trial.w
        if not (np.isfinite(left).all() and np.isfinite(right).all()):
            return
        size = np.sqrt(np.sum(left**2)) + np.sqrt(np.sum(right**2))
        gap = abs(np.sum(left) - np.sum(right))
        size += np.sqrt(np.sum((self.subject.scale * trial.w) ** 2))
        if gap > max(1e4 * self.subject.rule.rule_epsilon, 1e-8) * size:
            yield Problem(Failure.LINEAR, trial)

    # modes

    def _mode(
        self,
        mode: str,
        answer: InMode | Unsupported,
        plain: Mapping[str, Sequence[Array | None] | Unsupported],
    ) -> Iterator[Problem]:
        wanted = answer if isinstance(answer, Unsupported) else plain[answer.what]
        if isinstance(answer, Unsupported) or isinstance(wanted, Unsupported):
            reason = wanted.reason if isinstance(wanted, Unsupported) else ""
            self._note(f"{mode}: not run ({reason})")
            return
        layout = self.subject.inputs if answer.what == "vjp" else self.subject.outputs
        found, known = layout.join(answer.found), layout.join(wanted)
        self.modes.append(mode)
        if not _alike(known, found, answer.epsilon):
            with np.errstate(invalid="ignore"):
                gap = np.abs(found - known)
            worst = int(np.argmax(np.where(np.isnan(gap), np.inf, gap)))
            numbers = (float(found[worst]), float(known[worst]))
            yield Problem(Failure.MODE, text=mode, numbers=numbers, where=layout.locate(worst))

    # small things

    def _direction(self, x: Array) -> Array:
        return self.domain.along(x, directions.generic(self.rng, self.subject.inputs, x))

    def _brief(self) -> Plan:
        return brief_plan(self.subject.epsilon)

    def _elsewhere(self, attempt: int) -> Array:
        layout = self.subject.inputs
        return self.domain.into(points.another(self.rng, layout, self.start, attempt))

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def _alike(a: Array, b: Array, epsilon: float) -> bool:
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)):
        return False
    if not finite.all():
        a, b = a[finite], b[finite]
    scale = float(np.max(np.abs(a), initial=0.0))
    return bool(np.all(np.abs(a - b) <= max(1e-7, 1e3 * epsilon) * scale))
