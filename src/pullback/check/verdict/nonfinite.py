"""Gradients that are NaN or infinite where the function is finite: the best known fault, and never a matter of degree.

Only the entries concerned are moved. At the given arguments the gradient must be finite wherever slopes exist, kink or
not. At points that were made up it is a finding if one entry alone brings it about; where several must coincide it
depends on whether a derivative exists, and there is none for the length of a vector of zeros.
"""

import enum

import numpy as np

from pullback.check import numbers as n
from pullback.check.estimate.interval import Claim, Line, State, judge
from pullback.check.probe import Array, OutsideDomain, RuleFault
from pullback.check.search import directions
from pullback.check.search.points import Point
from pullback.check.subject import Subject


class Broken(enum.Enum):
    """What is known of a gradient that is not finite."""

    WRONG = enum.auto()
    COINCIDENCE = enum.auto()  # a derivative exists, but several entries must coincide
    NOTE = enum.auto()
    OPEN = enum.auto()


def judge_broken(
    subject: Subject, point: Point, w: Array, y: Array, broken: Array, start: Array
) -> Broken:
    """Whether the function has slopes at the entries whose gradient is not finite."""
    rng = np.random.default_rng(0)
    u = np.where(broken, directions.generic(rng, subject.inputs, point.x), 0.0)
    slopes = slopes_beside(subject, point.x, y, u)
    if slopes is None or (not point.is_given and _is_overflow(subject, y)):
        return Broken.OPEN
    if point.is_given or _alone(subject, point, w, broken, start):
        return Broken.WRONG
    placed = broken | point.placed if point.placed.size else np.ones_like(broken)
    return Broken.COINCIDENCE if _is_smooth(subject, point.x, y, placed) else Broken.NOTE


def _is_smooth(subject: Subject, x: Array, y: Array, moved: Array) -> bool:
    """Whether slopes add up as those of a derivative do, when all that coincide are moved."""
    rng = np.random.default_rng(1)
    u = [np.where(moved, directions.generic(rng, subject.inputs, x), 0.0) for _ in range(2)]
    one, other, both = (
        slopes_beside(subject, x, y, v, smooth=True) for v in (u[0], u[1], u[0] + u[1])
    )
    if one is None or other is None or both is None:
        return False
    size = np.abs(one) + np.abs(other) + np.abs(both) + subject.scale.max(initial=0.0)
    return bool(np.all(np.abs(one + other - both) <= subject.epsilon**n.FINE * size))


def slopes_beside(
    subject: Subject, x: Array, y: Array, u: Array, *, smooth: bool = False
) -> Array | None:
    """One-sided derivatives along `u`, or nothing if some output has no finite one, or bends where it must not."""
    finite = np.flatnonzero(np.isfinite(y))[: n.SHORT_VECTOR]
    if not finite.size:
        return None
    size = np.abs(y[finite]) + subject.scale[finite]
    line = Line(lambda t: subject.value_or_nan(x + t * u)[finite])
    # an impossible claim: what is asked for is whether it can be refuted, which needs slopes that settle
    huge = np.full(finite.size, np.finfo(float).max)
    claim = Claim(huge, np.full(finite.size, np.inf), subject.epsilon * size, size, subject.epsilon)
    found = judge(line, claim)
    far = subject.epsilon**n.MOST_RADIUS
    both = np.isfinite(line(far)) & np.isfinite(line(-far))
    steepest = np.fmax(np.abs(found.low), np.abs(found.high))
    endless = _grows(line, 1.0, claim) | _grows(line, -1.0, claim)
    if not ((found.state == State.WRONG) & both & ~endless & ~(found.bends & smooth)).all():
        return None
    if not np.isfinite(y).all() and not steepest.any():
        return None  # it may come from outputs that have no value
    return found.high


def _grows(line: Line, side: float, claim: Claim) -> Array:
    """Whether quotients grow as steps shrink, as next to a jump or to an infinite slope; on either side by itself,
    for those of a cusp cancel.
    """
    near, far = (claim.epsilon**power for power in n.BALLS[:2])
    steep, less = (np.abs(line(side * h) - line(0.0)) / h for h in (near, far))
    return steep > (1 + n.COARSE**2) * less + n.BARS * claim.noise / near


def _is_overflow(subject: Subject, y: Array) -> bool:
    """Beyond the root of the largest number a rule may overflow where the function just does not."""
    largest = np.finfo(np.float64 if subject.epsilon < n.LONG_FORMAT else np.float32).max
    return bool(np.nanmax(np.abs(y), initial=0.0) > np.sqrt(float(largest)))


def _alone(subject: Subject, point: Point, w: Array, broken: Array, start: Array) -> bool:
    """Whether one of the entries, put alone where it is, makes the gradient there not finite."""
    scales = directions.leaf_scales(subject.inputs, start)
    x = np.where(start == point.x, start * (1 + n.NEAR) + (start == 0) * scales, start)
    which = int(np.flatnonzero(broken)[0])
    x[which] = point.x[which]
    try:
        y, r = subject.pull(x, w)
    except RuleFault:
        return True
    except OutsideDomain:
        return False
    if np.isfinite(r[which]) or not np.isfinite(y).all():
        return False
    scales = directions.leaf_scales(subject.inputs, x)
    u = np.where(np.arange(x.size) == which, scales, 0.0)
    return slopes_beside(subject, x, y, u) is not None
