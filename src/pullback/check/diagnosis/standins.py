"""A rule that computes with other values than it should: old ones, transposed, another input's.

What the function would say with those values in place is measured, and compared with the claim.
"""

from collections.abc import Iterator
from functools import partial
from itertools import islice

import numpy as np

from pullback.check.diagnosis.blame import Look, Scene
from pullback.check.diagnosis.guess import Cause, Guess, Way, is_same
from pullback.check.diagnosis.places import Change, Rearrangement, rearrangements
from pullback.check.probe import Array, OutsideDomain

# replacements tried at most: each costs a measurement
MOST = 12
# matrices up to this size are solved with
LARGEST = 512
_TURNED = (Way.TRANSPOSED, Way.REVERSED)
_REVERSED_TWICE = Rearrangement(
    Way.REVERSED, "reversed along axes 0 and 1", partial(np.flip, axis=(0, 1))
)


def stand_in(scene: Scene, which: int, look: Look) -> Guess | None:
    """The claim is right for inputs rearranged or exchanged."""
    for guess, x in islice(_replaced(scene), MOST):
        if says(scene, which, look, x):
            return guess
    return _transposed_factor(scene, which, look)


def _transposed_factor(scene: Scene, which: int, look: Look) -> Guess | None:
    """The claim along u is right along V⁻¹Vᵀu (or uVᵀV⁻¹): the matrix V was not transposed.

    Unlike a replaced input, this leaves alone what else the function makes of the product.
    """
    leaf, span = scene.layout.leaves[which], scene.layout.span(which)
    u = scene.trial.u[span].reshape(leaf.shape or (1,))
    for k, other in enumerate(scene.layout.leaves):
        if k == which or len(set(other.shape)) != 1 or len(other.shape) != 2 or leaf.is_complex:
            continue
        v = scene.trial.x[scene.layout.span(k)].reshape(other.shape)
        for moved in _turned(v, u):
            times = float(np.max(np.abs(moved))) / float(np.max(np.abs(u)))
            direction = np.zeros(scene.layout.size)
            direction[span] = moved.ravel() / times
            if is_same(look.got, scene.look(direction).wanted * times, look):
                return Guess(Cause.SAVED, word="transposed", way=Way.TRANSPOSED, other=k)
    return None


def _turned(v: Array, u: Array) -> Iterator[Array]:
    size = v.shape[0]
    if size > LARGEST or np.linalg.matrix_rank(v) < size:
        return
    if u.shape[0] == size:
        yield np.linalg.solve(v, v.T @ u)
    if u.shape[-1] == size and u.ndim == 2:
        yield np.linalg.solve(v.T, v @ u.T).T
    elif u.shape == (size,):
        yield np.linalg.solve(v.T, v @ u)


def stale_input(scene: Scene, which: int, look: Look, start: Array) -> Guess | None:
    """The claim is right for the values that some input had at the first point."""
    for k, leaf in enumerate(scene.layout.leaves):
        x, span = scene.trial.x.copy(), scene.layout.span(k)
        x[span] = start[span]
        if says(scene, which, look, x):
            return Guess(Cause.STALE, word=leaf.name)
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


def output_for_input(scene: Scene, which: int, look: Look) -> Guess | None:
    """The claim is right for an input that has the value of the output."""
    span = scene.layout.span(which)
    if scene.subject.outputs.size != span.stop - span.start:
        return None
    x = scene.trial.x.copy()
    x[span] = scene.subject.value(look.trial.x)
    if not np.isfinite(x).all() or not says(scene, which, look, x):
        return None
    return Guess(Cause.MIXED_UP, word="the output", other=which)


def _rearranged(scene: Scene) -> Iterator[tuple[Guess, Array]]:
    for k, leaf in enumerate(scene.layout.leaves):
        if leaf.is_complex or (len(leaf.shape) < 2 and len(scene.layout.leaves) == 1):
            continue
        turned = [one for one in rearrangements(leaf.shape) if one.way in _TURNED]
        if len(leaf.shape) > 2:
            turned.append(_REVERSED_TWICE)
        for one in turned:
            yield _with(scene, k, one.change, one.guess(Cause.SAVED, k))


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
                yield Guess(Cause.MIXED_UP, word=f"`{leaves[other].name}`", other=k), x
