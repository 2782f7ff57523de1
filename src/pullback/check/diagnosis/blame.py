"""Which input, which element: directions that move less and less, at O(log n) calls."""

from dataclasses import dataclass

import numpy as np

from pullback.check.measure.ladder import Plan, brief_plan, generic_plan
from pullback.check.measure.trial import BARS, Trial, run
from pullback.check.probe import Array, OutsideDomain, RuleFault
from pullback.check.probe.flat import Subject

FEW = 4
# after so many halvings with one right half each, the wrong entries are taken to lie together
SURE = 4
# for large errors of functions with a kink at every step, such as sorting
SHORT_STEPS = Plan(first=2.0**-20, ratio=4, least=2, most=2, enough=1e-4)


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

    @property
    def share(self) -> float:
        """The error as a share of what it should be, where there is one."""
        with np.errstate(all="ignore"):
            shares = self.gap[self.wrong] / np.abs(self.wanted[self.wrong])
        return float(np.median(np.minimum(shares, 1.0))) if shares.size else 0.0

    def known_right(self, share: float) -> Array:
        """Whether an entry is right and an error of such a share would have shown in it."""
        return (BARS * self.bars < share * np.abs(self.wanted)) & (self.gap <= BARS * self.bars)


class Scene:
    """A point at which a rule was found wrong, to look at again along other directions."""

    def __init__(self, subject: Subject, trial: Trial) -> None:
        self.subject, self.trial = subject, trial
        self.layout = subject.inputs
        # what is being traced is as large as the error found, so the bars need not be finer
        self.floor = 1e-3 * float(np.max(trial.gap[np.isfinite(trial.gap)], initial=0.0))
        self.small = bool(trial.gap.size) and self._small()
        plan = generic_plan if self.small else brief_plan
        self.plan: Plan = plan(subject.epsilon)

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
        trial, _ = run(self.subject, None, x, u, w, plan or self.plan, second=False)
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

    def wrong_leaves(self, positions: Array) -> list[tuple[int, Look]]:
        """Inputs whose gradient is wrong, with what was seen along each.

        First those that are wrong at `positions`: elsewhere there may be kinks.
        """
        looks = self._along_each()
        if self._crosses_kinks(looks):
            self.plan = SHORT_STEPS
            looks = self._along_each()
        found = [(k, look) for k, look in looks if look.wrong.size]
        found.sort(key=lambda one: not np.isin(positions, one[1].wrong).any())
        return found or looks[:1]

    def _along_each(self) -> list[tuple[int, Look]]:
        return [(k, self.look(self.along_leaf(k))) for k in range(len(self.layout.leaves))]

    def _crosses_kinks(self, looks: list[tuple[int, Look]]) -> bool:
        """Whether shorter steps find fewer entries wrong, but not none."""
        which, look = max(looks, key=lambda one: one[1].wrong.size)
        if self.small or self.subject.epsilon > 1e-10 or not look.wrong.size:
            return False
        shorter = self.look(self.along_leaf(which), plan=SHORT_STEPS).wrong.size
        return 0 < shorter < 0.9 * look.wrong.size

    def alone(self, entry: int, x: Array | None = None) -> Look:
        """A look along one entry, moved by a share of its own size."""
        value = abs(float((self.trial.x if x is None else x)[entry]))
        usual = abs(float(self.trial.u[entry])) or self.usual_size(entry)
        u = np.zeros(self.layout.size)
        u[entry] = max(value, 1e-6 * usual) if value else usual
        return self.look(u, x)

    def error_at(self, entry: int, x: Array | None = None, share: float = 1.0) -> float | None:
        """How wrong an entry's gradient is, as a share; `None` if that cannot be told there.

        Right is what would have shown an error of `share`.
        """
        try:
            look = self.alone(entry, x)
        except (OutsideDomain, RuleFault):
            return None
        if look.wrong.size:
            return look.share or 1.0
        return 0.0 if look.known_right(share).any() else None

    def usual_size(self, entry: int) -> float:
        """The size of a typical move of the entries beside this one."""
        moved = np.abs(self.trial.u[self.layout.span(self.layout.leaf_of(entry))])
        moved = moved[moved > 0]
        return float(np.median(moved)) if moved.size else 1.0

    def wrong_elements(self, which: int, look: Look) -> list[int] | None:
        """The few entries of a leaf that are wrong, or `None` if many are."""
        span = self.layout.span(which)
        aligned = look.got.size == span.stop - span.start
        if aligned and 0 < look.wrong.size <= FEW:
            if _perhaps_more(look):
                return None
            found = [int(i) + span.start for i in look.wrong]
            if self._is_wrong(found[:1]):
                return found
        return self._bisect(np.arange(span.start, span.stop))

    def wrong_element(self, which: int, look: Look, positions: Array) -> int | None:
        """One entry of a leaf that is wrong by itself."""
        span = self.layout.span(which)
        if look.got.size == span.stop - span.start:
            sure = np.intersect1d(look.wrong, positions)
            for place in (sure if sure.size else look.wrong)[:3]:
                if self.trial.u[span.start + place] and self.error_at(span.start + int(place)):
                    return span.start + int(place)
        entries = np.arange(span.start, span.stop)
        entries = entries[self.trial.u[entries] != 0]
        while entries.size > 1:
            left, right = entries[: entries.size // 2], entries[entries.size // 2 :]
            entries = left if self._is_wrong(left, positions) else right
        return int(entries[0]) if entries.size and self._is_wrong(entries, positions) else None

    def _is_wrong(self, entries: list[int] | Array, positions: Array | None = None) -> bool:
        """Whether moving these entries shows an error, at certain positions of the output if given."""
        u = np.zeros(self.layout.size)
        u[entries] = self.trial.u[entries]
        if not np.any(u):
            return False
        wrong = self.look(u).wrong
        return bool(wrong.size) if positions is None else bool(np.isin(wrong, positions).any())

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


def _perhaps_more(look: Look) -> bool:
    """Whether no entry is sure to be right, or fewer than may hide an error of the same size."""
    right = look.known_right(look.share)
    hidden = ~right & (np.abs(look.wanted) > 100 * look.bars)
    hidden[look.wrong] = False
    return not right.any() or int(hidden.sum()) > int(right.sum())
