"""Each input by itself: what is found of all of them together may be the doing of some.

An input has been tested where its share of a derivative stood above what could not be told there: the error bars, and
what is tolerated. The others are moved without it (`alone.py`). An input of which the rule says nothing has been tested
if nothing is seen of it when it moves by its own size, or if the program's own derivative knows nothing of it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pullback.check import numbers as n
from pullback.check.estimate.interval import State
from pullback.check.probe import Array, OutsideDomain, RuleFault
from pullback.check.verdict.alone import Alone, Share, shown
from pullback.check.verdict.judging import tolerance_of
from pullback.check.verdict.record import Failure, Problem
from pullback.check.verdict.resolve import moved_by_units
from pullback.check.verdict.scales import judge_part
from pullback.check.verdict.trial import Trial, total_size, usual_size

if TYPE_CHECKING:
    from pullback.check.verdict.course import Course

Gradient = Callable[[Array], Array | None]


class EachInput:
    """What trials at the given arguments tell of each input, and tests of those of which they do not."""

    def __init__(self, course: "Course") -> None:
        self.course, self.subject, self.layout = course, course.subject, course.subject.inputs
        sizes = np.diff(self.layout.ends)
        # there is nothing to be wrong in an input without entries
        self.tested = {k for k in range(sizes.size) if not sizes[k]}
        self.joint: Trial | None = None
        self.meets_kinks = False
        self._own: Array | None = None
        self._is_own_known = False
        self.lacks_calls = False  # to test the rest of them

    @property
    def untested(self) -> list[int]:
        """Inputs that nothing has been compared for."""
        return [k for k in range(len(self.layout.leaves)) if k not in self.tested]

    def take(self, trial: Trial, excused: Array) -> None:
        """What a trial says in which all claims are right, some of them only after they were asked about again."""
        least, weights = self._least(trial), np.abs(trial.w) if trial.whole else np.ones(1)
        moved = [k for k in range(len(self.layout.leaves)) if trial.u[self.layout.span(k)].any()]
        if len(moved) == 1:
            least[excused] = 0.0
            told = moved if shown(trial.claimed, least, weights) else []
        else:
            least[excused] = np.abs(trial.claimed[excused])
            total = float(np.sum(weights * least, where=weights > 0))
            told = [
                k for k in moved if abs(self._share(k, trial.u, trial.rule.r).claimed) >= total > 0
            ]
        self.tested.update(told)
        # a trial is as large as all there is at one point: it stays only where it is needed
        if self.joint is None and self.untested:
            self.joint, self.meets_kinks = trial, bool(excused.size)

    def _least(self, trial: Trial) -> Array:
        """The least change of each claim that would have been noticed."""
        size = np.abs(trial.claimed) + trial.size
        bar = n.BARS * (trial.slope.error + self.subject.epsilon * size)
        usual = np.abs(trial.claimed) + usual_size(trial.slope.value)
        usual = usual + trial.size if self.subject.is_rule_rounded else usual
        return np.nan_to_num(
            bar / n.COARSE + tolerance_of(self.course) * usual / n.LASTING, nan=np.inf
        )

    def _share(self, leaf: int, u: Array, r: Array) -> Share:
        alone, span = np.zeros(u.size), self.layout.span(leaf)
        alone[span] = u[span]
        terms = (r[span] * u[span])[u[span] != 0]
        return Share(leaf, alone, float(np.sum(terms)), float(np.sum(np.abs(terms))))

    def by_themselves(self) -> Iterator[Problem]:
        """The inputs of which no trial has told anything yet."""
        joint = self.joint
        if joint is None:
            return
        try:
            yield from self._one_by_one(joint)
        finally:
            self.lacks_calls = not self.course.may_call(n.WINDOW_CALLS)

    def _one_by_one(self, joint: Trial) -> Iterator[Problem]:
        shares = [self._share(k, joint.u, joint.rule.r) for k in self.untested]
        shares = [share for share in shares if share.u.any()]
        faint = self._faint(joint, [share for share in shares if share.size], self._by_rule)
        quiet = [share for share in shares if not share.size or share.leaf in faint]
        yield from self._moved(joint, [share for share in shares if share not in quiet])
        yield from self._at_rest(joint, quiet, faint)

    def _moved(self, joint: Trial, shares: Sequence[Share]) -> Iterator[Problem]:
        """All at once; each by itself if that does not settle it."""
        if len(shares) == 1 and self.meets_kinks and self.course.may_call(n.WINDOW_CALLS):
            yield from judge_part(self.course, joint.point, joint.w, shares[0].u)
        shares = [share for share in shares if share.leaf not in self.tested]
        if not shares or not self.course.may_call(n.WINDOW_CALLS):
            return
        found = Alone(self.course, joint, shares).judge()
        if found.state == State.RIGHT:
            self.tested.update(share.leaf for share in shares)
        elif len(shares) > 1:
            for share in shares:
                yield from self._moved(joint, [share])
        elif found.state == State.WRONG:
            yield Problem(Failure.VALUE, joint.point, found.trial, found.wrong)
        elif not shares[0].adds_up:
            yield from self._moved(joint, [self._adding_up(shares[0], joint)])

    def _adding_up(self, share: Share, joint: Trial) -> Share:
        """Each entry moved to the side on which the rule says that the result grows: nothing cancels."""
        grows = np.where(joint.rule.r < 0, -1.0, 1.0)
        return self._share(share.leaf, grows * np.abs(share.u), joint.rule.r)

    def _at_rest(
        self, joint: Trial, shares: Sequence[Share], noise: Mapping[int, float]
    ) -> Iterator[Problem]:
        """Inputs of which the rule says nothing: what the function and its program say."""
        if not shares or not self.course.may_call(1):
            return
        shares = list(map(self.with_own, shares))
        known = all(share.own is not None for share in shares)
        loud = [s for s in shares if s.own and not abs(s.own) <= n.BARS * noise.get(s.leaf, 0.0)]
        faint = self._faint(joint, loud, self._by_program)
        loud = [share for share in loud if share.leaf not in faint]
        if not known and (not self.course.may_call(2) or self._is_moved_by(joint, shares)):
            loud = shares
        self.tested.update(share.leaf for share in shares if share not in loud)
        for share in loud:
            found = Alone(self.course, joint, [replace(share, claimed=0.0)]).judge()
            if found.state == State.WRONG:
                yield Problem(Failure.VALUE, joint.point, found.trial, found.wrong)
            elif share.own is None:
                self.tested.add(share.leaf)

    def _is_moved_by(self, joint: Trial, shares: Sequence[Share]) -> bool:
        """Whether values change when inputs move by their own size."""
        u = np.sum([share.u for share in shares], axis=0)
        rounding = n.UNITS * self.subject.epsilon * joint.size
        moved = [
            self.subject.value_or_nan(joint.x + side * u) - joint.rule.values for side in (1, -1)
        ]
        return not all(np.all((np.abs(change) <= rounding) | (joint.w == 0)) for change in moved)

    # what is rounding, and what the program says

    def _faint(self, joint: Trial, shares: Sequence[Share], gradient: Gradient) -> dict[int, float]:
        """Inputs whose share is what rounding leaves of nothing, and by how much a few units of it change it."""
        epsilon = max(self.subject.epsilon, self.subject.rule.rule_epsilon)
        most, faint = n.ROUNDINGS * epsilon * total_size(joint), dict[int, float]()
        left = {s.leaf: [s.claimed if s.own is None else s.own] for s in shares if s.effect <= most}
        for step in n.CLAIM_MOVES:
            if not left or not self.course.may_call(1):
                break
            r = gradient(moved_by_units(self.subject, joint, step))
            if r is None:
                break
            for leaf in left:
                left[leaf].append(self._share(leaf, joint.u, r).claimed)
            noise = {k: float(np.ptp(values)) for k, values in left.items()}
            faint |= {k: x for k, x in noise.items() if abs(left[k][0]) <= n.NOISE_FACTOR * x}
            least = epsilon**n.FINE
            left = {
                k: v for k, v in left.items() if k not in faint and noise[k] > least * abs(v[0])
            }
        return faint

    def _by_rule(self, x: Array) -> Array | None:
        try:
            return self.subject.pull(x, self._upstream)[1]
        except (OutsideDomain, RuleFault):
            return None

    def _by_program(self, x: Array) -> Array | None:
        return self.subject.own_vjp(x, self._upstream)

    @property
    def _upstream(self) -> Array:
        return np.zeros(0) if self.joint is None else self.joint.w

    def with_own(self, share: Share) -> Share:
        """The share, with what the program's own derivative makes of it, where that can be had."""
        if not self._is_own_known and self.joint is not None:
            self._own, self._is_own_known = self._by_program(self.joint.x), True
        own = None if self._own is None else self._share(share.leaf, share.u, self._own).claimed
        return replace(share, own=own if own is not None and np.isfinite(own) else None)

    def reasons(self) -> Iterator[str]:
        """Why inputs stay undecided."""
        for k in self.untested:
            leaf, given = self.layout.leaves[k], self.course.start[self.layout.span(k)]
            if not np.isfinite(given).any():
                yield f"`{leaf.name}` cannot be moved: all of it is NaN or infinite as given"
            elif self.lacks_calls:
                yield f"`{leaf.name}` was not tested by itself, for which quick=True has too few calls"
            else:
                yield f"the effect of `{leaf.name}` is hidden by the rounding of the result"
