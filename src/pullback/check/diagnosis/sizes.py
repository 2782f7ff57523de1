"""Whether a factor is the size of an axis, or another number that happens to be the same: sizes can be changed."""

import contextlib
from collections.abc import Callable, Generator, Iterable, Mapping
from contextvars import ContextVar

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis.explanations import Case
from pullback.check.probe import Leaf, Probe

_CALLS = 8  # of the function, for one other size: a probe is made, and the slope is measured along one direction
_MOST = 3  # other sizes that are tried
Doubling = Callable[[int], Probe]
# A probe of the function whose arguments have axes of a size doubled.
_doubled: ContextVar[Doubling | None] = ContextVar("doubled", default=None)


@contextlib.contextmanager
def doubled_by(make: Doubling) -> Generator[None]:
    """Diagnoses in the block may try the function with such arguments."""
    token = _doubled.set(make)
    try:
        yield
    finally:
        _doubled.reset(token)


def counts_of(leaves: Iterable[Leaf]) -> dict[str, tuple[int, int]]:
    """Counts that people forget to divide by, with their names and the axes on which they depend, by size."""
    counts: dict[str, tuple[int, int]] = {}
    for leaf in leaves:
        largest = max(leaf.shape, default=1)
        counts.setdefault(f"the number of elements of `{leaf.name}`", (leaf.size, largest))
        for axis, size in enumerate(leaf.shape):
            counts.setdefault(f"the size of axis {axis} of `{leaf.name}`", (size, size))
    return {name: pair for name, pair in counts.items() if pair[0] > 2}


def explaining(case: Case, number: float) -> dict[str, int]:
    """The counts that a factor, or its inverse, is and goes on to be where they change, if any can be changed."""
    amount = number if number > 1 else 1 / number
    leaves = (*case.layout.leaves, *case.subject.outputs.leaves)
    same = {
        name: pair
        for name, pair in counts_of(leaves).items()
        if abs(amount - pair[0]) < n.AGREE * pair[0]
    }
    rest = [size for leaf in case.layout.leaves for size in leaf.shape if size > 1]
    followed, is_tried = set[str](), False
    for size in list(dict.fromkeys([*(size for _, size in same.values()), *rest]))[:_MOST]:
        if followed.issuperset(same):
            break
        found = _amount_at_double(case, size, inverse=number < 1)
        if found is not None:
            new, counts = found
            is_tried = True
            same = {
                k: v for k, v in same.items() if abs(new - counts.get(k, v[0])) < n.COARSE * new
            }
            followed |= {
                name for name, pair in same.items() if counts.get(name, pair[0]) != pair[0]
            }
    return {k: count for k, (count, _) in same.items() if k in followed or not is_tried}


def _amount_at_double(
    case: Case, size: int, *, inverse: bool
) -> tuple[float, Mapping[str, int]] | None:
    """The factor where axes of a size are twice as long, and the counts there; nothing where that is refused."""
    make = _doubled.get()
    if make is None or case.which is None or case.leaf.is_complex:
        return None
    if not case.subject.may_spend(_CALLS):
        return None
    try:
        with contextlib.closing(make(size)) as probe:
            ratio = _ratio(probe, case.which)
            counts = {
                name: pair[0] for name, pair in counts_of((*probe.inputs, *probe.outputs)).items()
            }
    except Exception:  # of a function that does not take such arguments
        return None
    if not np.isfinite(ratio) or ratio <= 0:
        return None
    return (1 / ratio if inverse else ratio), counts


def _ratio(probe: Probe, which: int) -> float:
    """How many times the gradient for an input is the slope, along one direction and for one upstream."""
    rng = np.random.default_rng(0)
    xs = probe.start()
    ws = [rng.standard_normal(leaf.shape) for leaf in probe.outputs]
    along = rng.standard_normal(xs[which].shape)
    step = probe.value_epsilon ** (1 / 3) * along

    def value(sign: int) -> float:
        moved = [x + sign * step if k == which else x for k, x in enumerate(xs)]
        return sum(float(np.sum(w * y)) for w, y in zip(ws, probe.values(moved), strict=True))

    gradient = probe.vjp(xs, ws)[1][which]
    slope = (value(1) - value(-1)) / (2 * probe.value_epsilon ** (1 / 3))
    return float(np.sum(gradient * along)) / slope if gradient is not None and slope else 0.0
