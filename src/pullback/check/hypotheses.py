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


# share of entries that must fit: of very many, a few lie next to a kink
NEARLY = 0.999


def first_that_holds(scene: Scene, which: int, look: Look, others: list[int]) -> Guess | None:
    """Try the guesses about one input in order, the plainest first."""
    for guess in (_missing, _upstream, _not_linear, _short_format, _ratio, _rounding_noise):
        held = guess(scene, which, look)
        if held is not None:
            return held
    if _close(look, 1e-3):
        return None
    held = _swapped(scene, which, look, others) or _order_of_outputs(scene, look)
    return held or _moved(scene, which, look)


def _missing(scene: Scene, which: int, look: Look) -> Guess | None:
    said = look.trial.said
    if which in said.none:
        return Guess("none")
    if not np.any(said.r[scene.layout.span(which)]):
        return Guess("detached")
    return None


def _upstream(scene: Scene, which: int, look: Look) -> Guess | None:
    """The gradient is there without an upstream, or does not grow with it."""
    span = scene.layout.span(which)
    _, zero = scene.subject.pull(look.trial.x, np.zeros_like(look.trial.w))
    if np.any(zero[span] != 0):
        return Guess("upstream")
    return None


def _not_linear(scene: Scene, which: int, look: Look) -> Guess | None:
    """The opposite upstream does not give the opposite gradient."""
    span = scene.layout.span(which)
    here = look.trial.said.r[span]
    _, there = scene.subject.pull(look.trial.x, -look.trial.w)
    gap = float(np.max(np.abs(here + there[span]), initial=0.0))
    bound = max(1e-3, 1e3 * scene.subject.rule.rule_epsilon)
    return Guess("linear") if gap > bound * float(np.max(np.abs(here), initial=0.0)) else None


def _ratio(scene: Scene, which: int, look: Look) -> Guess | None:
    """One number between claim and measurement, along several directions."""
    number = constant_ratio(look)
    if number is None:
        return None
    if not _ratio_again(scene, which, number, 1 if look.got.size >= 8 else 3):
        return None
    if abs(number) < 1e-9:
        return Guess("detached")
    if abs(number - 1) < 2e-6 and not _persists(scene, which, look):
        return Guess("precision", number - 1, "float32")
    return Guess("sign" if abs(number + 1) < 1e-6 else "factor", number)


def _ratio_again(scene: Scene, which: int, number: float, times: int) -> bool:
    span = scene.layout.span(which)
    rng = np.random.default_rng(0)
    size = span.stop - span.start
    for _ in range(times if size > 1 else 0):
        u = scene.along_leaf(which)
        u[span] *= rng.normal(size=size) * (rng.random(size) < 0.5)
        if not np.any(u):
            continue
        again = constant_ratio(scene.look(u))
        if again is None or abs(again - number) > 1e-3 * abs(number - 1) + 1e-12:
            return False
    return True


def constant_ratio(look: Look) -> float | None:
    """Got / wanted, if it is one number (other than one) nearly wherever it can be told."""
    with np.errstate(all="ignore"):
        known = np.isfinite(look.got) & np.isfinite(look.bars)
        told = known & (np.abs(look.wanted) > 100 * look.bars)
        if not told.any():
            return None
        got, wanted, bars = look.got[told], look.wanted[told], look.bars[told]
        strong = np.abs(wanted) >= np.median(np.abs(wanted))
        number = float(np.median(got[strong] / wanted[strong]))
        fits = np.abs(got - number * wanted) <= (
            30 * (1 + abs(number)) * bars + 1e-3 * abs(number - 1) * np.abs(wanted)
        )
        rest = known & ~told
        quiet = np.abs(look.got[rest]) <= 1e3 * (1 + abs(number)) * look.bars[rest] + 1e-9
    if abs(number - 1) < 1e-10 or np.mean(fits) < NEARLY:
        return None
    return number if not quiet.size or np.mean(quiet) > 0.99 else None


def _short_format(scene: Scene, which: int, look: Look) -> Guess | None:
    """The gradient holds no more bits than a shorter format."""
    r = look.trial.said.r[scene.layout.span(which)]
    used = r[(r != 0) & np.isfinite(r)]
    if not used.size or scene.subject.rule.rule_epsilon > 1e-10 or not _close(look, 2e-2):
        return None
    for name, kept in (("bfloat16", _bfloat16), ("float16", _float16), ("float32", _float32)):
        if np.array_equal(kept(used), used):
            return Guess("precision", word=name)
    return None


def _rounding_noise(scene: Scene, which: int, look: Look) -> Guess | None:
    """The gradient is off by the rounding of a shorter format: at random, and anew beside the point."""
    relative = _relative(look)
    if look.got.size < 8:
        for part in _parts(scene, which):
            if not part.wrong.size:
                return None
            relative = np.concatenate([relative, _relative(part)])
    used = np.abs(relative[relative != 0])
    if not used.size or np.quantile(used, 0.9) > 30 * float(np.median(used)):
        return None
    typical = float(np.median(used))
    if not (1e-10 < typical < 2e-6 or 1e-4 < typical < 1e-2) or _persists(scene, which, look):
        return None
    return Guess("precision", typical, "float32" if typical < 2e-6 else "bfloat16")


def _persists(scene: Scene, which: int, look: Look) -> bool:
    """The error is much the same right beside the point, so it is no rounding."""
    beside = scene.look(scene.along_leaf(which), x=scene.trial.x * (1 + 1e-4))
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


def _close(look: Look, share: float) -> bool:
    with np.errstate(all="ignore"):
        scale = np.sqrt(np.nanmean(look.wanted**2))
        return bool(
            np.nanmax(np.where(np.isfinite(look.gap), look.gap, np.nan))
            < share * (scale + np.nanmax(np.abs(look.wanted)))
        )


def _bfloat16(values: Array) -> Array:
    bits = values.astype(np.float32).view(np.uint32)
    return np.where(
        values.astype(np.float32) == values, (bits & 0xFFFF0000).view(np.float32), np.nan
    )


def _float16(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float64)


def _float32(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(np.float64)


def _order_of_outputs(scene: Scene, look: Look) -> Guess | None:
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
        return bool(np.mean((np.abs(got - wanted) <= allowed) | ~np.isfinite(wanted)) >= NEARLY)
