"""Under which condition a gradient is wrong: what the wrong entries have in common."""

from dataclasses import dataclass

import numpy as np

from pullback.check.blame import Look, Scene
from pullback.check.probe import Array

SAMPLE = 10


@dataclass(frozen=True)
class Condition:
    """`x > 3`, `x = 0`, … : a test on the entry's own value that tells wrong from right."""

    text: str
    wrong: int
    right: int


def condition_of(
    scene: Scene, which: int, look: Look, constants: tuple[float, ...]
) -> Condition | None:
    """What tells the wrong entries of a leaf from the right ones, if something does."""
    values, wrong = _observed(scene, which, look)
    if not wrong.any():
        return None
    return separated(values, wrong, constants)


def _observed(scene: Scene, which: int, look: Look) -> tuple[Array, Array]:
    """Values of entries and whether their gradient is wrong: all of them, or a sample."""
    span = scene.layout.span(which)
    x, u = scene.trial.x[span], scene.trial.u[span]
    moved = u != 0
    if look.trial.whole and look.got.size == x.size and not scene.layout.leaves[which].is_complex:
        wrong = np.zeros(x.size, bool)
        wrong[look.wrong] = True
        if not wrong.all() and _aligned(scene, span.start, np.flatnonzero(wrong & moved)):
            told = moved & (wrong | (np.abs(look.wanted) > 100 * look.bars))
            return x[told], wrong[told]
    picks = _spread(x, np.flatnonzero(moved))
    seen = [_alone(scene, span.start + int(p)) for p in picks]
    told = [k for k, wrong in enumerate(seen) if wrong is not None]
    return x[picks[told]], np.array([seen[k] for k in told], bool)


def _spread(x: Array, places: Array) -> Array:
    """A few entries from the whole range of values, both ends and the neighbourhood of zero."""
    ordered = places[np.argsort(x[places], kind="stable")]
    chosen = np.unique(np.linspace(0, ordered.size - 1, SAMPLE).astype(int))
    smallest = places[np.argsort(np.abs(x[places]), kind="stable")[:3]]
    return np.unique(np.concatenate([ordered[chosen], ordered[:2], ordered[-2:], smallest]))


def _aligned(scene: Scene, start: int, wrong: Array) -> bool:
    """Whether moving one wrong entry moves the output at its place and no other."""
    if not wrong.size:
        return False
    u = np.zeros(scene.layout.size)
    u[start + int(wrong[0])] = scene.trial.u[start + int(wrong[0])]
    look = scene.look(u)
    moved = np.flatnonzero(
        (np.abs(look.wanted) > 100 * look.bars) | (np.abs(look.got) > 100 * look.bars)
    )
    return bool(np.all(moved == wrong[0]))


def _alone(scene: Scene, entry: int) -> bool | None:
    """Whether the gradient of one entry is wrong; `None` if nothing depends on it here."""
    u = np.zeros(scene.layout.size)
    u[entry] = scene.trial.u[entry]
    look = scene.look(u)
    if look.wrong.size:
        return True
    return False if np.any(np.abs(look.wanted) > 100 * look.bars) else None


def separated(values: Array, wrong: Array, constants: tuple[float, ...]) -> Condition | None:
    """The plainest condition on a value that holds for the wrong ones and for no right one."""
    bad, good = values[wrong], values[~wrong]
    counts = (int(bad.size), int(good.size))
    if bad.size and np.all(bad == 0) and not np.any(good == 0):
        return Condition("= 0", *counts)
    if not good.size:
        return None
    for text, key in (("", values), ("abs", np.abs(values))):
        low, high = key[wrong], key[~wrong]
        if low.min() > high.max():
            bound = _bound(float(high.max()), float(low.min()), constants)
            return Condition(f"{text}> {bound:.4g}".strip(), *counts)
        if low.max() < high.min():
            bound = _bound(float(low.max()), float(high.min()), constants)
            return Condition(f"{text}< {bound:.4g}".strip(), *counts)
    return None


def _bound(low: float, high: float, constants: tuple[float, ...]) -> float:
    """The roundest number between two: a constant the program compares with, zero, or few digits."""
    for constant in sorted({0.0, *constants, *(-c for c in constants)}, key=abs):
        if low <= constant <= high:
            return constant
    for digits in range(8):
        rounded = float(f"{(low + high) / 2:.{digits}e}")
        if low <= rounded <= high:
            return rounded
    return (low + high) / 2
