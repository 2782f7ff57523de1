"""Inputs for a call: values of many kinds, the places where gradients tend to be wrong among them.

A call is a text in which `{x:2,3}` stands for an input `x` of that shape, and `{x:3,3:definite}` says what its values
must be.
"""

import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pullback.extend import Array

_INPUT = re.compile(r"\{(\w+):([\d,]*)(?::(\w+))?\}")
_RADIUS = 0.35  # numbers are between 0.2 and 0.9, inside the domain of nearly every function
_CENTRE = 0.55
_DIGITS = 2  # after the point: they have to be read by people

Generator = np.random.Generator
Kind = Callable[[Generator, tuple[int, ...]], Array]


def parsed(template: str) -> tuple[str, list[tuple[str, tuple[int, ...], str]]]:
    """The call as an expression, and name, shape and role of each input."""
    found = [
        (name, tuple(int(n) for n in shape.split(",") if n), role)
        for name, shape, role in _INPUT.findall(template)
    ]
    return _INPUT.sub(r"\1", template), list({one[0]: one for one in found}.values())


def between(rng: Generator, shape: tuple[int, ...]) -> Array:
    """Numbers between 0.2 and 0.9."""
    return _CENTRE + _RADIUS * rng.uniform(-1, 1, shape)


def signed(rng: Generator, shape: tuple[int, ...]) -> Array:
    """Numbers of both signs."""
    return rng.normal(size=shape)


def with_zeros(rng: Generator, shape: tuple[int, ...]) -> Array:
    """Every third number is 0, the others are between 0.2 and 0.9."""
    values = between(rng, shape)
    values.flat[::3] = 0.0
    return values


def zeros(rng: Generator, shape: tuple[int, ...]) -> Array:
    """All zeros."""
    del rng
    return np.zeros(shape)


def ones(rng: Generator, shape: tuple[int, ...]) -> Array:
    """All ones, which are ties as well."""
    del rng
    return np.ones(shape)


def halves(rng: Generator, shape: tuple[int, ...]) -> Array:
    """All 0.5."""
    del rng
    return np.full(shape, 0.5)


def integers(rng: Generator, shape: tuple[int, ...]) -> Array:
    """Whole numbers from -2 to 3: negative ones, zeros, ties."""
    return rng.integers(-2, 4, shape).astype(float)


def large(rng: Generator, shape: tuple[int, ...]) -> Array:
    """Numbers around ±50."""
    return 50 * rng.normal(size=shape)


def masked(rng: Generator, shape: tuple[int, ...]) -> Array:
    """-inf in the first place, as a mask writes it."""
    values = rng.normal(size=shape)
    values.flat[:1] = -np.inf
    return values


def complex_numbers(rng: Generator, shape: tuple[int, ...]) -> Array:
    """Complex numbers."""
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def complex_with_zero(rng: Generator, shape: tuple[int, ...]) -> Array:
    """Complex numbers, every third of them 0."""
    values = complex_numbers(rng, shape)
    values.flat[::3] = 0.0
    return values


PLAIN: dict[str, Kind] = {"numbers between 0.2 and 0.9": between, "numbers of both signs": signed}
AT_ORDER_TWO: dict[str, Kind] = {"zeros among the numbers": with_zeros, "all ones": ones}
SPECIAL: dict[str, Kind] = {
    "whole numbers": integers,
    "large numbers": large,
}
MASKED: dict[str, Kind] = {"-inf in the first place": masked}
COMPLEX: dict[str, Kind] = {
    "complex numbers": complex_numbers,
    "complex numbers and 0": complex_with_zero,
}


def _definite(rng: Generator, shape: tuple[int, ...], kind: Kind) -> Array:
    """A symmetric positive definite matrix; a multiple of the identity where all numbers are to be equal."""
    unit = np.eye(shape[-1]) + np.zeros(shape)
    if kind in (ones, zeros, halves):
        return unit * (0.5 if kind is halves else 1.0)
    values = complex_numbers(rng, shape) if kind in COMPLEX.values() else signed(rng, shape)
    return values @ np.conj(np.swapaxes(values, -1, -2)) + unit


def _require_real(kind: Kind) -> None:
    """Vectors of complex matrices have a phase that is anybody's choice."""
    if kind in COMPLEX.values():
        raise ValueError("complex vectors are not unique")


def _distinct(rng: Generator, shape: tuple[int, ...], kind: Kind) -> Array:
    """A real matrix with singular values far apart, whatever is wanted: else its vectors are not unique."""
    _require_real(kind)
    u, _, v = np.linalg.svd(signed(rng, shape), full_matrices=False)
    return (u * np.arange(1, u.shape[-1] + 1)) @ v


