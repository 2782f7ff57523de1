"""Which input, which element: directions that move less and less, at O(log n) calls."""

from dataclasses import dataclass

import numpy as np

from pullback.check.flat import Subject
from pullback.check.ladder import Plan, brief_plan, generic_plan
from pullback.check.probe import Array
from pullback.check.trial import BARS, Trial, run

FEW = 4
# after so many halvings with one right half each, the wrong entries are taken to lie together
SURE = 4


@dataclass(frozen=True)
class Look:
    """Claim and measurement along one direction, with what counts as different there."""

    got: Array
    wanted: Array
    bars: Array
    trial: Trial

    @property
    def gap(self) -> Array:
        """How far they are apart; not finite counts as far."""
        with np.errstate(invalid="ignore"):
            gap = np.abs(self.got - self.wanted)
        return np.where(np.isfinite(gap), gap, np.inf)

    @property
    def wrong(self) -> Array:
        """Entries that differ."""
        return np.flatnonzero(np.isfinite(self.bars) & (self.gap > BARS * self.bars))


class Scene:
    """A point at which a rule was found wrong, to look at again along other directions."""

    def __init__(self, subject: Subject, trial: Trial) -> None:
        self.subject, self.trial = subject, trial
        self.layout = subject.inputs
        # what is being traced is as large as the error found, so the bars need not be finer
        self.floor = 1e-3 * float(np.max(trial.gap[np.isfinite(trial.gap)], initial=0.0))
        self.plan: Plan = brief_plan(subject.epsilon)
        if trial.gap.size and self._small():
            self.plan = generic_plan(subject.epsilon)

    def _small(self) -> bool:
        with np.errstate(all="ignore"):
            share = self.trial.gap / (np.abs(self.trial.slope.value) + 1e-300)
        known = share[np.isfinite(share) & (self.trial.gap > self.floor)]
        return bool(known.size and np.median(known) < 1e-2)

    def look(
        self, u: Array, x: Array | None = None, w: Array | None = None, plan: Plan | None = None
    ) -> Look:
        """Claim and measurement along `u`."""
        x = self.trial.x if x is None else x
        w = self.trial.w if w is None else w
        trial, _ = run(self.subject, "", x, u, w, plan or self.plan, second=False)
        rounding = self.subject.rule.rule_epsilon * (
            np.abs(trial.claimed) + np.sqrt(np.mean(np.nan_to_num(trial.claimed) ** 2))
        )
        bars = trial.slope.error + np.where(np.isfinite(rounding), rounding, 0)
        return Look(trial.claimed, trial.slope.value, bars, trial)

    def along_leaf(self, which: int) -> Array:
        """The trial's direction, in one leaf only."""
        u = np.zeros(self.layout.size)
        span = self.layout.span(which)
        u[span] = self.trial.u[span]
        return u

    def wrong_leaves(self) -> list[tuple[int, Look]]:
        """Inputs whose gradient is wrong, with what was seen along each."""
        looks = [(k, self.look(self.along_leaf(k))) for k in range(len(self.layout.leaves))]
        found = [(k, look) for k, look in looks if look.wrong.size]
        return found or looks[:1]

    def wrong_elements(self, which: int, look: Look) -> list[int] | None:
        """The few entries of a leaf that are wrong, or `None` if many are."""
        span = self.layout.span(which)
        aligned = look.got.size == span.stop - span.start
        if aligned and 0 < look.wrong.size <= FEW:
            found = [int(i) + span.start for i in look.wrong]
            if self._is_wrong(found[:1]):
                return found
        return self._bisect(np.arange(span.start, span.stop))

    def _is_wrong(self, entries: list[int] | Array) -> bool:
        u = np.zeros(self.layout.size)
        u[entries] = self.trial.u[entries]
        return bool(np.any(u) and self.look(u, plan=brief_plan(self.subject.epsilon)).wrong.size)

    def _bisect(self, entries: Array) -> list[int] | None:
        """Halve what is moved as long as only one half is wrong."""
        entries = entries[self.trial.u[entries] != 0]
        sure = 0
        while entries.size > 1:
            left, right = entries[: entries.size // 2], entries[entries.size // 2 :]
            in_left = self._is_wrong(left)
            if in_left and (sure < SURE or entries.size <= FEW) and self._is_wrong(right):
                return [int(i) for i in entries] if entries.size <= FEW else None
            entries, sure = (left if in_left else right), sure + 1
        return [int(i) for i in entries]
