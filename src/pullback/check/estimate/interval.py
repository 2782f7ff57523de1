"""The derivative along a line as an interval: from the right and from the left, over a range of radii.

Three neighbouring radii are a window: one-sided quotients extrapolated to radius zero, with Ridders' error bar and what
noise can do. At the smallest radius at which the bar resolves it, a claim is right inside the interval and wrong
outside. What changes with the radius by more than noise can condemns nobody, and what no bar resolves stays open.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pullback.check import numbers as n
from pullback.check.probe import Array


class State(enum.IntEnum):
    """What is known of a claim."""

    OPEN = 0
    RIGHT = 1
    WRONG = 2


class Line:
    """Entries of a function at distances along a line, each worked out once."""

    def __init__(self, at: Callable[[float], Array], start: Array | None = None) -> None:
        self._at = at
        self._known: dict[float, Array] = {} if start is None else {0.0: start}

    def __call__(self, t: float) -> Array:
        if t not in self._known:
            self._known[t] = self._at(t)
        return self._known[t]

    def part(self, which: Array) -> "Line":
        """Some of the entries; what is known of the whole line is not worked out again."""
        return Line(lambda t: self(t)[which])


@dataclass(frozen=True)
class Window:
    """The hull of the one-sided derivatives that three radii give, and the larger of their errors.

    `apart` is how far the two sides are, whether that is a kink or an error.
    """

    low: Array
    high: Array
    error: Array
    rounding: Array
    bends: Array
    apart: Array

    @property
    def bar(self) -> Array:
        """Beyond this a difference is sure."""
        return n.BARS * self.error

    @property
    def size(self) -> Array:
        """The size of the derivative."""
        return np.fmax(np.abs(self.low), np.abs(self.high))

    def beyond(self, claim: Array) -> Array:
        """How far a claim lies outside the hull; nothing for one inside. What is not finite is in no hull."""
        beyond = np.maximum(np.maximum(self.low - claim, claim - self.high), 0.0)
        return np.where(np.isfinite(claim), beyond, np.inf)

    def settled_from(self, smaller: "Window", claim: Array) -> Array:
        """Whether both ends have moved from those at smaller radii by what rounding does, or not towards the claim."""
        moved = np.maximum(np.abs(self.low - smaller.low), np.abs(self.high - smaller.high))
        near = np.fmin(self.beyond(claim), smaller.beyond(claim))
        near = np.where(np.isfinite(claim), near, 0.0)
        return moved <= n.NOISE_FACTOR * (self.rounding + smaller.rounding) + n.COARSE**2 * near


@dataclass(frozen=True)
class Claim:
    """Claimed derivatives along a line, and what it takes to decide on them.

    `gap` is how far each was from an earlier measurement: a bar that does not resolve it decides nothing. `size` is
    that of the function's values, `noise` what of them is not smooth.
    """

    value: Array
    gap: Array
    noise: Array
    size: Array
    epsilon: float

    def supported_by(self, window: Window) -> Array:
        """Inside, by a bar that resolves the gap and is small against the derivative, or against the values."""
        bar, share = window.bar, self.epsilon**n.FINE
        fine = bar <= share * (np.abs(self.value) + window.size)
        nothing = (np.abs(self.value) <= n.UNITS * self.noise) & (bar <= share * self.size)
        inside = np.isfinite(self.value) & (window.beyond(self.value) <= bar)
        return inside & (bar <= n.RESOLVED * self.gap) & (fine | nothing)


@dataclass(frozen=True)
class Judgement:
    """For each entry: what is known of its claim, the window that decided, or the one with the smallest bar."""

    state: Array
    low: Array
    high: Array
    error: Array
    bends: Array


class _Search:
    """A judgement in the making, from window to window."""

    def __init__(self, claim: Claim) -> None:
        self.claim, size = claim, claim.value.size
        self.jumps, self.outside, bends = (np.zeros(size, bool) for _ in range(3))
        low, high, error = (np.full(size, start) for start in (np.nan, np.nan, np.inf))
        self.found = Judgement(np.zeros(size, int), low, high, error, bends)
        # a derivative that still changes where rounding no longer hides it: larger radii condemn nobody
        self.moving = np.zeros(size, bool)

    @property
    def is_open(self) -> Array:
        return (self.found.state == State.OPEN) & ~self.jumps

    def support(self, window: Window) -> None:
        """Claims inside the interval are right."""
        self._write(self.is_open & (window.error < self.found.error), window, State.OPEN)
        self._write(self.is_open & self.claim.supported_by(window), window, State.RIGHT)

    def refute(self, window: Window, smaller: Window | None) -> None:
        """Claims outside in two successive windows, between which the derivative has not moved, are wrong."""
        outside = window.beyond(self.claim.value) > window.bar
        if smaller is not None:
            settled = window.settled_from(smaller, self.claim.value)
            resolved = n.BARS * smaller.rounding <= n.RESOLVED * self.claim.gap
            self.moving |= resolved & ~settled
            wrong = self.is_open & outside & self.outside & settled & ~self.moving
            self._write(wrong, window, State.WRONG)
        self.outside = outside

    def _write(self, where: Array, window: Window, state: State) -> None:
        self.found.state[where] = state
        for name in ("low", "high", "error", "bends"):
            getattr(self.found, name)[where] = getattr(window, name)[where]


def judge(line: Line, claim: Claim, *, at_once: bool = False) -> Judgement:
    """What the function says of a claim, entry by entry; `at_once`: what the one window says that confirms most."""
    radii, search, smaller = _radii(claim.epsilon), _Search(claim), None
    with np.errstate(all="ignore"):
        search.support(window(line, radii[n.RADII // 3 :][:3], claim.noise))
        if at_once:
            return search.found
        if search.is_open.any():
            search.jumps = jumps(line, claim.noise, claim.epsilon)
        for k in range(n.RADII - 2):
            if not search.is_open.any():
                break
            larger = window(line, radii[k:][:3], claim.noise)
            search.support(larger)
            search.refute(larger, smaller)
            smaller = larger
    return search.found


def _radii(epsilon: float) -> Array:
    return np.geomspace(epsilon**n.LEAST_RADIUS, epsilon**n.MOST_RADIUS, n.RADII)


def jumps(line: Line, noise: Array, epsilon: float) -> Array:
    """Where the value at the point itself is not the limit of those beside it: there is no derivative to speak of."""
    here = line(0.0)
    near, far = (
        np.fmin(np.abs(line(h) - here), np.abs(line(-h) - here)) for h in _radii(epsilon)[:2]
    )
    return (near > n.BARS * noise) & (near > n.LASTING * far)


def window(line: Line, radii: Array, noise: Array) -> Window:
    """What three radii tell of the derivatives from both sides."""
    here = line(0.0)
    above, below = (np.array([line(s * h) for h in radii]) for s in (1, -1))
    h = radii[:, None]
    right, right_error, rounding = _extrapolated((above - here) / h, radii, 2 * noise, 1)
    left, left_error, _ = _extrapolated((here - below) / h, radii, 2 * noise, 1)
    middle, error, _ = _extrapolated((above - below) / (2 * h), radii, noise, 2)
    apart = np.abs(right - left)
    bends = apart > n.BARS * (right_error + left_error)
    # a side on which the function has no finite value says nothing
    one_sided = bends | ~np.isfinite(middle)
    error = np.where(one_sided, np.fmax(right_error, left_error), error)
    return Window(
        low=np.where(one_sided, np.fmin(right, left), middle),
        high=np.where(one_sided, np.fmax(right, left), middle),
        error=np.where(np.isnan(error), np.inf, error),
        rounding=rounding,
        bends=bends,
        apart=np.where(np.isfinite(apart), apart, np.inf),
    )


def _extrapolated(
    quotients: Array, radii: Array, noise: Array, power: int
) -> tuple[Array, Array, Array]:
    """Neville's scheme for quotients whose error is a series in a power of the radius, Ridders' bar, and rounding."""
    factor = (radii[1] / radii[0]) ** power
    once, twice = 1 / (factor - 1), 1 / (factor * factor - 1)
    near = quotients[0] + once * (quotients[0] - quotients[1])
    far = quotients[1] + once * (quotients[1] - quotients[2])
    best = near + twice * (near - far)
    weights = np.array([(1 + twice) * (1 + once), once * (1 + 2 * twice) + twice, twice * once])
    rounding = noise * float(np.sum(weights / radii))
    return best, np.maximum(np.abs(best - near), np.abs(best - far)) + rounding, rounding
