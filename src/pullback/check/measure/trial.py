"""One trial: the rule against the function at one point, along one direction, for one upstream."""

from dataclasses import dataclass, replace

import numpy as np

from pullback.check.measure.ladder import Part, Plan, Scale, Slope, slopes
from pullback.check.probe import Array, OutsideDomain
from pullback.check.probe.flat import Said, Subject
from pullback.check.probe.vectors import blocks, typical
from pullback.check.search.points import Kind, Place

BARS = 30.0
GIVEN, ANOTHER = GENERIC = (Place(Kind.GIVEN), Place(Kind.ANOTHER))


@dataclass(frozen=True)
class Trial:
    """What was claimed and what was measured, entry by entry; `order` 2 is about the rule itself.

    `whole` says that the entries are those of J·u; otherwise there is one entry, ⟨w, J·u⟩, because
    the rule could not be transposed. `held` marks entries that sit at chosen values.
    """

    point: Place | None
    x: Array
    u: Array
    w: Array
    said: Said
    claimed: Array
    slope: Slope
    order: int = 1
    whole: bool = True
    held: Array | None = None

    @property
    def gap(self) -> Array:
        """How far claim and measurement are apart."""
        with np.errstate(invalid="ignore"):
            return np.abs(self.claimed - self.slope.value)

    def suspects(self, epsilon: float) -> Array:
        """Positions whose claim is beyond the error bars, or not finite though the value is."""
        spread, found = claim_spread(self), []
        for block in blocks(self.claimed.size):
            claimed, error = self.claimed[block], self.slope.error[block]
            with np.errstate(invalid="ignore"):
                bound = BARS * (error + epsilon * (np.abs(claimed) + spread))
                off = np.abs(claimed - self.slope.value[block]) > bound
            off |= ~np.isfinite(claimed) & np.isfinite(error)
            found.append(np.flatnonzero(off) + block.start)
        return np.concatenate(found) if found else np.empty(0, int)

    def resolved(self) -> Array:
        """Positions at which the measurement says anything."""
        return np.isfinite(self.slope.error)


def claim_spread(trial: Trial) -> float:
    """The size of the terms that were added up to make a claim, beyond that of the claim itself."""
    spread = typical(trial.claimed)
    if trial.claimed.size != 1:
        return spread
    with np.errstate(all="ignore"):
        terms = float(np.sqrt(np.nansum((trial.said.r * trial.u) ** 2)))
    weight = float(np.max(np.abs(trial.w))) if trial.whole and trial.w.size else 1.0
    return max(spread, terms / (weight or 1.0))


def run(
    subject: Subject, point: Place | None, x: Array, u: Array, w: Array, plan: Plan, *, second: bool
) -> tuple[Trial, Trial | None]:
    """The first-order trial and, if asked for, the second-order one along the same line."""
    said = subject.say(x, w, u, second=second)
    if not said.finite:
        raise OutsideDomain("no output is finite")

    twice = said.second is not None

    def line(t: float) -> tuple[Array, ...]:
        return subject.pull(x + t * u, w) if twice else (subject.value(x + t * u),)

    size = typical(said.r)

    def of_rule(part: Part) -> Array:
        return np.abs(said.r[part]) + size

    scales: list[Scale] = [subject.scale.__getitem__, *([of_rule] if twice else [])]
    measured, *more = slopes(line, plan, subject.epsilon, scales)
    first = _first(Trial(point, x, u, w, said, measured.value, measured))
    if said.second is None:
        return first, None
    return first, replace(first, claimed=said.second, slope=more[0], order=2, whole=True)


def _first(trial: Trial) -> Trial:
    """With the claim put in: J·u where the rule can be transposed or is zero, else its one number."""
    said = trial.said
    if said.jvp is not None:
        return replace(trial, claimed=said.jvp)
    if not np.any(said.r):
        return replace(trial, claimed=np.zeros(trial.w.size))
    w, measured = trial.w, trial.slope
    known = np.isfinite(measured.error)
    total = np.array([np.sum(w[known] * measured.value[known])])
    error = np.array([np.sqrt(np.sum((w[known] * measured.error[known]) ** 2))])
    if not known.all():
        error[:] = np.inf
    claimed = np.array([np.sum(said.r * trial.u)])
    return replace(trial, claimed=claimed, slope=Slope(total, error), whole=False)
