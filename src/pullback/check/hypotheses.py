"""Guesses at what is wrong with a gradient, each put to a test; the first that holds is the diagnosis."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pullback.check.blame import Look, Scene
from pullback.check.probe import Array


@dataclass(frozen=True)
class Guess:
    """A diagnosis that held: its kind, and the numbers or names that its words need."""

    kind: str
    number: float = 0.0
    word: str = ""
    other: int | None = None


Case = tuple[Scene, int, Look]


def first_that_holds(scene: Scene, which: int, look: Look, others: list[int]) -> Guess | None:
    """Try the guesses about one input in order, the plainest first."""
    for guess in (_missing, _upstream, _ratio, _rounding, _order_of_outputs):
        held = guess(scene, which, look)
        if held is not None:
            return held
    return _swapped(scene, which, look, others) or _moved(scene, which, look)


def _missing(scene: Scene, which: int, look: Look) -> Guess | None:
    said = look.trial.said
    if which in said.none:
        return Guess("none")
    if not np.any(said.r[scene.layout.span(which)]):
        return Guess("detached")
    return None


def _upstream(scene: Scene, which: int, _: Look) -> Guess | None:
    """The gradient is there without an upstream, or does not grow with it."""
    x, w = scene.trial.x, scene.trial.w
    span = scene.layout.span(which)
    _, zero = scene.subject.pull(x, np.zeros_like(w))
    if np.any(zero[span] != 0):
        return Guess("upstream")
    return None


def _ratio(scene: Scene, which: int, look: Look) -> Guess | None:
    """One number between claim and measurement, along several directions."""
    number = constant_ratio(look)
    if number is None:
        return None
    if look.got.size < 8 and not _ratio_again(scene, which, number):
        return None
    if abs(number) < 1e-9:
        return Guess("detached")
    return Guess("sign" if abs(number + 1) < 1e-6 else "factor", number)


def _ratio_again(scene: Scene, which: int, number: float) -> bool:
    span = scene.layout.span(which)
    rng = np.random.default_rng(0)
    for _ in range(2):
        u = scene.along_leaf(which)
        u[span] *= rng.normal(size=span.stop - span.start)
        again = constant_ratio(scene.look(u))
        if again is None or abs(again - number) > 1e-3 * abs(number - 1) + 1e-12:
            return False
    return True


def constant_ratio(look: Look) -> float | None:
    """got / wanted, if it is one number wherever it can be told."""
    with np.errstate(all="ignore"):
        told = np.isfinite(look.got) & np.isfinite(look.bars) & (np.abs(look.wanted) > 100 * look.bars)
        if not told.any():
            return None
        got, wanted, bars = look.got[told], look.wanted[told], look.bars[told]
        strong = np.abs(wanted) >= np.median(np.abs(wanted))
        number = float(np.median(got[strong] / wanted[strong]))
        off = np.abs(got - number * wanted)
        allowed = 30 * (1 + abs(number)) * bars + 1e-3 * abs(number - 1) * np.abs(wanted)
    rest = np.isfinite(look.got) & np.isfinite(look.bars) & ~told
    zero = np.abs(look.got[rest]) <= 1e3 * (1 + abs(number)) * look.bars[rest] + 1e-9
    return number if bool(np.all(off <= allowed) and np.mean(zero) >= 0.99 if zero.size else np.all(off <= allowed)) else None


def _rounding(scene: Scene, which: int, look: Look) -> Guess | None:
    """The gradient holds no more bits than a shorter format, or is off by that format's rounding."""
    r = look.trial.said.r[scene.layout.span(which)]
    for name, kept in (("bfloat16", _bfloat16), ("float16", _float16), ("float32", _float32)):
        used = r[(r != 0) & np.isfinite(r)]
        if used.size >= 2 and np.array_equal(kept(used), used) and _close(look, 2e-2):
            return Guess("precision", word=name)
    return _rounding_noise(scene, which, look)


def _rounding_noise(scene: Scene, which: int, look: Look) -> Guess | None:
    relative = _relative(look)
    if relative.size < 8:
        relative = np.concatenate([_relative(part) for part in _parts(scene, which)])
    if relative.size < 4:
        return None
    typical = float(np.median(np.abs(relative[relative != 0]))) if np.any(relative) else 0.0
    signs = float(np.mean(relative[relative != 0] > 0)) if np.any(relative) else 0.0
    if not 0.15 <= signs <= 0.85 or np.quantile(np.abs(relative), 0.9) > 30 * typical:
        return None
    if 1e-10 < typical < 2e-6:
        return Guess("precision", typical, "float32")
    if 1e-4 < typical < 1e-2:
        return Guess("precision", typical, "bfloat16")
    return None


