"""Bits lost inside a rule: the gradient, the upstream or a saved value held in a shorter format."""

from collections.abc import Callable, Iterator

import numpy as np

from pullback.check.diagnosis.blame import Look, Scene
from pullback.check.diagnosis.guess import Cause, Guess, is_close
from pullback.check.probe import Array


def _bfloat16(values: Array) -> Array:
    """Rounded to the nearest, ties to even, as hardware does."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return bits.astype(np.uint32).view(np.float32).astype(np.float64)


def _float16(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float64)


def _float32(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(np.float64)


FORMATS: dict[str, Callable[[Array], Array]] = {
    "bfloat16": _bfloat16,
    "float16": _float16,
    "float32": _float32,
}
UNITS = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24}


def lost_bits(scene: Scene, which: int, look: Look) -> Guess | None:
    """Whether a small error is one of rounding."""
    if not is_close(look, 2e-2):
        return None
    for guess in (short_format, rounded_inputs, rounding_noise):
        held = guess(scene, which, look)
        if held is not None:
            return held
    return None


def short_format(scene: Scene, which: int, look: Look) -> Guess | None:
    """The gradient, or what it makes of an upstream, holds no more bits than a shorter format."""
    if scene.subject.rule.rule_epsilon > 1e-10 or not is_close(look, 2e-2):
        return None
    gradient = look.trial.said.r[scene.layout.span(which)]
    for name, kept in FORMATS.items():
        if _holds(kept, gradient):
            return Guess(Cause.PRECISION, word=name)
        if look.trial.whole and look.share < 4 * UNITS[name] and _holds(kept, look.got):
            return Guess(Cause.PRECISION, word=name)
    return None


def _holds(kept: Callable[[Array], Array], values: Array) -> bool:
    used = values[(values != 0) & np.isfinite(values)]
    return bool(used.size) and np.array_equal(kept(used), used)


def rounded_inputs(scene: Scene, which: int, look: Look) -> Guess | None:
    """The error is gone where the inputs are numbers of a shorter format: they are saved in it."""
    if scene.subject.rule.rule_epsilon > 1e-10 or not is_close(look, 2e-2):
        return None
    for name in ("float32", "float16", "bfloat16"):
        beside = scene.look(scene.along_leaf(which), x=FORMATS[name](scene.trial.x))
        if not beside.wrong.size and np.isfinite(beside.bars).any() and not _hides(look, beside):
            return Guess(Cause.PRECISION, word=name)
    return None


def _hides(look: Look, beside: Look) -> bool:
    """Whether the second look is so coarse that the first one's error could not be seen in it."""
    seen = np.isfinite(look.gap) & np.isfinite(beside.bars)
    return bool(np.max(beside.bars[seen], initial=0.0) > np.max(look.gap[seen], initial=0.0) / 30)


def rounding_noise(scene: Scene, which: int, look: Look) -> Guess | None:
    """The gradient is off by the rounding of a shorter format: at random, and anew beside the point."""
    relative = _relative(look)
    if look.got.size < 8:
        parts = list(_parts(scene, which))
        if sum(bool(part.wrong.size) for part in parts) < len(parts) / 2:
            return None
        relative = np.concatenate([relative, *(_relative(part) for part in parts)])
    used = np.abs(relative[relative != 0])
    if not used.size or np.quantile(used, 0.9) > 300 * float(np.median(used)):
        return None
    typical = float(np.median(used))
    if not (1e-10 < typical < 2e-6 or 1e-4 < typical < 1e-2) or persists(scene, which, look):
        return None
    return Guess(Cause.PRECISION, typical, "float32" if typical < 2e-6 else "bfloat16")


def persists(scene: Scene, which: int, look: Look) -> bool:
    """The error is much the same right beside the point, so it is no rounding."""
    step = 1e-4 if is_close(look, 1e-5) else 1e-2
    beside = scene.look(scene.along_leaf(which), x=scene.trial.x * (1 + step))
    before, after = look.got - look.wanted, beside.got - beside.wanted
    told = np.isfinite(before) & np.isfinite(after)
    if not told.any():
        return False
    change = np.sqrt(np.mean((after[told] - before[told]) ** 2))
    return bool(change < 0.2 * np.sqrt(np.mean(before[told] ** 2)))


def _parts(scene: Scene, which: int) -> Iterator[Look]:
    """Looks along a few random parts of a leaf."""
    rng = np.random.default_rng(0)
    span = scene.layout.span(which)
    size = span.stop - span.start
    for _ in range(6):
        u = np.zeros(scene.layout.size)
        chosen = span.start + rng.choice(size, min(size, max(1, size // 16)), replace=False)
        u[chosen] = scene.trial.u[chosen]
        if np.any(u):
            yield scene.look(u)


def _relative(look: Look) -> Array:
    with np.errstate(all="ignore"):
        told = np.isfinite(look.got) & (np.abs(look.wanted) > 1e3 * look.bars)
        out = (look.got[told] - look.wanted[told]) / look.wanted[told]
        return np.where(np.abs(out) * np.abs(look.wanted[told]) > 3 * look.bars[told], out, 0.0)
