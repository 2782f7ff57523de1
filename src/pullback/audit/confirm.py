"""A second opinion: the program that is to be shown is run, and must show what is said of it.

It knows nothing of the check: it takes quotients of differences to either side of each number, with two steps.
"""

import contextlib
import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.check.probe import Array

_SAFETY = 10.0  # times by which a gap must exceed the error of the quotients
_LEAST = 1e-3  # share of the size below which a gap is rounding, in single precision
_SETTLED = 0.2  # share by which quotients may differ with the step: what differs more is a jump, and tells nothing
_NOTHING = 1e-7  # slopes below this may be rounding alone
_REPEATS = 12  # calls with the same numbers: one of two values may be drawn several times over


@dataclass(frozen=True)
class Opinion:
    """Whether the program bears the finding out, what it printed or raised, whether at a kink, or without gradient.

    Of a function that gives another value each time differences tell nothing: it is `random`.
    """

    confirmed: bool
    shown: str = ""
    kink: bool = False
    missing: bool = False
    random: bool = False


def opinion(script: str, blamed: str) -> Opinion:
    """Run a program that leaves `got`, `f` and the blamed input behind, and judge it."""
    known: dict[str, Any] = {}
    printed = io.StringIO()
    raised = ""
    try:
        with contextlib.redirect_stdout(printed), np.errstate(all="ignore"):
            exec(script, known)
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        raised = f"{type(error).__name__}: {first[:200]}"
    if "f" not in known:
        return Opinion(False, raised)
    at = known.get("exact", known.get(blamed))
    try:
        if _is_random(known["f"], at):
            return Opinion(False, random=True)
        below, above, error = slopes(known["f"], at)
    except Exception:  # the function itself does not run beside the point: nothing can be said
        return Opinion(False, raised)
    got = None if raised else known["got"]
    if got is None:
        exists = np.any(np.abs(np.nan_to_num((below + above) / 2)) > _NOTHING + _SAFETY * error)
        return Opinion(bool(exists), raised or printed.getvalue().strip(), missing=True)
    return _compared(_dense(got), below, above, error, printed.getvalue().strip())


def _is_random(f: Any, x: Any) -> bool:
    """Whether equal calls give different values, beside the point, whose ties and zeros may hide it."""
    value = np.asarray(x)
    away = np.linspace(1e-3, 2e-3, value.size).reshape(value.shape)
    moved = x + away.astype(value.dtype)
    found = [float(f(moved)) for _ in range(_REPEATS)]
    return not np.allclose(found, found[0], 1e-9, 0, equal_nan=True)


def _dense(got: Any) -> Array:
    """A gradient as an array; one of slices is added up by the framework."""
    if hasattr(got, "indices") and hasattr(got, "values"):
        full = np.zeros([int(n) for n in got.dense_shape], got.values.dtype.as_numpy_dtype)
        np.add.at(full, np.asarray(got.indices), np.asarray(got.values))
        return full
    return np.asarray(got)


def _compared(got: Array, below: Array, above: Array, error: Array, shown: str) -> Opinion:
    if got.shape != below.shape:
        return Opinion(True, shown)
    known = np.isfinite(below) & np.isfinite(above) & np.isfinite(error)
    gap = _gap(np.real(got), np.real(below), np.real(above))
    if np.iscomplexobj(below):
        gap = np.maximum(gap, _gap(np.imag(got), np.imag(below), np.imag(above)))
    size = np.abs(got) + np.abs(below) + np.abs(above)
    wrong = known & ~(gap <= _SAFETY * error + _LEAST * size)
    kink = bool(np.any(wrong & (np.abs(above - below) > _SAFETY * error + _LEAST * size)))
    return Opinion(bool(np.any(wrong)), shown, kink)


def _gap(got: Array, below: Array, above: Array) -> Array:
    """How far something lies outside of the interval of the slopes to either side."""
    low, high = np.minimum(below, above), np.maximum(below, above)
    return np.maximum(np.maximum(low - got, got - high), 0)


def slopes(f: Any, x: Any) -> tuple[Array, Array, Array]:
    """Slopes of f below and above each number of x, and how far they are off; complex ones as df/da + i df/db."""
    value = np.asarray(x)
    step = 1e-5 if value.dtype.name in ("float64", "complex128") else 1e-2
    found = _one_sided(f, x, value, step, 1)
    if not np.iscomplexobj(value):
        return found
    turned = _one_sided(f, x, value, step, 1j)
    below, above, error = (a + 1j * b for a, b in zip(found, turned, strict=True))
    return below, above, np.abs(error)


def _one_sided(
    f: Any, x: Any, value: Array, step: float, turn: complex
) -> tuple[Array, Array, Array]:
    here = float(f(x))
    rows: list[list[float]] = []
    for k in range(value.size):
        one = np.zeros(value.size, value.dtype)
        one[k] = turn
        h = one.reshape(value.shape)
        at = [float(f(x + (h * s).astype(value.dtype))) for s in (-2 * step, -step, step, 2 * step)]
        coarse = ((here - at[0]) / (2 * step), (at[3] - here) / (2 * step))
        fine = ((here - at[1]) / step, (at[2] - here) / step)
        better = [2 * f1 - c for f1, c in zip(fine, coarse, strict=True)]
        error = max(abs(b - f1) for b, f1 in zip(better, fine, strict=True))
        # at a jump quotients grow as the step shrinks; where a slope is next to nothing they shrink with it
        moved = max(
            abs(a) - abs(b) - _SETTLED * (abs(a) + abs(b))
            for a, b in zip(fine, coarse, strict=True)
        )
        rounding = abs(here) * np.finfo(value.dtype).eps / step
        settled = moved <= _SAFETY * 4 * rounding + _NOTHING
        rows.append([*better, error / 10 + 4 * rounding if settled else np.inf])
    table = np.array(rows).reshape(-1, 3)
    below, above, error = (table[:, k].reshape(value.shape) for k in range(3))
    return below, above, error