def _parts(scene: Scene, which: int) -> Iterator[Look]:
    """Looks along a few random parts of a leaf."""
    rng = np.random.default_rng(0)
    span = scene.layout.span(which)
    size = span.stop - span.start
    for _ in range(8):
        u = np.zeros(scene.layout.size)
        chosen = span.start + rng.choice(size, min(size, max(1, size // 16)), replace=False)
        u[chosen] = scene.trial.u[chosen]
        if np.any(u):
            yield scene.look(u)


def _relative(look: Look) -> Array:
    with np.errstate(all="ignore"):
        told = np.isfinite(look.got) & (np.abs(look.wanted) > 1e3 * look.bars)
        out = (look.got[told] - look.wanted[told]) / np.abs(look.wanted[told])
        return np.where(np.abs(out) * np.abs(look.wanted[told]) > 3 * look.bars[told], out, 0.0)


def _close(look: Look, share: float) -> bool:
    with np.errstate(all="ignore"):
        scale = np.sqrt(np.nanmean(look.wanted**2))
        return bool(np.nanmax(np.where(np.isfinite(look.gap), look.gap, np.nan)) < share * (scale + np.nanmax(np.abs(look.wanted))))


def _bfloat16(values: Array) -> Array:
    bits = values.astype(np.float32).view(np.uint32)
    return np.where(values.astype(np.float32) == values, (bits & 0xFFFF0000).view(np.float32), np.nan)


def _float16(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float64)


def _float32(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(np.float64)


def _order_of_outputs(scene: Scene, which: int, look: Look) -> Guess | None:
    """Right numbers at wrong places of the output."""
    leaves = scene.subject.outputs
    if not look.trial.whole or len(leaves.leaves) != 1 or leaves.leaves[0].is_complex:
        return None
    shape = leaves.leaves[0].shape
    for word, change in rearrangements(shape):
        if _same(look.got, change(look.wanted.reshape(shape)).ravel(), look):
            return Guess(_kind_of(word), word=word)
    return None


def rearrangements(shape: tuple[int, ...]) -> Iterator[tuple[str, Callable[[Array], Array]]]:
    """Ways in which an array's entries get misplaced."""
    if len(shape) >= 2 and shape[-1] == shape[-2] > 1:
        yield "transposed", lambda a: np.swapaxes(a, -1, -2)
    for axis, size in enumerate(shape):
        if size > 1:
            yield f"reversed along axis {axis}", lambda a, axis=axis: np.flip(a, axis)
    for axis, size in enumerate(shape):
        if size > 2:
            yield f"shifted by one along axis {axis}", lambda a, axis=axis: np.roll(a, 1, axis)
            yield f"shifted by one along axis {axis}", lambda a, axis=axis: np.roll(a, -1, axis)


def _kind_of(word: str) -> str:
    return word.split(" ")[0]


def _swapped(scene: Scene, which: int, look: Look, others: list[int]) -> Guess | None:
    """The claim is what the function says about another input of the same shape."""
    shape = scene.layout.leaves[which].shape
    for other in others:
        if other == which or scene.layout.leaves[other].shape != shape:
            continue
        moved = np.zeros(scene.layout.size)
        moved[scene.layout.span(other)] = scene.trial.u[scene.layout.span(which)]
        if _same(look.got, scene.look(moved).wanted, look):
            return Guess("swapped", other=other)
    return None


def _moved(scene: Scene, which: int, look: Look) -> Guess | None:
    """Right numbers at wrong places of the input."""
    leaf = scene.layout.leaves[which]
    if leaf.is_complex:
        return None
    span = scene.layout.span(which)
    for word, change in rearrangements(leaf.shape):
        if word.startswith("shifted") and leaf.size > 4 and len(leaf.shape) > 2:
            continue
        moved = np.zeros(scene.layout.size)
        moved[span] = change(scene.trial.u[span].reshape(leaf.shape)).ravel()
        if _same(look.got, scene.look(moved).wanted, look):
            return Guess(_kind_of(word), word=word)
    return None


def _same(got: Array, wanted: Array, look: Look) -> bool:
    if got.shape != wanted.shape:
        return False
    scale = np.sqrt(np.nanmean(np.where(np.isfinite(wanted), wanted, np.nan) ** 2))
    with np.errstate(invalid="ignore"):
        allowed = 100 * np.where(np.isfinite(look.bars), look.bars, np.inf) + 1e-5 * scale
        return bool(np.all((np.abs(got - wanted) <= allowed) | ~np.isfinite(wanted)))
