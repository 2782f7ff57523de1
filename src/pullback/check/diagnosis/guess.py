"""What a guess at the cause is, and when two looks agree."""

from dataclasses import dataclass

import numpy as np

from pullback.check.diagnosis.blame import Look
from pullback.check.probe import Array


@dataclass(frozen=True)
class Guess:
    """A diagnosis that held: its kind, and the numbers or names that its words need."""

    kind: str
    number: float = 0.0
    word: str = ""
    other: int | None = None


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
