"""Which non-linearities of a model had a rule, and which kept their own gradient, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from pullback._audit import HARMLESS, Place
from pullback.saliency.protocol import ModelRun


@dataclass(frozen=True)
class NonLinearity:
    """A non-linear function in a model: what it is, where, how often it ran, and the rule that it had."""

    name: str
    layer: str | None
    source: str | None
    count: int
    rule: str | None  # None: it kept its own gradient
    reason: str | None = None  # why it did, where that is known

    def __str__(self) -> str:
        where = (
            f" in layer {self.layer}" if self.layer else f" at {self.source}" if self.source else ""
        )
        many = f" × {self.count}" if self.count > 1 else ""
        what = self.rule or f"NOT COVERED{f': {self.reason}' if self.reason else ''}"
        return f"{self.name}{many}{where}: {what}"


@dataclass(frozen=True)
class Coverage:
    """Every non-linearity that ran between the input and the target."""

    rows: tuple[NonLinearity, ...]

    @property
    def covered(self) -> tuple[NonLinearity, ...]:
        """Those that had the rule."""
        return tuple(row for row in self.rows if row.rule is not None)

    @property
    def uncovered(self) -> tuple[NonLinearity, ...]:
        """Those that kept their own gradient."""
        return tuple(row for row in self.rows if row.rule is None)

    @property
    def complete(self) -> bool:
        """Whether there are any, and all of them had the rule."""
        return bool(self.rows) and not self.uncovered

    def __str__(self) -> str:
        done = sum(row.count for row in self.covered)
        head = f"{done} of {sum(row.count for row in self.rows)} non-linearities covered"
        return "\n".join([head, *(f"  {row}" for row in self.rows)])


_NO_ACTIVATION = "it is not known as an activation"
_MISSED = "no rule was attached to it"


def coverage_of(run: ModelRun) -> Coverage | None:
    """What a run says about it; nothing where no rule was asked for."""
    if run.audit is None:
        return None
    rows: list[NonLinearity] = []
    met = 0
    for row in run.audit.rows:
        rule = row.rule.partition(" (")[0]
        for match in row.matches:
            if not match.recorded or match.hidden_by in HARMLESS:
                continue  # nothing that matters flows there
            effective = match.hidden_by is None
            met += match.count if match.place.type in run.op_types else 0
            rows.append(
                _row(match.place, match.count, rule if effective else None, match.hidden_by)
            )
    seen = {place: n for place, n in run.operations.items() if place.type in run.op_types}
    others = {place: n for place, n in run.operations.items() if place not in seen}
    rows += [_row(place, n, None, _NO_ACTIVATION) for place, n in others.items()]
    if sum(seen.values()) > met:
        rows += [_row(place, n, None, _MISSED) for place, n in seen.items()]
    return Coverage(tuple(rows))


def _row(place: Place, count: int, rule: str | None, reason: str | None) -> NonLinearity:
    name = place.name if place.type == "function" else place.type
    return NonLinearity(name, place.layer, place.source, count, rule, None if rule else reason)
