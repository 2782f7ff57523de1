"""What a case is: a function, its right rule, and how to make inputs of about n elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Inputs = Callable[[np.random.Generator, int], list[np.ndarray]]


@dataclass(frozen=True)
class Case:
    """`make(B)` gives the function and its rule in the vocabulary of one framework.

    `domain` says where the function lives ("real" or "positive"); `cross` is a rule that forgets
    what couples the elements, where there is such a thing to forget.
    """

    name: str
    make: Callable[[Any], tuple[Callable[..., Any], Callable[..., Any]]]
    inputs: Inputs
    domain: str = "real"
    cross: Callable[[Any], Callable[..., Any]] | None = None


CASES: dict[str, Case] = {}


def case(
    inputs: Inputs, *, domain: str = "real", cross: Callable[..., Any] | None = None
) -> Callable[[Any], Any]:
    """Register a case under its function's name."""

    def register(make: Any) -> Any:
        CASES[make.__name__] = Case(make.__name__, make, inputs, domain, cross)
        return make

    return register


def _side(n: int) -> int:
    return max(2, round(np.sqrt(n)))


def vector(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """One vector."""
    return [rng.normal(size=n)]


def positive(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """One vector of positive numbers."""
    return [rng.uniform(0.3, 2.5, n)]


def two_vectors(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """Two vectors of one shape."""
    return [rng.normal(size=n), rng.normal(size=n)]


def two_positive(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """Two positive vectors of one shape."""
    return [rng.uniform(0.3, 2.5, n), rng.uniform(0.3, 2.5, n)]


def matrix(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """A matrix, not square."""
    rows = _side(n)
    return [rng.normal(size=(rows, max(3, n // rows)))]


def two_matrices(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """Two matrices of one shape."""
    rows = _side(n)
    return [rng.normal(size=(rows, max(3, n // rows))) for _ in range(2)]


def square(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """Two square matrices."""
    return [rng.normal(size=(_side(n), _side(n))) for _ in range(2)]


def rows_and_row(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """A matrix and a row to broadcast."""
    rows = _side(n)
    width = max(3, n // rows)
    return [rng.normal(size=(rows, width)), rng.normal(size=(width,))]


def linear_inputs(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """Batch, weights and bias."""
    side = max(2, round(np.sqrt(n / 2)))
    return [
        rng.normal(size=(side, side)),
        rng.normal(size=(side, side + 1)),
        rng.normal(size=side + 1),
    ]


def labelled(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """Logits and probabilities over rows."""
    rows = _side(n)
    logits = rng.normal(size=(rows, max(3, n // rows)))
    weights = rng.uniform(0.2, 1, logits.shape)
    return [logits, weights / weights.sum(-1, keepdims=True)]
