"""What an override did, as plain data: which target, where, how often, and whether it can have an
effect.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from pullback import _audit_text

MOST_PLACES: Final = 100
NOT_FLOATING: Final = (
    "it gives no floating-point tensor, so no gradient passes through it: "
    "override the function around it as one unit"
)
NOTHING_FLOATING: Final = (
    "it was called without any floating-point tensor, so there is nothing to differentiate"
)
IDLE: Final = "it runs where nothing is differentiated"
# Where gradients could not flow anyway, an override takes nothing away.
HARMLESS: Final = frozenset({NOT_FLOATING, NOTHING_FLOATING, IDLE})


@dataclasses.dataclass(frozen=True)
class Place:
    """Where something ran: the name and type of the op or function, its layer, the user's line."""

    name: str
    type: str
    layer: str | None = None
    source: str | None = None


@dataclasses.dataclass(frozen=True)
class CalledPlace(Place):
    """Where a layer or method was called, and on what object, as a rule that asks for `op` sees it."""

    object: Any = dataclasses.field(default=None, repr=False, compare=False)


@dataclasses.dataclass(frozen=True)
class OpPlace(Place):
    """Where an op ran, and which of its inputs depend on what is differentiated, as a rule sees it by `op`."""

    varies: tuple[bool, ...] = dataclasses.field(default=(), repr=False, compare=False)


ELSEWHERE: Final = Place(_audit_text.UNKNOWN, _audit_text.UNKNOWN)
_Key: TypeAlias = "tuple[int, Place | None, str, bool, str | None]"


@dataclasses.dataclass(frozen=True)
class Match:
    """A place that a target matched, how it was reached, how often, and what hides it, if anything.

    `mode` is `eager`, `traced`, `cached` (a trace made earlier was used again) or `rewritten` (a graph without Python
    source). `recorded` is false where nothing was being differentiated.
    """

    place: Place
    mode: str
    count: int
    recorded: bool = True
    hidden_by: str | None = None


@dataclasses.dataclass(frozen=True)
class Row:
    """What happened to one target of an override."""

    target: str
    rule: str
    matches: tuple[Match, ...]
    ran: int  # how often the rule ran at once
    traced: int = (
        0  # how often it was traced into a program, which runs it as often as the program is run
    )
    is_shared: bool = False  # whether it is part of a program that an equal override has traced
    weights: int = 0  # how many weights of the layers met have their gradient from the rule
    ordinary_weights: int = (
        0  # how many keep their ordinary gradient: the rule did not ask for them
    )

    @property
    def matched(self) -> int:
        """How often the target was met."""
        return sum(match.count for match in self.matches)

    @property
    def reachable(self) -> int:
        """How often it was met where its rule is to decide the gradient, once one flows there."""
        return sum(m.count for m in self.matches if m.recorded and m.hidden_by is None)

    @property
    def effective(self) -> int:
        """How often it was met where its rule decided a gradient: the rule has run, or is part of a program."""
        in_program = self.traced or self.is_shared
        return self.reachable if in_program else min(self.reachable, self.ran)

    @property
    def hidden(self) -> int:
        """How often it was met where something else decides the gradient."""
        return sum(m.count for m in self.matches if m.hidden_by is not None)


@dataclasses.dataclass(frozen=True)
class Audit:
    """What an override did. Print it, or read its rows.

    >>> Audit((Row("'Pack'", "half (story.py:3)", (), 0),)).rows[0].matched
    0
    """

    rows: tuple[Row, ...]

    def __str__(self) -> str:
        return _audit_text.as_text(self)

    def __rich_console__(self, console: Any, options: Any) -> Iterable[str]:
        """Lines with markup, for rich."""
        del console, options
        return _audit_text.as_markup(self)

    def _repr_html_(self) -> str:
        return _audit_text.as_html(self)

    def as_data(self) -> list[dict[str, Any]]:
        """Rows as nested dicts and lists."""
        return [dataclasses.asdict(row) for row in self.rows]

    @property
    def effective(self) -> int:
        """How often any target was met where its rule decided a gradient."""
        return sum(row.effective for row in self.rows)


class Ledger:
    """Collects matches, from several threads. The first ones with their places, the rest as numbers."""

    def __init__(self, parents: Sequence[Ledger] = ()) -> None:
        self._lock = threading.Lock()
        self._counts: dict[_Key, int] = {}
        self._ran: dict[tuple[int, bool], int] = {}
        self._located: dict[int, int] = {}
        self._lenders: dict[int, set[Ledger]] = {}
        self._weights: dict[tuple[int, bool], set[int]] = {}
        self._parents = tuple(parents)

    def record(
        self,
        target: int,
        place: Place | None,
        mode: str,
        *,
        recorded: bool = True,
        hidden_by: str | None = None,
    ) -> None:
        """Note that a target was met; without a place, it is only counted."""
        key = (target, place, mode, recorded, hidden_by)
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + 1
            if place is not None:
                self._located[target] = self._located.get(target, 0) + 1
        for parent in self._parents:
            parent.record(target, place, mode, recorded=recorded, hidden_by=hidden_by)

    def wants_place(self, target: int) -> bool:
        """Whether another place is worth finding out, or enough of them are known."""
        if self._located.get(target, 0) >= MOST_PLACES:
            return False
        return not self._located.get(target) or all(p.wants_place(target) for p in self._parents)

    def ran(self, target: int, *, traced: bool = False) -> None:
        """Note that the rule of a target ran, at once or as part of a trace."""
        key = (target, traced)
        with self._lock:
            self._ran[key] = self._ran.get(key, 0) + 1
        for parent in self._parents:
            parent.ran(target, traced=traced)

    def met_weights(self, target: int, weights: Iterable[Any], *, asked_for: bool) -> None:
        """Note the weights of a layer that was met, and whether the rule gives their gradients."""
        with self._lock:
            self._weights.setdefault((target, asked_for), set()).update(map(id, weights))
        for parent in self._parents:
            parent.met_weights(target, weights, asked_for=asked_for)

    def borrow(self, target: int, lender: Ledger) -> None:
        """Note that a target was met in a program that was traced for another ledger, which knows of its rule."""
        if lender is not self:
            with self._lock:
                self._lenders.setdefault(target, set()).add(lender)
            for parent in self._parents:
                parent.borrow(target, lender)

    def is_shared(self, target: int) -> bool:
        """Whether the rule of a target is part of a program that was traced for another ledger."""
        return any(lender._ran.get((target, True)) for lender in self._lenders.get(target, ()))

    def matches(self, target: int) -> tuple[Match, ...]:
        """The places of a target, as frozen data."""
        with self._lock:
            counts = [(key, n) for key, n in self._counts.items() if key[0] == target]
        matches = [Match(key[1] or ELSEWHERE, key[2], n, *key[3:]) for key, n in counts]
        return tuple(sorted(matches, key=lambda match: match.place is ELSEWHERE))

    def audit(self, names: Sequence[tuple[str, str]]) -> Audit:
        """All rows so far; `names` holds target and rule of each."""
        return Audit(
            tuple(
                Row(
                    target,
                    rule,
                    self.matches(index),
                    self._ran.get((index, False), 0),
                    self._ran.get((index, True), 0),
                    self.is_shared(index),
                    *(len(self._weights.get((index, asked), ())) for asked in (True, False)),
                )
                for index, (target, rule) in enumerate(names)
            )
        )