def _spread(rng: Generator, shape: tuple[int, ...], kind: Kind) -> Array:
    """A real symmetric matrix with eigenvalues far apart, whatever is wanted."""
    _require_real(kind)
    q, _ = np.linalg.qr(signed(rng, shape))
    return (q * np.arange(1, shape[-1] + 1)) @ np.swapaxes(q, -1, -2)


def _triangular(rng: Generator, shape: tuple[int, ...], kind: Kind) -> Array:
    return np.tril(_definite(rng, shape, kind))


def _probabilities(rng: Generator, shape: tuple[int, ...], kind: Kind) -> Array:
    """Numbers between 0 and 1; the ends of the interval where zeros are wanted."""
    values = np.clip(np.abs(kind(rng, shape)), 0, 1)
    if kind is with_zeros:
        values.flat[1::3] = 1.0
    return values if kind in (zeros, ones, halves, with_zeros) else between(rng, shape)


def _distribution(rng: Generator, shape: tuple[int, ...], kind: Kind) -> Array:
    """Rows that sum to 1; with zeros, rows with a single 1."""
    values = between(rng, shape)
    if kind in (with_zeros, zeros, ones, integers):
        values = (values == values.max(-1, keepdims=True)).astype(float)
    return values / values.sum(-1, keepdims=True)


def _positive(rng: Generator, shape: tuple[int, ...], kind: Kind) -> Array:
    return np.abs(np.real(kind(rng, shape))) + 0.1


def _ordered(rng: Generator, shape: tuple[int, ...], kind: Kind) -> Array:
    """Rising along the last axis."""
    return np.sort(np.real(kind(rng, shape)), -1)


def _bits(rng: Generator, shape: tuple[int, ...], kind: Kind) -> Array:
    """Labels 0 and 1."""
    del kind
    return (rng.uniform(size=shape) < 0.5).astype(float)


def _signs(rng: Generator, shape: tuple[int, ...], kind: Kind) -> Array:
    """Labels -1 and 1."""
    return 2 * _bits(rng, shape, kind) - 1


def _tridiagonal(rng: Generator, shape: tuple[int, ...], kind: Kind) -> Array:
    """Diagonals of a matrix in which the middle one outweighs the others."""
    values = kind(rng, shape) if kind in COMPLEX.values() else between(rng, shape)
    values[..., 1, :] += 5
    return values


def _boxes(rng: Generator, shape: tuple[int, ...], kind: Kind) -> Array:
    """Corners of boxes inside the unit square."""
    del kind
    low = rng.uniform(0.05, 0.3, (*shape[:-1], 2))
    return np.concatenate([low, low + rng.uniform(0.3, 0.6, low.shape)], -1)


ROLES: Mapping[str, Callable[[Generator, tuple[int, ...], Kind], Array]] = {
    "definite": _definite,
    "distinct": _distinct,
    "spread": _spread,
    "triangular": _triangular,
    "probabilities": _probabilities,
    "distribution": _distribution,
    "positive": _positive,
    "ordered": _ordered,
    "bits": _bits,
    "signs": _signs,
    "tridiagonal": _tridiagonal,
    "boxes": _boxes,
}


def filled(
    inputs: list[tuple[str, tuple[int, ...], str]], kind: Kind, dtype: str, seed: str
) -> dict[str, Array]:
    """Values of one kind for all inputs; the same for the same seed."""
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    found: dict[str, Array] = {}
    for name, shape, role in inputs:
        values: Any = ROLES[role](rng, shape, kind) if role in ROLES else kind(rng, shape)
        is_real = role == "real" and np.iscomplexobj(values)
        wanted = dtype.replace("complex64", "float32") if role == "real" else dtype
        found[name] = _rounded(values.real if is_real else values, role).astype(wanted)
    return found


def _rounded(values: Array, role: str) -> Array:
    """Short numbers; what a role demands would not hold of rounded ones."""
    return values if role in ("spread", "distribution") else np.round(values, _DIGITS)


def resized(template: str, size: int) -> str:
    """The call with every axis of its inputs of this size; with empty ones, only the first axis is."""
    axes = r"\d+" if size else r"^\d+"

    def other(found: re.Match[str]) -> str:
        shape = re.sub(axes, str(size), found[2])
        return f"{{{found[1]}:{shape}{':' + found[3] if found[3] else ''}}}"

    return _INPUT.sub(other, template)
