"""Right numbers in wrong places: another input's, transposed, reversed, along another axis."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np

from pullback.check.diagnosis.blame import Look, Scene
from pullback.check.diagnosis.guess import Cause, Guess, Way, is_same
from pullback.check.probe import Array, Leaf

Change = Callable[[Array], Array]


@dataclass(frozen=True)
class Rearrangement:
    """A way in which an array's entries get misplaced, and how to say it."""

    way: Way
    text: str
    change: Change

    def guess(self, cause: Cause = Cause.REARRANGED, other: int | None = None) -> Guess:
        """The guess that this is what happened."""
        return Guess(cause, word=self.text, way=self.way, other=other)


def rearrangements(shape: tuple[int, ...]) -> Iterator[Rearrangement]:
    """Ways in which an array's entries get misplaced."""
    long = [axis for axis, size in enumerate(shape) if size > 1]
    for a, b in reversed([*combinations(long, 2)]):
        if shape[a] == shape[b]:
            text = "transposed" if len(shape) == 2 else f"transposed (axes {a} and {b})"
            yield Rearrangement(Way.TRANSPOSED, text, partial(np.swapaxes, axis1=a, axis2=b))
    for axis in long:
        yield Rearrangement(
            Way.REVERSED, f"reversed along axis {axis}", partial(np.flip, axis=axis)
        )
    for axis in long:
        size = shape[axis]
        for step in sorted({1, size - 1} - {0} if size > 2 else ()):
            text = f"shifted by one along axis {axis}"
            yield Rearrangement(Way.SHIFTED, text, partial(np.roll, shift=step, axis=axis))
        if size > 3 and size % 2 == 0:
            text = f"halves exchanged along axis {axis}"
            yield Rearrangement(Way.HALVES, text, partial(np.roll, shift=size // 2, axis=axis))


def order_of_outputs(scene: Scene, look: Look) -> Guess | None:
    """Right numbers at wrong places of the output."""
    leaves = scene.subject.outputs.leaves
    if not look.trial.whole or len(leaves) != 1 or leaves[0].is_complex:
        return None
    shape = leaves[0].shape
    for one in rearrangements(shape):
        if is_same(look.got, one.change(look.wanted.reshape(shape)).ravel(), look):
            return one.guess()
    return None


def swapped(scene: Scene, which: int, look: Look, wrong: list[int]) -> Guess | None:
    """The claim is what the function says about another input of the same shape."""
    shape = scene.layout.leaves[which].shape
    rest = [k for k in range(len(scene.layout.leaves)) if k not in wrong]
    for other in [*wrong, *rest]:
        if other == which or scene.layout.leaves[other].shape != shape:
            continue
        u = np.zeros(scene.layout.size)
        u[scene.layout.span(other)] = scene.trial.u[scene.layout.span(which)]
        if is_same(look.got, scene.look(u).wanted, look):
            return Guess(Cause.SWAPPED if other in wrong else Cause.ANOTHERS, other=other)
    return None


def moved(scene: Scene, which: int, look: Look) -> Guess | None:
    """Right numbers at wrong places of the input."""
    leaf = scene.layout.leaves[which]
    if leaf.is_complex:
        return None
    span = scene.layout.span(which)
    for one in rearrangements(leaf.shape):
        if one.way in (Way.SHIFTED, Way.HALVES) and leaf.size > 4 and len(leaf.shape) > 2:
            continue
        u = np.zeros(scene.layout.size)
        u[span] = one.change(scene.trial.u[span].reshape(leaf.shape)).ravel()
        if is_same(look.got, scene.look(u).wanted, look):
            return one.guess()
    return None


@dataclass(frozen=True)
class Reach:
    """What one entry acts on: in the function (`here`) and in the rule (`said`)."""

    entry: int
    look: Look
    here: Array
    said: Array


def reach_of(scene: Scene, which: int) -> Reach | None:
    """The reach of one entry of a leaf whose gradient is wrong."""
    entry, look = _telling(scene, which)
    if look is None:
        return None
    size = float(np.max(np.abs(look.wanted[np.isfinite(look.wanted)]), initial=0.0))
    here = np.abs(look.wanted) > 1e3 * look.bars + 1e-6 * size
    return Reach(entry, look, here, np.abs(look.got) > 1e-9 * size)


def misplaced(scene: Scene, reach: Reach) -> Guess | None:
    """One entry acts on other places in the rule than in the function."""
    outputs = scene.subject.outputs.leaves
    whole = reach.look.trial.whole and reach.look.got.size > 1
    if not whole or len(outputs) != 1 or outputs[0].is_complex:
        return None
    return _axes(outputs[0], reach.here, reach.said) or _other_places(scene, reach)


def uncoupled(scene: Scene, which: int, reach: Reach) -> Guess | None:
    """One entry acts on more, or depends on others, than the rule knows."""
    if reach.look.trial.whole and reach.here.sum() > 1 and np.any(reach.here & ~reach.said):
        return Guess(Cause.ONE_BY_ONE if reach.said.sum() < 2 else Cause.COUPLINGS)
    return _dependence(scene, which, reach.entry, reach.look)


def one_sided(scene: Scene, which: int, entry: int) -> Guess | None:
    """An entry on which only the rule acts, or only the function."""
    look = scene.alone(entry)
    leaf = scene.layout.leaves[which]
    where = scene.layout.element(entry)
    size = max(float(np.max(np.abs(v), initial=0.0)) for v in (look.got, look.wanted))
    if not np.isfinite(size) or leaf.size < 2:
        return None
    if np.all(np.abs(look.wanted) <= 1e-9 * size):
        return Guess(Cause.UNUSED, word=where)
    return Guess(Cause.LEFT_OUT, word=where) if np.all(np.abs(look.got) <= 1e-9 * size) else None


def _telling(scene: Scene, which: int) -> tuple[int, Look | None]:
    """A look along one entry, from the middle, on which something depends."""
    leaf, span = scene.layout.leaves[which], scene.layout.span(which)
    middle = int(np.ravel_multi_index([s // 2 for s in leaf.shape], leaf.shape)) if leaf.size else 0
    width = span.stop - span.start
    for step in (0, 1, width // 3, width // 5):
        entry = span.start + (middle + step) % width
        look = scene.alone(entry)
        if look.wrong.size and np.any(np.abs(look.wanted) > 1e3 * look.bars):
            return entry, look
    return span.start, None


def _axes(leaf: Leaf, here: Array, said: Array) -> Guess | None:
    """Coupled along other axes, or to the other side along the same one."""
    ours, theirs = (np.argwhere(mask.reshape(leaf.shape)) for mask in (here, said))
    if not theirs.size or ours.shape[1] == 0:
        return None
    wide = [{a for a in range(len(leaf.shape)) if np.ptp(k[:, a])} for k in (ours, theirs)]
    if wide[1] - wide[0] and wide[0] - wide[1]:
        return Guess(Cause.AXIS, word=f"{_numbers(wide[1])} and not {_numbers(wide[0])}")
    if wide[1] - wide[0]:
        return Guess(Cause.MIXES, word=_numbers(wide[1] - wide[0]))
    for axis in wide[0] & wide[1]:
        a, b = ours[:, axis], theirs[:, axis]
        if a.min() == b.max() or a.max() == b.min():
            return Guess(Cause.DIRECTION, word=f"axis {axis}")
    return None


def _numbers(axes: set[int]) -> str:
    return " and ".join(f"axis {axis}" for axis in sorted(axes))


def _other_places(scene: Scene, reach: Reach) -> Guess | None:
    """As many places, but others."""
    here, said = reach.here, reach.said
    if not said.any() or here.sum() != said.sum() or np.any(here & said):
        return None
    layout = scene.subject.outputs
    there, right = (layout.index(int(np.flatnonzero(mask)[0])) for mask in (said, here))
    taken = _axes_taken(scene.layout.index(reach.entry), there, right)
    if taken is not None:
        return taken
    return Guess(Cause.PLACES, word=f"output {list(there)} is used in place of {list(right)}")


def _axes_taken(
    index: tuple[int, ...], there: tuple[int, ...], right: tuple[int, ...]
) -> Guess | None:
    """Whether one place along a single axis was looked up by the wrong axis of the entry."""
    if len(index) != 2 or len(there) != 1 or index[0] == index[1]:
        return None
    if (there[0], right[0]) not in ((index[1], index[0]), (index[0], index[1])):
        return None
    wrong = index.index(there[0])
    return Guess(Cause.SPREAD, word=f"axis {wrong} and not axis {1 - wrong}")


def _dependence(scene: Scene, which: int, entry: int, look: Look) -> Guess | None:
    """One entry's gradient depends on its neighbours along one axis, its claim along another."""
    leaf, span = scene.layout.leaves[which], scene.layout.span(which)
    if leaf.is_complex or len(leaf.shape) < 2:
        return None
    function, rule = set[int](), set[int]()
    for axis in (a for a, size in enumerate(leaf.shape) if size > 1):
        x = scene.trial.x.copy()
        x[span] = _others_changed(
            x[span].reshape(leaf.shape), scene.layout.index(entry), axis
        ).ravel()
        again = scene.alone(entry, x)
        if np.any(np.abs(again.wanted - look.wanted) > 1e3 * (again.bars + look.bars)):
            function.add(axis)
        if np.any(np.abs(again.got - look.got) > 1e-7 * np.max(np.abs(look.got), initial=0.0)):
            rule.add(axis)
    if not (function - rule and rule - function):
        return None
    return Guess(
        Cause.AXIS, word=f"{_numbers(rule - function)} and not {_numbers(function - rule)}"
    )


def _others_changed(values: Array, index: tuple[int, ...], axis: int) -> Array:
    """The array with the neighbours of one element along an axis set to other values."""
    line = (*index[:axis], slice(None), *index[axis + 1 :])
    kept = values[index]
    values[line] = 0.7 * values[line]
    values[index] = kept
    return values
