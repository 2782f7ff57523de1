"""What a check has met: problems before they are explained, and what was tested."""

import enum
from dataclasses import dataclass, field, replace

import numpy as np

from pullback.check.probe import Array, RuleFault
from pullback.check.programs.wrong import WrongOperations
from pullback.check.search.points import Kind, Point
from pullback.check.verdict.trial import Trial


class Failure(enum.Enum):
    """Which test failed."""

    FAULT = enum.auto()  # the rule raises, or gives something that is no gradient of its input
    STALE = enum.auto()  # another forward call changes the gradient
    UPSTREAM = enum.auto()  # the gradient is not in proportion to the upstream
    NOT_FINITE = enum.auto()
    VALUE = enum.auto()
    SECOND = enum.auto()
    MODE = enum.auto()


@dataclass(frozen=True)
class Problem:
    """Something wrong, before it is explained; positions are entries of what the trial compares."""

    kind: Failure
    point: Point | None = None
    trial: Trial | None = None
    positions: Array = field(default_factory=lambda: np.empty(0, int))
    fault: RuleFault | None = None
    text: str = ""
    numbers: tuple[float, float] | None = None
    where: str = ""


@dataclass
class Record:
    """What has been seen so far: points by order of derivative, what was left out, kinks, and what stayed open."""

    points: dict[int, list[Point]] = field(default_factory=lambda: {1: [], 2: []})
    last: dict[int, Point] = field(default_factory=dict[int, Point])
    left_out: list[Kind] = field(default_factory=list)
    modes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    kinks: int = 0
    tolerated: float = 0.0
    open_elsewhere: int = 0
    open_given: int = 0
    reasons: list[str] = field(default_factory=list)
    varies: bool = False  # whether the function did not stay what it was

    def add(self, point: Point, order: int) -> None:
        """Count a point once, however many directions are tried there."""
        last = self.last.get(order)
        if last is not point and not (point.is_given and last is not None and last.is_given):
            self.last[order] = point
            # told in the report by name: with their numbers, points of long vectors would fill the memory
            named = replace(point, x=np.empty(0), placed=np.empty(0, bool))
            self.points[order].append(named)

    def note_second_of_engine(self, found: WrongOperations) -> None:
        """The same, of the engine's own operations whose second derivatives are wrong."""
        names = ", ".join(found.names) or found.stopped
        of = f" of {names}" if names else ""
        self.note(
            f"right to first order; second derivatives{of} are wrong or missing, which no rule of yours has a part in "
            "(order=2 makes this a finding)"
        )

    def note(self, text: str) -> None:
        """Remember something for the report, once."""
        if text not in self.notes:
            self.notes.append(text)
