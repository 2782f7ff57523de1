"""Shapes to try for tensors of which nothing is known, written as text: dimensions by spaces, tensors by bars."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from pullback.cli.guess.sizes import Shape, SizeRule, refitted


def _read(text: str) -> list[tuple[Shape, ...]]:
    lines = [line.split("|") for line in text.strip().splitlines()]
    return [tuple(tuple(map(int, part.split())) for part in line) for line in lines]


# The first axis is 3 wherever it may be a batch: formulas have many a factor 2, and none shows in a batch of 1.
# All alike first, in two dimensions, where most mistakes about axes show.
ALIKE: tuple[Shape, ...] = ((3, 4), (5,), (), (3, 2, 4), (3, 6, 6, 2))
MIXED: tuple[Shape, ...] = ((3, 4), (4,), (4, 3), (), (3, 1))
# Square ones are tried late: in them, many a mistake does not show.
LATE = [shape for (shape,) in _read("3 3\n5 3 3\n4 6\n8\n16\n3 8 8 3\n3 4 4 4\n3 4 4 4 2\n7\n1")]
# Layers, convolutions, products in batches, attention, one number for each row.
APART = {
    2: _read("""
        3 6 6 2 | 3 3 2 2
        3 2 4 | 4 5
        3 2 4 | 3 4
        3 6 4 | 3 4 2
        3 6 6 2 | 3 3 2 1
        5 4 | 6 4
        3 2 4 | 5 4
        3 2 4 | 3 4 5
        3 2 4 | 3 5 4
        3 4 | 3
        3 2 4 | 3 2
        3 2 4 | 2 4"""),
    3: _read("""
        3 4 | 4 5 | 5
        3 6 6 2 | 3 3 2 2 | 2
        3 4 | 3 4 | 3
        3 2 4 | 3 5 4 | 3 5 4
        3 4 | 3 | 3
        3 2 4 | 4 5 | 5
        3 4 | 5 4 | 5"""),
    4: _read("""
        3 4 | 4 | 4 |
        3 4 | 4 5 | 5 | 3 5
        3 4 | 4 | 4 | 4
        3 4 | 4 5 | 5 | 5 2"""),
    5: _read("""
        3 4 | 4 5 | 5 | 5 2 | 2
        3 4 | 4 | 4 | 4 | 4"""),
}


def tried(count: int, rules: Sequence[SizeRule] = ()) -> list[tuple[Shape, ...]]:
    """Shapes for so many tensors, the likeliest first: with sizes that obey what words say of them, then any."""
    if count == 0:
        return [()]
    mixed = itertools.product(MIXED, repeat=count) if count in (2, 3) else ()
    alike, late = ([(shape,) * count for shape in shapes] for shapes in (ALIKE, LATE))
    several = list(dict.fromkeys([*alike, *APART.get(count, ()), *mixed, *late]))
    obeying = [refitted(shapes, rules) for shapes in several] if rules else ()
    return list(dict.fromkeys([*obeying, *several]))
