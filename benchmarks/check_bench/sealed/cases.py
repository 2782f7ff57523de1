"""What a case is: a family (a right rule and its mistakes) or a single item; arguments to try them."""

# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

import pullback as pb

NOT_RIGHT = frozenset({"wrong", "undecided", "raised"})
NOT_WRONG = frozenset({"right", "undecided"})


@dataclass(frozen=True)
class Mistake:
    """One way to get a rule wrong: what it is, and what shows it.

    `shows` is `first`, `second` (only the second derivative is wrong), `stale` (wrong after another
    forward call), `upstream` (wrong for upstreams of other sizes) or `eager` (raises when traced).
    `at` makes arguments that show it where the natural ones do not, `along` is the direction; with
    `given` the check is called at them, since it cannot be expected to think of them.
    """

    kind: str
    what: str
    shows: str = "first"
    at: Callable[[], tuple] | None = None
    along: str = "random"
    given: bool = False


@dataclass(frozen=True)
class Family:
    """A function: `build(slip)` gives it with the rule that makes this mistake, `build("")` right."""

    name: str
    build: Callable[[str], Callable[..., Any]]
    args: Callable[[], tuple]
    mistakes: Mapping[str, Mistake]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Item:
    """One call of the check and the verdicts that are acceptable.

    `make` gives function and arguments; a `what` says the mistake, for judging a diagnosis by eye.
    """

    name: str
    group: str
    make: Callable[[], tuple[Any, tuple]]
    expected: frozenset[str]
    kind: str = ""
    what: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


FAMILIES: dict[str, Family] = {}
ITEMS: list[Item] = []


def family(args, options=None, **mistakes: Mistake):
    """Register a builder `build(slip)` under its own name."""

    def register(build):
        FAMILIES[build.__name__] = Family(build.__name__, build, args, mistakes, options or {})
        return build

    return register


def entry(group: str, expected: frozenset[str], kind: str = "", **options):
    """Register a builder that returns a function and its arguments; its docstring says what it is."""

    def register(build):
        def make():
            fn, *args = build()
            return fn, tuple(args)

        what = build.__doc__ or ""
        ITEMS.append(Item(build.__name__, group, make, expected, kind, what, options))
        return build

    return register


def items(group: str) -> list[Item]:
    """All items of a group; `wrong` and `right` include those made from families."""
    made = []
    for case in FAMILIES.values():
        if group == "right":
            made.append(_of(case, "", group, NOT_WRONG))
        if group == "wrong":
            made += [_of(case, slip, group, frozenset({"wrong"})) for slip in case.mistakes]
    return made + [item for item in ITEMS if item.group == group]


def _of(case: Family, slip: str, group: str, expected: frozenset[str]) -> Item:
    mistake = case.mistakes.get(slip, Mistake("", ""))
    name = f"{case.name}:{slip}" if slip else case.name
    args = mistake.at if mistake.at and mistake.given else case.args
    return Item(
        name,
        group,
        lambda: (case.build(slip), args()),
        expected,
        mistake.kind,
        mistake.what,
        case.options,
    )


def normal(seed: int, *shape: int, scale: float = 1.0, shift: float = 0.0, dtype=tf.float32):
    """Normal draws, always the same."""
    draws = np.random.default_rng(seed).normal(size=shape)
    return tf.constant(shift + scale * draws, dtype)


def uniform(seed: int, low: float, high: float, *shape: int, dtype=tf.float32):
    """Uniform draws, always the same."""
    return tf.constant(np.random.default_rng(seed).uniform(low, high, shape), dtype)


def definite(seed: int, n: int, dtype=tf.float32):
    """A symmetric positive definite matrix, well conditioned."""
    root = np.random.default_rng(seed).normal(size=(n, n))
    return tf.constant(root @ root.T / n + np.eye(n), dtype)


def is_number(value) -> bool:
    """Whether a gradient can flow to `value`."""
    return tf.is_tensor(value) and (value.dtype.is_floating or value.dtype.is_complex)


def derivative_of(other, inputs, upstream):
    """The pullback of `other` at `inputs`; `None` for inputs that are no numbers."""
    moved = [value for value in inputs if is_number(value)]
    with tf.GradientTape() as tape:
        tape.watch(moved)
        outputs = other(*inputs)
    found = iter(tape.gradient(outputs, moved, upstream))
    return tuple(next(found) if is_number(value) else None for value in inputs)


def as_if(fn, other):
    """`fn` whose rule is the derivative of `other`: the mistake of differentiating something else."""

    def rule(*upstream, inputs):
        outer = upstream[0] if len(upstream) == 1 else upstream
        found = derivative_of(other, list(inputs), outer)
        return found[0] if len(found) == 1 else found

    return pb.with_gradient(fn, rule)
