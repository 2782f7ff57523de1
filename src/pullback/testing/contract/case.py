"""What a case is, and the table that cases enter themselves into."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from pullback.testing.contract.adapter import Adapter, Function


@dataclasses.dataclass(frozen=True)
class Refusal:
    """An error that must come, and what its message must match."""

    error: type[Exception]
    match: str


@dataclasses.dataclass(frozen=True)
class Trial:
    """A function to differentiate, the variables it reads, and what must hold afterwards."""

    fn: Function
    variables: Sequence[Any] = ()
    after: Callable[[], None] | None = None


Build: TypeAlias = Callable[[Adapter], "Function | Trial"]
Wanted: TypeAlias = "Sequence[Any] | Refusal | None"


@dataclasses.dataclass(frozen=True)
class Case:
    """One line of the contract: a function with a rule, and the numbers that mathematics says.

    `gradient` is that of the sum of the outputs, for every argument and variable, with `None` where nothing flows;
    `forward` the same as tangents show it; `second` the gradient of the sum of the squares of all gradients.
    `None` in place of one of the three: the case says nothing about it.
    """

    name: str
    build: Build
    args: Sequence[np.ndarray]
    gradient: Wanted
    second: Wanted
    forward: Wanted
    needs: frozenset[str]
    eager_only: bool

    def __str__(self) -> str:
        return self.name


TABLE: Final[list[Case]] = []


def case(
    name: str,
    args: Sequence[np.ndarray],
    gradient: Wanted,
    *,
    second: Wanted = None,
    needs: Sequence[str] = (),
    eager_only: bool = False,
    **forward: Wanted,
) -> Callable[[Build], Build]:
    """Enter the case that the decorated function builds. Unless told otherwise, tangents follow from the gradient."""

    def enter(build: Build) -> Build:
        tangents = forward.get("forward", gradient)
        needed = frozenset(needs)
        TABLE.append(Case(name, build, args, gradient, second, tangents, needed, eager_only))
        return build

    return enter
