"""What can be named in an override, as plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

from pullback import _listing_text

KINDS: Final = ("function", "op", "layer class", "layer")


@dataclasses.dataclass(frozen=True)
class Target:
    """Something that runs and can be a key of an override: the object itself, and an expression for it."""

    kind: str  # one of KINDS
    expression: str
    target: Any = dataclasses.field(repr=False)
    count: int = 1  # how often it ran where its gradient matters
    where: tuple[str, ...] = ()  # the layers in which it ran
    overridden: bool = False  # whether an override that is in force there names it


@dataclasses.dataclass(frozen=True, repr=False)
class Targets:
    """What `pb.targets` found. Print it, iterate over it, or take the rows of one kind.

    >>> Targets("f", (Target("op", '"Relu"', "Relu", 2),)).of("op")[0].expression
    '"Relu"'
    """

    name: str  # of the model or function
    rows: tuple[Target, ...]

    def of(self, kind: str) -> tuple[Target, ...]:
        """The rows of one kind: `"function"`, `"op"`, `"layer class"` or `"layer"`."""
        return tuple(row for row in self.rows if row.kind == kind)

    def __iter__(self) -> Iterator[Target]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return _listing_text.as_text(self)
