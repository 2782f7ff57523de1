"""The shares of exponentials in their sum, and rules made of them, right where a share is nearly 1 and to any order.

One minus a share that is nearly 1 is the sum of the others. What is said of it holds for derivatives as well: so what
rules return has a rule of its own, which does without differences of nearly equal numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.functions._arguments import arrays_for, with_own_gradient


def difference(xp: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """The rounded difference and its rounding, which is exact: their sum is x − y. Equal infinities differ by 0."""
    plain = x - y
    rounded = xp.where((x != y) | xp.isfinite(plain), plain, xp.zeros_like(plain))
    back = rounded - x
    rest = (x - (rounded - back)) - (y + back)
    return rounded, xp.stop_gradient(xp.where(xp.isfinite(rest), rest, xp.zeros_like(rest)))


def below_largest(xp: Any, x: Any, axes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """The largest entry along axes, how far the others are below it, and the rounding of that.

    Where all entries are −inf, the largest is taken as 0.
    """
    largest = xp.stop_gradient(xp.max(x, axes, keepdims=True))
    top = xp.where(xp.isfinite(largest), largest, xp.zeros_like(largest))
    shifted, rest = difference(xp, x, top)
    return largest, shifted, rest


class Shares:
    """Exponentials beside the largest, which is 1, and their sum."""

    def __init__(
        self, xp: Any, z: Any, axes: tuple[int, ...], total: Callable[[Any], Any] | None = None
    ) -> None:
        self._xp = xp
        self.total = total or (lambda x: xp.sum(x, axes, keepdims=True))
        largest, self.shifted, rest = below_largest(xp, z, axes)
        self.usual = xp.isfinite(largest)
        self._top = self.shifted == 0
        summed = xp.exp(self.shifted) * (1.0 + rest)
        # Sums that have nothing in memory stay so only if what they sum is not used otherwise: it is computed again.
        self.parts = xp.square(xp.exp(0.5 * self.shifted)) * (1.0 + rest) if total else summed
        beside, tops = self._apart(summed)
        # The largest are 1 each, which to higher order have derivatives.
        tops = self._apart(xp.ones_like(summed))[1] if total else tops
        self._rest = self.total(beside) + (self.total(tops) - 1.0)
        self.whole = 1.0 + self._rest
        # The sum of all parts but one.
        self._others = xp.where(self._top, self._rest - (self.parts - 1.0), self.whole - self.parts)

    @property
    def log_of_whole(self) -> Any:
        """The logarithm of the sum."""
        return self._xp.log1p(self._rest)

    def excess(self, labels: Any) -> Any:
        """Σ labels · softmax(z) − labels."""
        beside = self.total(labels) - labels
        return (self.parts * beside - labels * self._others) / self.whole

    def below_mean(self, u: Any) -> Any:
        """Σ softmax(z) · u − u."""
        beside, tops = self._apart(self.parts * u)
        rest = self.total(beside) + (self.total(tops) - tops) - beside
        return (rest - u * self._others) / self.whole

    def _apart(self, parts: Any) -> tuple[Any, Any]:
        """Parts, and those that belong to the largest exponential."""
        nothing = self._xp.zeros_like(parts)
        return self._xp.where(self._top, nothing, parts), self._xp.where(self._top, parts, nothing)


@with_own_gradient
def excess(labels: Any, z: Any, *, axes: tuple[int, ...], total: Any = None) -> Any:
    """Σ labels · softmax(z) − labels; sums may be taken in another way."""
    xp = arrays_for(z)

    def excess_pullback(u: Any) -> Any:
        shares = Shares(xp, z, axes)
        turned, share = shares.below_mean(u), shares.parts / shares.whole
        return {"labels": turned, "z": -shares.total(labels) * share * turned}

    return Shares(xp, z, axes, total).excess(labels), excess_pullback


@with_own_gradient
def minus_log_softmax(z: Any, *, axes: tuple[int, ...], total: Any = None) -> Any:
    """The logarithm of the sum of exponentials less each logit."""
    xp = arrays_for(z)
    shares = Shares(xp, z, axes, total)

    def minus_log_softmax_pullback(u: Any) -> Any:
        return Shares(xp, z, axes).excess(u)

    return shares.log_of_whole - shares.shifted, minus_log_softmax_pullback


@with_own_gradient
def less_constant(found: Any, z: Any, *, axes: tuple[int, ...]) -> Any:
    """What is softmax(z) less a constant, with its derivative."""
    xp = arrays_for(z)

    def less_constant_pullback(u: Any) -> Any:
        shares = Shares(xp, z, axes)
        return {"z": -(shares.parts / shares.whole) * shares.below_mean(u)}

    return xp.identity(found), less_constant_pullback


@with_own_gradient
def shared_out(dy: Any, z: Any, parts: Any, whole: Any, *, axes: tuple[int, ...]) -> Any:
    """Numbers times softmax(z), which is known as parts of a whole. Shares of infinite numbers are constant."""
    xp = arrays_for(z)
    whole = xp.where(whole == 0, xp.ones_like(whole), whole)

    def shared_out_pullback(u: Any) -> Any:
        shares = Shares(xp, z, axes)
        known = xp.astype(parts / whole, z.dtype)
        share = xp.where(shares.usual, shares.parts / shares.whole, known)
        turned = -xp.astype(dy, z.dtype) * share * shares.below_mean(xp.astype(u, z.dtype))
        return {
            "dy": xp.sum(u * xp.astype(share, u.dtype), axes, keepdims=True),
            "z": xp.where(shares.usual, turned, xp.zeros_like(turned)),
        }

    return parts * (dy / whole), shared_out_pullback
