"""Under which condition a gradient is wrong: one wrong entry is given other values, and watched.

The values tried lie between, and beside, what function and rule compare with; where no such
constant fits, the edge is found by halving.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pullback.check.diagnosis.blame import Scene
from pullback.check.probe import Array, OutsideDomain

HALVINGS = 12
MOST_CUTS = 8
SAMPLE = 8
INF = float("inf")
# an error that has shrunk to this share beside its edge fades out
FADED = 0.2


@dataclass(frozen=True)
class Condition:
    """The values at which an entry's gradient is wrong: an interval, of either sign if `mirrored`.

    `named` tells bounds that are the value of another input at the same place.
    """

    low: float = -INF
    high: float = INF
    mirrored: bool = False
    named: tuple[tuple[float, str], ...] = ()


class Values:
    """How wrong the gradient of one entry is, as a function of its value."""

    def __init__(self, scene: Scene, entry: int, base: Array) -> None:
        self.scene, self.entry, self.base = scene, entry, base
        self.value = float(scene.trial.x[entry])
        self.scale = abs(self.value) or abs(float(scene.trial.u[entry])) or 1.0
        self.right_somewhere = False
        self.error = 1.0
        self.error = self.at(self.value) or 0.0

    def point(self, value: float) -> Array:
        """The base with the entry at a value."""
        x = self.base.copy()
        x[self.entry] = value
        return x

    def at(self, value: float) -> float | None:
        """The error's share at a value, zero where it is right, `None` where it cannot be told."""
        return self.scene.error_at(self.entry, self.point(value), 0.1 * self.error)

    def is_right(self, value: float) -> bool | None:
        """Whether it is right there, as far as can be told."""
        found = self.at(value)
        self.right_somewhere |= found == 0.0
        return None if found is None else found == 0.0

    def elsewhere(self, cuts: Sequence[float]) -> Iterator[float]:
        """Values of which one is right, if any is."""
        usual = self.scene.usual_size(self.entry)
        below = max((c for c in cuts if c < self.value), default=None)
        above = min((c for c in cuts if c > self.value), default=None)
        yield from (c - 0.02 * (self.value - c) for c in (below, above) if c is not None)
        yield from (times * self.value for times in (0.25, -1.0, 0.01, 4.0, -4.0))
        yield from (usual, -usual)

    def partners(self) -> dict[float, str]:
        """What other inputs of the same shape hold at the same place."""
        layout = self.scene.layout
        which = layout.leaf_of(self.entry)
        place, shape = self.entry - layout.span(which).start, layout.leaves[which].shape
        return {
            float(self.base[layout.span(k).start + place]): leaf.name
            for k, leaf in enumerate(layout.leaves)
            if k != which and leaf.shape == shape
        }


def condition_on(
    scene: Scene, entry: int, base: Array, constants: Sequence[float]
) -> Condition | None:
    """The values of a wrong entry at which it is wrong, if at others it is right."""
    values = Values(scene, entry, base)
    cuts = sorted({0.0, *(s * c for c in constants for s in (1.0, -1.0) if np.isfinite(c))})
    if not values.error or (values.value in cuts and _excused(values)):
        return None
    if _only_there(values):
        return Condition(values.value, values.value)
    if not any(values.is_right(value) for value in values.elsewhere(cuts)):
        return None
    low = -_edge(values, -1.0, [-c for c in reversed(cuts)])
    high = _edge(values, 1.0, cuts)
    if not values.right_somewhere or (low == -INF and high == INF):
        return None
    named = tuple((v, n) for v, n in values.partners().items() if v in (low, high))
    return _with_sign(values, Condition(low, high, named=named))


def _excused(values: Values) -> bool:
    """Whether the function bends at the value and the claim lies between its two sides."""
    look = values.scene.alone
    # farther than the steps of a measurement, which must not cross the kink
    near = 0.05 * values.scale
    try:
        here, *beside = (
            look(values.entry, values.point(values.value + step)) for step in (0.0, -near, near)
        )
    except OutsideDomain:
        return False
    sides = np.stack([b.wanted / b.trial.u[values.entry] for b in beside])
    claim = (here.got / here.trial.u[values.entry])[here.wrong]
    low, high = (side[here.wrong] for side in (sides.min(axis=0), sides.max(axis=0)))
    slack = 0.05 * (high - low)
    bends = high - low > 1e-3 * np.maximum(np.abs(low), np.abs(high))
    return bool(np.all(bends & (claim >= low - slack) & (claim <= high + slack)))


def _only_there(values: Values) -> bool:
    near = 1e-5 * values.scale
    return bool(values.is_right(values.value + near) and values.is_right(values.value - near))


def _edge(values: Values, sign: float, cuts: Sequence[float]) -> float:
    """How far up (in the sense of `sign`) from the wrong value the gradient stays wrong."""
    inside, doubtful = sign * values.value, list[float]()
    ahead = [c for c in cuts if c > inside][:MOST_CUTS]
    for cut, after in zip(ahead, [*ahead[1:], INF], strict=False):
        far = (cut + after) / 2 if after < INF else cut + 0.5 * abs(cut) + 0.1 * values.scale
        right = values.is_right(sign * far)
        if right is None:
            right = values.is_right(sign * (cut + 0.1 * (far - cut)))
        if right is None:
            doubtful.append(cut)
        elif right and not doubtful:
            return _settled(values, sign, inside, cut, far)
        elif right:
            return _plainest([*doubtful, cut])
        else:
            inside, doubtful = far, []
    return _plainest(doubtful) if doubtful else _beyond(values, sign, inside)


