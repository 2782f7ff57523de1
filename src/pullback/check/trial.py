"""One trial: the rule against the function at one point, along one direction, for one upstream."""

from dataclasses import dataclass, replace

import numpy as np

from pullback.check.flat import Said, Subject
from pullback.check.ladder import Plan, Slope, slope
from pullback.check.probe import Array, OutsideDomain

BARS = 30.0
GENERIC = ("the given arguments", "another point")


@dataclass(frozen=True)
class Trial:
    """What was claimed and what was measured, entry by entry; `order` 2 is about the rule itself.

    `whole` says that the entries are those of J·u; otherwise there is one entry, ⟨w, J·u⟩, because
    the rule could not be transposed. `held` marks entries that sit at chosen values.
    """

    point: str
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
        bound = BARS * (self.slope.error + epsilon * claim_rounding(self))
        with np.errstate(invalid="ignore"):
            off = (self.gap > bound) | (~np.isfinite(self.claimed) & np.isfinite(self.slope.error))
        return np.flatnonzero(off)

    def resolved(self) -> Array:
        """Positions at which the measurement says anything."""
        return np.isfinite(self.slope.error)


def claim_rounding(trial: Trial) -> Array:
    """The size of the terms that were added up to make each claim."""
    claimed = np.abs(np.where(np.isfinite(trial.claimed), trial.claimed, 0.0))
    spread = float(np.sqrt(np.mean(claimed**2))) if claimed.size else 0.0
    if claimed.size == 1:
        with np.errstate(all="ignore"):
            terms = float(np.sqrt(np.nansum((trial.said.r * trial.u) ** 2)))
        weight = float(np.max(np.abs(trial.w))) if trial.whole and trial.w.size else 1.0
        spread = max(spread, terms / (weight or 1.0))
    return claimed + spread


def run(
    subject: Subject, point: str, x: Array, u: Array, w: Array, plan: Plan, *, second: bool
) -> tuple[Trial, Trial | None]:
    """The first-order trial and, if asked for, the second-order one along the same line."""
    said = subject.say(x, w, u, second=second)
    if not np.isfinite(said.y).any():
        raise OutsideDomain("no output is finite")
    m = subject.outputs.size

    def line(t: float) -> Array:
        if not second:
            return subject.value(x + t * u)
        return np.concatenate(subject.pull(x + t * u, w))

    scale = subject.scale
    if second:
        scale = np.concatenate([scale, np.abs(said.r) + _typical(said.r)])
    both = slope(line, plan, subject.epsilon, scale, lead=m)
    measured = Slope(both.value[:m], both.error[:m])
    first = _first(Trial(point, x, u, w, said, measured.value, measured))
    if not second or said.second is None:
        return first, None
    rule = Slope(both.value[m:], both.error[m:])
    return first, replace(first, claimed=said.second, slope=rule, order=2, whole=True)


def _first(trial: Trial) -> Trial:
    """With the claim put in: J·u where the rule can be transposed, else its one number."""
    said = trial.said
    if said.jvp is not None:
        return replace(trial, claimed=said.jvp)
    w, measured = trial.w, trial.slope
    known = np.isfinite(measured.error)
    total = np.array([np.sum(w[known] * measured.value[known])])
    error = np.array([np.sqrt(np.sum((w[known] * measured.error[known]) ** 2))])
    if not known.all():
        error[:] = np.inf
    claimed = np.array([np.sum(said.r * trial.u)])
    return replace(trial, claimed=claimed, slope=Slope(total, error), whole=False)


def _typical(values: Array) -> float:
    known = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(known**2))) if known.size else 0.0
