"""Wrong rules, made from right ones the way people make mistakes; seven families."""

# ruff: noqa: ANN001, ANN202
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.check_bench.cases import Case

FAMILIES = ("gross", "small", "one", "prec", "rare", "stale", "2nd")
Change = Callable[[Any, Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Mutant:
    """A wrong rule of a case: `change(B, right rule)` gives it. `kinds` are fitting diagnoses."""

    case: Case
    family: str
    label: str
    change: Change
    kinds: frozenset[str]
    trigger: float | None = None


def _on(which: int, edit: Callable[..., Any]) -> Change:
    """Edit the gradient of one input: `edit(B, g, x, dy)`."""

    def change(B, right):
        def rule(dy, xs, ys):
            found = list(right(dy, xs, ys))
            found[which] = edit(B, found[which], xs[which], dy)
            return tuple(found)

        return rule

    return change


def _element(size: int, factor: float, at: int) -> Callable[..., Any]:
    mask = np.ones(size)
    mask[at] = factor

    def edit(B, g, x, dy):
        return g * B.like(B.array(mask.reshape(B.shape(g)), "float64"), g)

    return edit


def _where(condition: Callable[..., Any], factor: float) -> Callable[..., Any]:
    def edit(B, g, x, dy):
        some = dy[0] if isinstance(dy, tuple) else dy
        extra = B.sum(some) / B.size(some) if factor == 0.0 else B.sum(some) * 0
        return B.where(condition(B, x), factor * g + extra, g)

    return edit


def _rounded(kind: str) -> Callable[..., Any]:
    return lambda B, g, x, dy: B.like(B.cast(g, kind), g)


def _saved(edit: Callable[..., Any]) -> Change:
    """Hand the rule edited inputs: `edit(B, x)`; outputs are as they were."""

    def change(B, right):
        return lambda dy, xs, ys: right(dy, tuple(edit(B, x) for x in xs), ys)

    return change


def _no_upstream(B, right):
    def rule(dy, xs, ys):
        ones = tuple(B.ones(d) for d in dy) if isinstance(dy, tuple) else B.ones(dy)
        return right(ones, xs, ys)

    return rule


def _swapped(B, right):
    def rule(dy, xs, ys):
        a, b, *rest = right(dy, xs, ys)
        return (b, a, *rest)

    return rule


def _last_call(B, right):
    saved: list[Any] = []

    def rule(dy, xs, ys):
        return right(dy, saved[-1][0], saved[-1][1])

    rule.remember = lambda xs, ys: saved.append((xs, ys)) or saved.__delitem__(slice(0, -1))
    return rule


def _first_call(B, right):
    saved: list[Any] = []

    def rule(dy, xs, ys):
        return right(dy, saved[0][0], saved[0][1])

    rule.remember = lambda xs, ys: saved.append((xs, ys)) if not saved else None
    return rule


def _detached(B, right):
    def rule(dy, xs, ys):
        held = tuple(B.stop(y) for y in ys) if isinstance(ys, tuple) else B.stop(ys)
        return right(dy, tuple(B.stop(x) for x in xs), held)

    return rule


def _doubled_second(B, right):
    def rule(dy, xs, ys):
        twice = tuple(x + (x - B.stop(x)) for x in xs)
        return right(dy, twice, ys)

    return rule


def _detached_result(B, right):
    def rule(dy, xs, ys):
        held = right(
            dy,
            tuple(B.stop(x) for x in xs),
            tuple(B.stop(y) for y in ys) if isinstance(ys, tuple) else B.stop(ys),
        )
        return tuple(held)

    return rule


def mutants(case: Case, rng: np.random.Generator, n: int) -> Iterator[Mutant]:
    """The wrong rules of a case, for inputs of about n elements."""
    shapes = [x.shape for x in case.inputs(np.random.default_rng(0), n)]
    which = int(rng.integers(len(shapes)))

    def make(family, label, change, kinds, trigger=None):
        return Mutant(case, family, label, change, frozenset(kinds.split()), trigger)

    yield from _gross(case, make, which, shapes)
    yield from _small(make, which)
    size = int(np.prod(shapes[which]))
    at = int(rng.integers(size))
    for label, factor in [("×1.5", 1.5), ("zero", 0.0), ("sign", -1.0), ("×1.01", 1.01)]:
        yield make(
            "one",
            f"element {label}",
            _on(which, _element(size, factor, at)),
            "element factor sign detached",
        )
    yield make("prec", "float32 result", _on(which, _rounded("float32")), "precision")
    yield make("prec", "bfloat16 result", _on(which, _rounded("bfloat16")), "precision")
    yield make(
        "prec", "float32 saved", _saved(lambda B, x: B.like(B.cast(x, "float32"), x)), "precision"
    )
    yield from _rare(make, which)
    yield make("stale", "last call", _last_call, "stale")
    yield make("stale", "first call", _first_call, "stale")
    yield make("2nd", "detached", _detached, "second")
    yield make("2nd", "twice", _doubled_second, "second")


def _gross(case, make, which, shapes) -> Iterator[Mutant]:
    yield make("gross", "×2", _on(which, lambda B, g, x, dy: 2 * g), "factor")
    yield make("gross", "×0.5", _on(which, lambda B, g, x, dy: g / 2), "factor")
    yield make("gross", "sign", _on(which, lambda B, g, x, dy: -g), "sign")
    yield make("gross", "upstream", _no_upstream, "upstream")
    yield make("gross", "zeros", _on(which, lambda B, g, x, dy: B.zeros(g)), "detached none")
    yield make("gross", "None", _on(which, lambda B, g, x, dy: None), "none detached")
    if shapes[which]:
        yield make(
            "gross", "reversed", _on(which, lambda B, g, x, dy: B.flip(g)), "reversed permuted"
        )
    if len(shapes[which]) == 2 and shapes[which][0] == shapes[which][1]:
        yield make(
            "gross", "transposed", _on(which, lambda B, g, x, dy: B.swap(g)), "transposed permuted"
        )
    if len(shapes) == 2 and shapes[0] == shapes[1]:
        yield make("gross", "swapped", _swapped, "swapped sign")
    if case.cross is not None:
        yield make("gross", "cross term", lambda B, right: case.cross(B), "term")


def _small(make, which) -> Iterator[Mutant]:
    yield make("small", "×1.01", _on(which, lambda B, g, x, dy: 1.01 * g), "factor")
    yield make("small", "×1.0001", _on(which, lambda B, g, x, dy: 1.0001 * g), "factor")

    def stabilised(B, g, x, dy):
        return g * B.abs(x) / (B.abs(x) + 1e-6)

    yield make("small", "stabiliser", _on(which, stabilised), "small term")


def _rare(make, which) -> Iterator[Mutant]:
    yield make("rare", "x = 0", _on(which, _where(lambda B, x: x == 0, 0.0)), "condition", 0.0)
    yield make("rare", "x > 4", _on(which, _where(lambda B, x: x > 4, 0.5)), "condition", 5.0)
    yield make("rare", "x < -4", _on(which, _where(lambda B, x: x < -4, 0.5)), "condition", -5.0)
    yield make(
        "rare", "|x| > 20", _on(which, _where(lambda B, x: B.abs(x) > 20, 0.9)), "condition", 22.0
    )
    yield make(
        "rare",
        "|x| < 0.001",
        _on(which, _where(lambda B, x: B.abs(x) < 1e-3, 1.5)),
        "condition",
        5e-4,
    )
    yield make(
        "rare", "ties", _on(which, _where(lambda B, x: x == B.roll(x), 2.0)), "condition", 0.7
    )
    yield make(
        "rare", "x < 0", _on(which, _where(lambda B, x: x < 0, 1.3)), "condition factor", -0.7
    )