def _plainest(cuts: Sequence[float]) -> float:
    """Of constants between which nothing can be told: zero, or the first."""
    return 0.0 if 0.0 in cuts else cuts[0]


def _beyond(values: Values, sign: float, inside: float) -> float:
    """Past every constant: look far out, and halve if it is right there."""
    for reach in (4.0, 40.0):
        far = inside + reach * values.scale
        if values.is_right(sign * far):
            return _halved(values, sign, inside, far)
    return INF


def _settled(values: Values, sign: float, inside: float, cut: float, far: float) -> float:
    """The constant itself if the change is there, else where it is."""
    before, after = cut - 0.01 * (cut - inside), cut + 0.01 * (far - cut)
    if values.is_right(sign * before):
        return _halved(values, sign, inside, before)
    if values.is_right(sign * after) is False:
        return _halved(values, sign, after, far)
    return cut


def _halved(values: Values, sign: float, wrong: float, right: float) -> float:
    """Where wrong turns right; nowhere if the error fades out instead, which is no branch."""
    for _ in range(HALVINGS):
        middle = (wrong + right) / 2
        if values.is_right(sign * middle) is False:
            wrong = middle
        else:
            right = middle
    if (values.at(sign * wrong) or 0.0) < FADED * values.error:
        return INF
    low, high = sorted((sign * wrong, sign * right))
    partner = next((v for v in values.partners() if low <= v <= high), None)
    return sign * (roundest(low, high) if partner is None else partner)


def roundest(low: float, high: float) -> float:
    """The number of fewest digits between two."""
    for digits in range(8):
        rounded = float(f"{(low + high) / 2:.{digits}e}")
        if low <= rounded <= high:
            return rounded
    return (low + high) / 2


def _with_sign(values: Values, found: Condition) -> Condition:
    """Told by size alone, if the opposite value is wrong as well."""
    if found.low < 0 < found.high:
        return replace(found, mirrored=-found.low == found.high)
    if values.is_right(-values.value) is not False:
        return found
    if found.high <= 0:
        found = Condition(-found.high, -found.low)
    return replace(found, mirrored=True)


def tied(scene: Scene, entry: int) -> bool:
    """Whether an entry that equals another is right as soon as it does not."""
    x, values = scene.trial.x, Values(scene, entry, scene.trial.x)
    if np.count_nonzero(x == x[entry]) < 2:
        return False
    near = 1e-3 * values.scale
    sides = [values.is_right(values.value + step) for step in (near, -near)]
    return True in sides and False not in sides


def wrong_together(scene: Scene, entry: int) -> bool:
    """Whether entries that share a value are wrong for that value, not for sharing it."""
    x, span = scene.trial.x, scene.layout.span(scene.layout.leaf_of(entry))
    group = np.zeros(x.size, bool)
    group[span] = x[span] == x[entry]
    step = 1e-3 * (abs(float(x[entry])) or scene.usual_size(entry))
    direction = np.where(group, scene.usual_size(entry), 0.0)
    here, *beside = (scene.look(direction, x + s * step * group) for s in (0.0, 1.0, -1.0))
    right = [not b.wrong.size and b.known_right(here.share).any() for b in beside]
    return bool(here.wrong.size) and all(right)


def wrong_among(scene: Scene, entry: int, base: Array) -> bool:
    """Whether an entry with its value is wrong among other values than those it was found with."""
    values = Values(scene, entry, base)
    return bool(values.error) and not _excused(values)


def condition_among(scene: Scene, which: int, constants: Sequence[float]) -> Condition | None:
    """What tells wrong entries from right ones, where one entry's value cannot be changed alone."""
    span = scene.layout.span(which)
    x, used = scene.trial.x[span], scene.trial.u[span] != 0
    places = np.flatnonzero(used & (scene.trial.said.r[span] != 0))
    if places.size < 4 or scene.layout.leaves[which].is_complex:
        return None
    ordered = places[np.argsort(x[places], kind="stable")]
    spread = np.linspace(0, ordered.size - 1, SAMPLE).astype(int)
    picks = np.unique(np.concatenate([ordered[spread], ordered[:3], ordered[-3:]]))
    errors = [scene.error_at(span.start + int(p)) for p in picks]
    wrong = np.array([e is not None and e > 0 for e in errors])
    right = np.array([e == 0.0 for e in errors])
    return separated(x[picks[wrong]], x[picks[right]], constants)


def separated(wrong: Array, right: Array, constants: Sequence[float]) -> Condition | None:
    """The plainest interval that holds the wrong values and none of the right ones."""
    if wrong.size < 2 or right.size < 2:
        return None
    for mirrored in (False, True):
        bad, good = (np.abs(v) if mirrored else v for v in (wrong, right))
        if bad.min() > good.max():
            return Condition(low=_bound(good.max(), bad.min(), constants), mirrored=mirrored)
        if bad.max() < good.min():
            return Condition(high=_bound(bad.max(), good.min(), constants), mirrored=mirrored)
    return None


def _bound(low: float, high: float, constants: Sequence[float]) -> float:
    known = sorted({0.0, *constants, *(-c for c in constants)}, key=abs)
    return next((c for c in known if low <= c <= high), roundest(float(low), float(high)))
