"""A rule that computes with other values than it should: old ones, transposed, another input's.

What the function would say with those values in place is measured, and compared with the claim.
"""

from collections.abc import Iterator

import numpy as np

from pullback.check.blame import Look, Scene
from pullback.check.guess import Guess, is_same
from pullback.check.places import Change, rearrangements
from pullback.check.probe import Array, OutsideDomain

# replacements tried at most: each costs a measurement
MOST = 12


def stand_in(scene: Scene, which: int, look: Look) -> Guess | None:
    """The claim is right for inputs rearranged or exchanged."""
    for count, (guess, x) in enumerate(_replaced(scene)):
        if count == MOST:
            return None
        if says(scene, which, look, x):
            return guess
    return None


def stale_input(scene: Scene, which: int, look: Look, start: Array) -> Guess | None:
    """The claim is right for the values that some input had at the first point."""
    for k, leaf in enumerate(scene.layout.leaves):
        x, span = scene.trial.x.copy(), scene.layout.span(k)
        x[span] = start[span]
        if says(scene, which, look, x):
            return Guess("stale", word=leaf.name)
    return None


def says(scene: Scene, which: int, look: Look, x: Array) -> bool:
    """Whether the function, at these values, says what the rule claims."""
    try:
        return is_same(look.got, scene.look(scene.along_leaf(which), x=x).wanted, look)
    except OutsideDomain:
        return False


def _replaced(scene: Scene) -> Iterator[tuple[Guess, Array]]:
    yield from _rearranged(scene)
    yield from _exchanged(scene)


def _rearranged(scene: Scene) -> Iterator[tuple[Guess, Array]]:
    for k, leaf in enumerate(scene.layout.leaves):
        if leaf.is_complex or (len(leaf.shape) < 2 and len(scene.layout.leaves) == 1):
            continue
        for word, change in rearrangements(leaf.shape):
            if word.startswith(("transposed", "reversed")):
                yield _with(scene, k, change, Guess("saved", word=word, other=k))
        if len(leaf.shape) > 2:
            both = Guess("saved", word="reversed along axes 0 and 1", other=k)
            yield _with(scene, k, _flipped_twice, both)


def _flipped_twice(values: Array) -> Array:
    return np.flip(values, (0, 1))


def _with(scene: Scene, k: int, change: Change, guess: Guess) -> tuple[Guess, Array]:
    x, span = scene.trial.x.copy(), scene.layout.span(k)
    x[span] = change(x[span].reshape(scene.layout.leaves[k].shape)).ravel()
    return guess, x


def _exchanged(scene: Scene) -> Iterator[tuple[Guess, Array]]:
    leaves = scene.layout.leaves
    for k, leaf in enumerate(leaves):
        for other in range(len(leaves)):
            if other != k and leaves[other].shape == leaf.shape:
                x = scene.trial.x.copy()
                x[scene.layout.span(k)] = x[scene.layout.span(other)]
                yield Guess("mixed up", word=leaves[other].name, other=k), x
