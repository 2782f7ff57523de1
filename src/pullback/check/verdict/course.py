"""The course of a check: the given arguments, contract, another point, special points, modes.

It stops at the first point with a finding. What was tested, and what stayed open, is kept for the report.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from pullback.check import numbers as n
from pullback.check import progress
from pullback.check.estimate.ladder import plan_for
from pullback.check.probe import Array, Facts, OutsideDomain, RuleFault
from pullback.check.probe.vectors import all_finite
from pullback.check.search import directions, points
from pullback.check.search.domain import Domain, symmetric_leaves
from pullback.check.search.points import Kind, Point
from pullback.check.search.suggested import suggested_by
from pullback.check.search.turns import turns
from pullback.check.subject import RuleOutput, Subject
from pullback.check.verdict.contract import contract
from pullback.check.verdict.far import far_out
from pullback.check.verdict.inputs import EachInput
from pullback.check.verdict.judging import first_order, second_order
from pullback.check.verdict.nonfinite import Broken, judge_broken
from pullback.check.verdict.record import Failure, Problem, Record
from pullback.check.verdict.scales import smaller_scales
from pullback.check.verdict.trial import (
    run,
    sizes_of,
    usual_size,
)
from pullback.errors import CheckError

_NO_NUMBERS = np.empty(0)


class Course:
    """One check under way."""

    def __init__(
        self,
        subject: Subject,
        domain: Domain,
        *,
        order: int | None,
        tolerance: float,
        seed: int,
    ) -> None:
        self.subject = subject
        self.keep_to(domain)
        self.order, self.is_order_asked_for = order or 2, order is not None
        self.tolerance, self.second_at_placed = tolerance, True
        self.has_passed_contract = False
        self.rng = np.random.default_rng(seed)
        self.start = domain.start
        self.reached = ~np.isfinite(self.start)
        self.record, self.each_input = Record(), EachInput(self)
        self.facts, self._facts, self.has_read = Facts(), None, False
        self.suggested = suggested_by(subject.inputs, self.start, signs=True)
        self.upstream = directions.signed(self.rng, subject.outputs.size)
        self.given: RuleOutput | None = None
        # an upstream and the gradient for it, as it runs in the arguments' own format
        self.as_given: tuple[Array, Sequence[Array | None]] | None = None

    def keep_to(self, domain: Domain) -> None:
        """Move within a domain from now on."""
        self.domain, self.subject.symmetric = domain, domain.matrices

    # the parts of a check, each giving the problems it meets

    def quick(self) -> Iterator[Problem]:
        """The given arguments, the contract, another point."""
        self.measure_scale()
        try:
            yield from self._at(Point(Kind.GIVEN, self.start))
            # long vectors are let go of as soon as nobody needs them
            if self.given is not None:
                self.given = self.given.without_values()
            yield from contract(self)
            if self.given is not None:
                self.given = replace(self.given, r=_NO_NUMBERS)
            self.first, self.has_passed_contract = _NO_NUMBERS, True
            yield from self._another()
            yield from self.each_input.by_themselves()
        except RuleFault as fault:
            yield Problem(Failure.FAULT, fault=fault)

    def full(self) -> Iterator[Problem]:
        """Points where rules tend to be wrong."""
        self.read_program()
        # else large values are all rounding
        is_long = n.ROUNDINGS * max(self.subject.epsilon, self.subject.rule.rule_epsilon) < 1
        made = points.special(self.rng, self.subject.inputs, self.start, self.facts.constants)
        for point in made:
            if is_long or not point.kind.is_far_out:
                yield from self._made_up(point)
        for point in self._turns():
            yield from self._made_up(point)
        for moved in (points.flipped_and_grown, points.made_largest):
            dead = ~self.reached
            if dead.any() and not dead.all():
                x = moved(self.rng, self.elsewhere(0), dead)
                yield from self._made_up(Point(Kind.NOT_REACHED, x))
        yield from far_out(self)

    def _turns(self) -> Iterator[Point]:
        """Points at which comparisons turn of which constants do not tell where they do."""
        found = self.facts.margins and self.subject.margins(self.start, self.upstream)
        for margins in found or ():
            yield from turns(margins, self.subject.inputs, self.start)

    # what others ask of it

    def read_facts(self) -> Facts:
        """What function and rule compare their values with, read when it is first asked for."""
        if self._facts is None:
            self._facts = self.subject.facts(self.start, self.upstream)
        return self._facts

    def read_program(self) -> None:
        """Let what function and rule compare their values with say where to look."""
        self.has_read = True
        self.facts = self.read_facts()
        self.record.notes += self.facts.notes
        signs = not self.facts.branches_on_sign
        self.suggested = suggested_by(self.subject.inputs, self.start, signs=signs)

    def may_call(self, times: int) -> bool:
        """Whether so many more calls of the function can be made."""
        return self.subject.may_spend(times)

    def reads_custom(self) -> bool:
        """Whether somebody's own gradient is at work."""
        return self.read_facts().custom

    def other_points(self) -> list[Point]:
        """Points of every kind, visited or not, for a diagnosis to be tested at."""
        constants, rng = self.read_facts().constants, np.random.default_rng(7)
        made = points.special(rng, self.subject.inputs, self.start, constants)
        near = [point for point in made if not point.kind.is_far_out]
        return [replace(point, x=self.within(point.kind)(point.x)) for point in near]

    def another_point(self, attempt: int = 0) -> Point:
        """A generic point away from the given one."""
        return Point(Kind.ANOTHER, self.elsewhere(attempt))

    def within(self, kind: Kind) -> Callable[[Array], Array]:
        """Moves a point near one of this kind to where the function may be called.

        Made-up points leave what the arguments suggest only where the program itself branches there.
        """
        at_branch = kind.is_threshold or (kind is Kind.NEGATIVE and self.facts.branches_on_sign)
        suggested = self.suggested.in_order if at_branch else self.suggested.into
        return lambda x: self.subject.keep_held(suggested(self.domain.into(x)), self.start)

    # the end

    def finish(self) -> bool:
        """Whether the function is still what it was when the check began; and the given arguments have been tested."""
        if not any(point.is_given for point in self.record.points[1]):
            self.record.reasons.append("nothing could be compared at the given arguments")
        elif not self.record.open_given and not self.record.reasons:
            self.record.reasons += self.each_input.reasons()
        try:
            same = self.subject.gives(self.at_first, self.start)
            why = "" if same else "the function gave other values at the end of the check"
        except OutsideDomain as error:
            why = f"the function began to raise during the check: {error}"
        self.record.reasons += [why] * bool(why)
        self.record.varies = bool(why)
        return not why

    def has_no_calls_left(self, most: int) -> None:
        """The verdict is on what was tested: the given arguments, if nothing was left open elsewhere; or nothing."""
        only = f"a quick check makes no more than {most} calls"
        if self.has_passed_contract and not self.record.open_elsewhere:
            self.record.note(f"no other point was tested to the end: {only}")
        else:
            self.record.reasons.append(f"{only}, which do not settle it: leave `quick` out")

    # given arguments and contract

    def measure_scale(self) -> None:
        """The size of values per output leaf, where the user is."""
        try:
            y = self.first = self.subject.value(self.start)
        except OutsideDomain as error:
            raise CheckError(f"the function raised for the given arguments: {error}") from error
        # to be compared with at the end; a long vector in fewer bytes
        self.at_first = y if y.size < n.LARGE_INPUT else y.astype(np.float32)
        if y.size and not np.isfinite(y).any():
            raise CheckError(
                f"{self.subject.rule.name} gives no finite value at the given arguments "
                f"(all of its {y.size} outputs are NaN or infinite). Pass arguments inside its domain."
            )
        layout = self.subject.outputs
        sizes = sizes_of(layout, y)
        if not all(sizes):  # zero here: of what size it is elsewhere
            with contextlib.suppress(OutsideDomain):
                there = sizes_of(layout, self.subject.value(self.elsewhere(0)))
                sizes = [here or other for here, other in zip(sizes, there, strict=True)]
        self.subject.scale = layout.fill(sizes)

    # points

    def _another(self) -> Iterator[Problem]:
        self.upstream = directions.signed(self.rng, self.subject.outputs.size)
        for attempt in range(3):
            before = self._tested
            yield from self._at(self.another_point(attempt))
            if self._tested > before:
                return
        self.record.left_out.append(Kind.ANOTHER)

    def _made_up(self, point: Point) -> Iterator[Problem]:
        """A special point, or one part of the way there if it lies outside the domain."""
        for share in (1.0, n.PART_OF_THE_WAY):
            far = point.x if share == 1.0 else self.start + share * (point.x - self.start)
            here = replace(point, x=self.within(point.kind)(far), towards=share < 1.0)
            before = self._tested
            try:
                yield from self._at(here)
            except RuleFault as fault:
                yield from self._fault(here, fault)
                return
            if self._tested > before:
                return
        self.record.left_out.append(point.kind)

    def _fault(self, point: Point, fault: RuleFault) -> Iterator[Problem]:
        """A rule that raises at a made-up point is as one that is not finite there: the function must have slopes."""
        everywhere, y = np.ones(point.x.size, bool), self.subject.value(point.x)
        found = judge_broken(self.subject, point, self.upstream, y, everywhere, self.start)
        if found in (Broken.WRONG, Broken.COINCIDENCE) and self.reads_custom():
            yield Problem(Failure.FAULT, point, fault=fault)
        else:
            self.record.note(f"the rule raises at {point}, where the function does not: {fault}")

    def _at(self, point: Point) -> Iterator[Problem]:
        """Everything about one point: along a generic direction, and where kinks were met one entry of each kind."""
        progress.say(f"point {self._tested + 1}, {point}")
        for u in self._directions(point):
            u = self.subject.keep_held(self.domain.along(point.x, u), 0.0)
            problem = next(self._along(point, u), None)
            if problem is not None and self._is_for_symmetric(problem):
                yield from self._at(point)
                return
            if problem is not None:
                yield problem
                return

    @property
    def _tested(self) -> int:
        """Points so far at which something could be compared."""
        return len(self.record.points[1])

    @property
    def _met(self) -> int:
        """Kinks and undecided entries so far: where there are more of them, second derivatives mean nothing."""
        return self.record.kinks + self.record.open_elsewhere + self.record.open_given

    def _directions(self, point: Point) -> Iterator[Array]:
        layout, x = self.subject.inputs, point.x
        if point.keep_ties:
            yield directions.tie_keeping(self.rng, layout, x)
            return
        met, tested = self._met, self._tested
        yield directions.generic(self.rng, layout, x)
        if self._tested == tested and point.kind.is_generic:
            yield directions.relative(self.rng, layout, x)
        if point.placed.any() and self._met > met:
            yield directions.sparse_at(self.rng, layout, x, point.placed)

    def _along(self, point: Point, u: Array) -> Iterator[Problem]:
        subject, w = self.subject, self.upstream
        second = self._wants_second(point)
        try:
            rule = subject.evaluate_rule(point.x, w, u, second=second)
        except OutsideDomain:
            return
        finite = np.isfinite(rule.values)
        if not finite.any():
            return
        if not finite.all():  # what flows back from outputs without a value is nobody's business
            w = np.where(finite, w, 0.0)
            rule = subject.evaluate_rule(point.x, w, u, second=second)
        if point.is_given:
            self.given, subject.rule_scale = rule, usual_size(rule.r)
        yield from self._broken(point, rule)
        u = u if all_finite(rule.r) else np.where(np.isfinite(rule.r), u, 0.0)
        if not u.any():
            return
        plan = plan_for(subject.epsilon, brief=not point.kind.is_generic)
        trials, before = run(subject, point, u, w, rule, plan), self._met
        yield from first_order(self, next(trials))
        if point.is_given:
            yield from self._at_own_scales(point, u)
        rule = rule.without_values()
        if rule.second is not None and before == self._met and np.isfinite(rule.r).all():
            for again in trials:
                yield from second_order(self, again)
        elif second and rule.no_second:
            self.record.note(f"second order not available: {rule.no_second.reason}")
        self.reached |= rule.r != 0

    def _at_own_scales(self, point: Point, u: Array) -> Iterator[Problem]:
        yield from smaller_scales(self, point, u)
        if self.order > 1:  # what is wrong to first order is so to second
            yield from self.each_input.by_themselves()

    def _wants_second(self, point: Point) -> bool:
        """Second order at generic points; where the rule has branches, at all points."""
        if self.order == 1:
            return False
        if self.subject.is_rule_rounded:
            text = "second derivatives are not tested: the rule runs in a short format, whose rounding hides them"
            told = self.record.reasons if self.is_order_asked_for else self.record.notes
            told += [text] * (text not in told)
            return False
        if point.is_placed and not self.second_at_placed:
            return False
        return point.kind.is_generic or self.read_facts().branches

    def _broken(self, point: Point, rule: RuleOutput) -> Iterator[Problem]:
        broken = ~np.isfinite(rule.r)
        if not broken.any():
            return
        if not np.isfinite(rule.values).all() and not point.is_given:
            return  # it may come from outputs that have no value
        found = judge_broken(self.subject, point, self.upstream, rule.values, broken, self.start)
        # at a coincidence a derivative exists, which the engine's own operations may miss
        excused = found is Broken.COINCIDENCE and not self.reads_custom()
        if found in (Broken.WRONG, Broken.COINCIDENCE) and not excused:
            yield Problem(Failure.NOT_FINITE, point, positions=np.flatnonzero(broken))
        elif excused or found is Broken.NOTE:
            self.record.note(
                f"the gradient is not finite at {point}, where several entries coincide: "
                f"{self.subject.inputs.locate(int(np.flatnonzero(broken)[0]))}"
            )
        else:
            reason = "the gradient is not finite, nor is a slope to be found"
            self.open(point, int(broken.sum()), reason)

    def open(self, point: Point, count: int, reason: str) -> None:
        """Entries that stay undecided; at the given arguments they cost the verdict."""
        if point.is_given:
            self.record.open_given += count
            self.record.reasons.append(reason)
        else:
            self.record.open_elsewhere += count

    def _is_for_symmetric(self, problem: Problem) -> bool:
        """Whether the function means symmetric matrices only, so that the test must keep to them."""
        which = symmetric_leaves(self.subject.inputs, self.start)
        if problem.kind is not Failure.VALUE or not which or self.domain.matrices:
            return False
        before = self.domain
        self.keep_to(before.with_symmetric(which))
        towards = directions.generic(self.rng, self.subject.inputs, self.start)
        u = self.domain.along(self.start, towards)
        found = self._along(Point(Kind.GIVEN, self.start), u)
        if any(again.kind is not Failure.SECOND for again in found):
            self.keep_to(before)
            return False
        names = ", ".join(self.subject.inputs.leaves[k].name for k in which)
        self.record.note(f"{names}: right for symmetric matrices, tested within those")
        return True

    def elsewhere(self, attempt: int) -> Array:
        """A generic point away from the given one; each further attempt strays less."""
        made = points.another(self.rng, self.subject.inputs, self.start, attempt)
        return self.within(Kind.ANOTHER)(made)
