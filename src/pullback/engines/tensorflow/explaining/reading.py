"""Graphs of traced functions as programs, each read once, with the layers that its operations stand in."""

from __future__ import annotations

import re
import weakref
from typing import Any

from pullback.engines.tensorflow.programs.graphs import Reader
from pullback.engines.tensorflow.programs.lines import Lines
from pullback.extend import Program


class GraphReader(Reader):
    """Reads each graph once; layers that were not seen when it was traced are known by the names of operations."""

    def __init__(self, lines: Lines, layer_names: frozenset[str]) -> None:
        super().__init__(lines, weakref.WeakKeyDictionary[Any, dict[str, tuple[str, ...]]]())
        self.layer_names = layer_names
        self._read = weakref.WeakKeyDictionary[Any, dict[tuple[int, int], Program]]()

    def read(self, graph: Any, count: int) -> Program:
        """The program of a function's graph, with its first results; differentiating a loop puts more into it."""
        known = self._read.setdefault(graph, {})
        if (key := (count, graph.version)) not in known:
            known[key] = self.program(graph, "", count=count)
        return known[key]

    def returned(self, tensor: Any) -> Any:
        """What is returned, with the identity that the graph has of it."""
        return tensor

    def layer_of(self, operation: Any) -> tuple[str, ...]:
        """The layers around an operation, outermost first."""
        if found := super().layer_of(operation):
            return found
        scopes = operation.name.split("/")[:-1]
        names = [s if s in self.layer_names else re.sub(r"_\d+$", "", s) for s in scopes]
        return tuple(name for name in names if name in self.layer_names)
