"""What came of one custom gradient: data, for lines and files alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pullback.check import Report

RIGHT, WRONG, UNKNOWN, IGNORED = "right", "wrong", "undecided", "ignored"
MARKS = {RIGHT: "✓", WRONG: "✗", UNKNOWN: "?", IGNORED: "·"}


@dataclass(frozen=True)
class Item:
    """A custom gradient that was found: its name, and where it is written; or a target that is `absent`.

    In a notebook `cell` says where, for people: `cell 3:5`.
    """

    name: str
    file: str = ""
    line: int = 0
    cell: str = ""
    absent: bool = False


@dataclass(frozen=True)
class Unloaded:
    """Why a place cannot be loaded, and where in it that is: `file.py:12`, or nothing; or that it is `absent`."""

    text: str
    source: str = ""
    absent: bool = False


@dataclass(frozen=True)
class Remark:
    """Something to say of a file that was loaded; `is_open` where it may have kept something from being checked."""

    text: str
    is_open: bool = False


@dataclass(frozen=True)
class Listing:
    """The custom gradients of a place."""

    items: tuple[Item, ...]
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True)
class Ending:
    """What there is to say of a whole run: how long it took, why it ended before all was checked, and notes."""

    seconds: float
    stopped: str = ""
    notes: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """All that is said in words."""
        return (*filter(None, [self.stopped]), *self.notes)


@dataclass(frozen=True)
class Outcome:
    """The verdict on one function, what is said of it, and the inputs that were used."""

    item: Item
    status: str
    text: str
    inputs: str = ""
    source: str = ""
    report: Report | None = None
    notes: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)

    @property
    def mark(self) -> str:
        """✓, ✗, ? or ·."""
        return MARKS[self.status]

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        report = self.report  # which is false where it says wrong
        finding = None if report is None else next(iter(report.findings), None)
        return {
            "name": self.item.name,
            "file": self.item.file,
            "line": self.item.line,
            "cell": self.item.cell or None,
            "status": self.status,
            "text": self.text,
            "inputs": self.inputs,
            "kind": finding.kind if finding else None,
            "source": self.source or None,
            "calls": 0 if report is None else report.calls,
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
            "reproduce": report.reproduce if report is not None and finding else None,
        }
