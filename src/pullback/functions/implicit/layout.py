"""Structures of arrays as rows of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pullback._project import describe
from pullback.errors import ArgumentError
from pullback.functions.implicit.solve_options import Options

Arrays = Sequence[Any]


class Layout:
    """A structure of arrays as rows of numbers: one row for each system, in float32 at least."""

    def __init__(self, xp: Any, options: Options, leaves: Arrays) -> None:
        self.xp, self.dtype, self.batch_dims = xp, leaves[0].dtype, options.batch_dims
        self.shapes = [xp.shape_of(leaf) for leaf in leaves]
        for leaf in leaves:
            if leaf.dtype != self.dtype or len(leaf.shape) < options.batch_dims:
                came = ", ".join(map(describe, leaves))
                batch = f", with at least batch_dims={options.batch_dims} axes" * bool(
                    self.batch_dims
                )
                fewer = ", or give fewer batch_dims" * bool(self.batch_dims)
                raise ArgumentError(
                    f"pb.functions.{options.name} got {options.unknown}0 with {came}; wanted arrays of one dtype"
                    f"{batch}. Cast them{fewer}."
                )
        self.sizes = [xp.static_size(leaf, slice(self.batch_dims, None)) for leaf in leaves]
        self.count = None if None in self.sizes else sum(n for n in self.sizes if n is not None)

    def pack(self, leaves: Arrays) -> Any:
        """The rows of these arrays."""
        rows = [self._row(leaf, shape) for leaf, shape in zip(leaves, self.shapes, strict=True)]
        return self.xp.wide(rows[0] if len(rows) == 1 else self.xp.concat(rows, -1))

    def _row(self, leaf: Any, shape: Sequence[Any]) -> Any:
        systems = math.prod(shape[: self.batch_dims])
        return self.xp.reshape(leaf, [systems, math.prod(shape[self.batch_dims :])])

    def unpack(self, rows: Any) -> list[Any]:
        """The arrays of these rows."""
        rows = self.xp.astype(rows, self.dtype)
        sizes = [math.prod(shape[self.batch_dims :]) for shape in self.shapes]
        parts = [rows] if len(sizes) == 1 else self.xp.split(rows, sizes, -1)
        return [self.xp.reshape(p, s) for p, s in zip(parts, self.shapes, strict=True)]

    def unpack_many(self, stacked: Any, count: int) -> list[Any]:
        """The arrays of rows that are stacked, with the stack in front."""
        stacked = self.xp.astype(stacked, self.dtype)
        sizes = [math.prod(shape[self.batch_dims :]) for shape in self.shapes]
        parts = [stacked] if len(sizes) == 1 else self.xp.split(stacked, sizes, -1)
        return [self.xp.reshape(p, [count, *s]) for p, s in zip(parts, self.shapes, strict=True)]
