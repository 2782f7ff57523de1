"""A rule that holds on to values of an earlier call: right where it was first run, nowhere else."""

import numpy as np

from pullback.check.course.examine import Examination
from pullback.check.diagnosis import words
from pullback.check.diagnosis.blame import Look, Scene
from pullback.check.diagnosis.standins import stale_input
from pullback.check.probe import Array, OutsideDomain

# how far from the first point the second look is, as a share of the way to the wrong one
NEAR = 0.01
# so many do not cross a threshold on such a way by chance
MANY = 8


def staleness(scene: Scene, which: int, look: Look, start: Array, generic: bool) -> str | None:
    """In words, what is held on to; `None` if nothing is.

    At points made of a few values (not `generic`), being right for older ones may be chance.
    """
    if np.array_equal(scene.trial.x, start):
        return None
    if _same_as_at(scene, start):
        return words.STALE_FIRST
    if generic and len(scene.layout.leaves) > 1:
        guess = stale_input(scene, which, look, start)
        if guess is not None:
            return words.stale_input(guess.word)
    return words.RIGHT_AT_FIRST if _grows_from(scene, which, look, start) else None


def is_restless(exam: Examination) -> bool:
    """Whether the same call gives another gradient the next time."""
    w = np.ones(exam.subject.outputs.size)
    first, again = (exam.subject.pull(exam.start, w)[1] for _ in range(2))
    slack = 1e-9 * float(np.max(np.abs(np.nan_to_num(first)), initial=0.0))
    return not np.allclose(first, again, rtol=1e-6, atol=slack, equal_nan=True)


def _same_as_at(scene: Scene, start: Array) -> bool:
    """The rule gives at one point what it gives at another."""
    trial = scene.trial
    _, here = scene.subject.pull(trial.x, trial.w)
    _, there = scene.subject.pull(start, trial.w)
    return np.array_equal(here, there) and bool(np.any(here))


def _grows_from(scene: Scene, which: int, look: Look, start: Array) -> bool:
    """Right at the first point, wrong right beside it, and the more so the farther away.

    A rule that knows its inputs alone is like that only where the first point is a special one.
    """
    u = scene.along_leaf(which)
    try:
        first = scene.look(u, x=start)
        if first.wrong.size:
            return False
        near = scene.look(u, x=start + NEAR * (scene.trial.x - start))
    except OutsideDomain:
        return False
    if near.wrong.size < max(1, look.wrong.size / 2):
        return False
    return near.wrong.size >= MANY or near.share < 0.3 * look.share
