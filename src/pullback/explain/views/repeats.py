"""Stretches of a sequence that repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LEAST = 3  # twice is easier read as it stands
LONGEST = 60  # a block of a model has fewer parts


@dataclass(frozen=True, slots=True)
class Repeat:
    """`count` blocks of `period` items each, from `start` on; `count` 1 where nothing repeats."""

    start: int
    period: int
    count: int

    @property
    def stop(self) -> int:
        """Where what follows begins."""
        return self.start + self.period * self.count


def repeats(items: Sequence[int]) -> list[Repeat]:
    """The whole sequence as repeated blocks and single items, from the left, each time what covers most.

    >>> [(r.start, r.period, r.count) for r in repeats([7, 1, 2, 1, 2, 1, 2, 9])]
    [(0, 1, 1), (1, 2, 3), (7, 1, 1)]
    """
    found: list[Repeat] = []
    start = 0
    while start < len(items):
        found.append(_best(items, start))
        start = found[-1].stop
    return found


def _best(items: Sequence[int], start: int) -> Repeat:
    longest = min(LONGEST, (len(items) - start) // LEAST)
    first = items[start]
    periods = [p for p in range(1, longest + 1) if items[start + p] == first]
    candidates = [Repeat(start, p, _count(items, start, p)) for p in periods]
    worthy = [one for one in candidates if one.count >= LEAST]
    return max(worthy, key=lambda r: (r.stop, -r.period), default=Repeat(start, 1, 1))


def _count(items: Sequence[int], start: int, period: int) -> int:
    """How often the block at `start` follows itself."""
    block, stop = items[start : start + period], start + period
    while items[stop : stop + period] == block:
        stop += period
    return (stop - start) // period
