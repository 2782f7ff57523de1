"""Methods of Runge and Kutta: their tables, and one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Slope = Callable[[Any, Any], Any]


class Tableau(NamedTuple):
    """A method of Runge and Kutta: where the stages are, what they are made of, their weights, those of the error."""

    times: Sequence[float]
    stages: Sequence[Sequence[float]]
    weights: Sequence[float]
    error: Sequence[float] | None = None


METHODS = {
    "euler": Tableau([0.0], [[]], [1.0]),
    "midpoint": Tableau([0.0, 0.5], [[], [0.5]], [0.0, 1.0]),
    "rk4": Tableau(
        [0.0, 0.5, 0.5, 1.0], [[], [0.5], [0.0, 0.5], [0.0, 0.0, 1.0]], [1 / 6, 1 / 3, 1 / 3, 1 / 6]
    ),
    "dopri5": Tableau(
        [0.0, 0.2, 0.3, 0.8, 8 / 9, 1.0, 1.0],
        [
            [],
            [0.2],
            [3 / 40, 9 / 40],
            [44 / 45, -56 / 15, 32 / 9],
            [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
            [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
            [35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
        ],
        [35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0.0],
        [71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40],
    ),
}


def runge_kutta(tableau: Tableau, slope: Slope, y: Any, time: Any, h: Any) -> tuple[Any, Any]:
    """One step, and an estimate of its error where the method has one."""
    found: list[Any] = []
    for c, row in zip(tableau.times, tableau.stages, strict=True):
        found.append(slope(_along(y, h, row, found), time + c * h))
    moved = _along(y, h, tableau.weights, found)
    error = None if tableau.error is None else _along(0.0 * y, h, tableau.error, found)
    return moved, error


def runge_kutta_of(
    tableau: Tableau, slopes: Any, state: Sequence[Any], time: Any, h: Any
) -> list[Any]:
    """One step of a state of several arrays."""
    found: list[Sequence[Any]] = []
    for c, row in zip(tableau.times, tableau.stages, strict=True):
        at = [_along(y, h, row, [k[n] for k in found]) for n, y in enumerate(state)]
        found.append(slopes(at, time + c * h))
    return [_along(y, h, tableau.weights, [k[n] for k in found]) for n, y in enumerate(state)]


def _along(y: Any, h: Any, weights: Sequence[float], slopes: Sequence[Any]) -> Any:
    parts = [(w, k) for w, k in zip(weights, slopes, strict=False) if w]
    return y + h * sum(w * k for w, k in parts) if parts else y
