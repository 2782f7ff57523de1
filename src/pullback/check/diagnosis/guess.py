"""What a guess at the cause is, and when two looks agree."""

import enum
from dataclasses import dataclass

import numpy as np

from pullback.check.diagnosis.blame import Look
from pullback.check.probe import Array


class Cause(enum.Enum):
    """What may be wrong with a rule; its sentence is in `words.of_guess`."""

    NONE = enum.auto()
    DETACHED = enum.auto()
    ONES = enum.auto()
    UPSTREAM = enum.auto()
    UPSTREAM_IN_PART = enum.auto()
    FACTOR = enum.auto()
    SIGN = enum.auto()
    LINEAR = enum.auto()
    PRECISION = enum.auto()
    SWAPPED = enum.auto()
    ANOTHERS = enum.auto()
    OUTPUTS_SWAPPED = enum.auto()
    OUTPUT = enum.auto()
    REARRANGED = enum.auto()
    SAVED = enum.auto()
    MIXED_UP = enum.auto()
    STALE = enum.auto()
    AXIS = enum.auto()
    MIXES = enum.auto()
    SPREAD = enum.auto()
    PLACES = enum.auto()
    FLAT = enum.auto()
    CONJUGATE = enum.auto()
    UNUSED = enum.auto()
    LEFT_OUT = enum.auto()
    DIRECTION = enum.auto()
    COUPLINGS = enum.auto()
    ONE_BY_ONE = enum.auto()


class Way(enum.Enum):
    """How entries are misplaced; the value is what a finding of it is called."""

    TRANSPOSED = "transposed"
    REVERSED = "reversed"
    SHIFTED = "shifted"
    HALVES = "halves"


@dataclass(frozen=True)
class Guess:
    """A diagnosis that held: its cause, and the numbers or names that its words need."""

    cause: Cause
    number: float = 0.0
    word: str = ""
    other: int | None = None
    way: Way = Way.TRANSPOSED


# share of entries that must fit: of very many, a few lie next to a kink
NEARLY = 0.999
# the same where the inputs move little and many kinks are near
KINKS = 0.95


def is_close(look: Look, share: float) -> bool:
    """Whether the error is below a share of the size, nearly everywhere."""
    gap = look.gap[np.isfinite(look.gap)]
    known = np.abs(look.wanted[np.isfinite(look.wanted)])
    if not gap.size or not known.size:
        return False
    scale = float(np.sqrt(np.mean(known**2)) + np.max(known))
    return float(np.quantile(gap, 1 if gap.size < 100 else KINKS)) < share * scale


def is_same(got: Array, wanted: Array, look: Look) -> bool:
    """Whether a claim is this measurement, nearly everywhere and where it was found wrong."""
    if got.shape != wanted.shape:
        return False
    off = look.wrong
    with np.errstate(invalid="ignore"):
        explained = np.abs(got - wanted)[off] <= 0.05 * look.gap[off] + 30 * look.bars[off]
    if off.size and np.mean(explained) < 0.98:
        return False
    scale = np.sqrt(np.nanmean(np.where(np.isfinite(wanted), wanted, np.nan) ** 2))
    with np.errstate(invalid="ignore"):
        allowed = 100 * np.where(np.isfinite(look.bars), look.bars, np.inf) + 1e-5 * scale
        return bool(np.mean((np.abs(got - wanted) <= allowed) | ~np.isfinite(wanted)) >= 0.995)
