"""What is remarkable about an operation: where a gradient is cut, dies, grows, or is somebody's own."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from pullback.explain.data import FlowData, Node, Size, Source

Mark = Literal["nan", "cut", "zero", "vanishing", "exploding", "override", "custom", "stopped"]

# In the order of what matters most; the words beside colours.
WORDS: dict[Mark, str] = {
    "nan": "NaN or Inf",
    "cut": "cut",
    "zero": "zero",
    "exploding": "exploding",
    "vanishing": "vanishing",
    "override": "overridden",
    "custom": "custom",
    "stopped": "stopped",
}
STARTS_HERE = "NaN or Inf starts here"
# Against the gradient at the start. Steps of 1e-2 times this, on weights near 1, are below what float32 resolves.
VANISHING = 1e-5
# Steps of 1e-2 times this move weights near 1 by a hundred times themselves.
EXPLODING = 1e4


def joined(sizes: Iterable[Size]) -> float | None:
    """The norm of several tensors taken together; None of none."""
    norms = [size.norm for size in sizes]
    return math.hypot(*norms) if norms else None


def of_source(source: Source) -> set[Mark]:
    """The marks of something that one asks a gradient of."""
    if source.gradient is None:
        return {"cut"}
    if not source.gradient.is_finite:
        return {"nan"}
    return {"zero"} if source.gradient.is_zero else set()


class Marks:
    """The marks of the operations of a flow."""

    def __init__(self, flow: FlowData) -> None:
        self._flow = flow
        self.start = _start(flow)
        without = [s for s in flow.sources if s.gradient is None and is_expected(s)]
        self._missing = _until_met(flow, without)
        # What depends on variables alone is no measure for a layer: a bias before a normalisation has no gradient.
        passed = [s for s in flow.sources if s.kind != "variable"]
        self._main = _after(flow, passed) if passed else {node.id for node in flow.nodes}
        self._nodes: dict[int, frozenset[Mark]] = {}

    def of_norm(self, norm: float | None) -> set[Mark]:
        """Whether a norm is remarkably small or large against the start."""
        if not norm or not self.start:
            return set()
        ratio = norm / self.start
        return {"vanishing"} if ratio < VANISHING else {"exploding"} if ratio > EXPLODING else set()

    def of_node(self, index: int) -> frozenset[Mark]:
        """The marks of one operation."""
        if index not in self._nodes:
            self._nodes[index] = frozenset(self._of(self._flow.nodes[index]))
        return self._nodes[index]

    def is_aside(self, index: int) -> bool:
        """Whether no gradient touches it and it explains no missing one: shapes, constants, counters."""
        node = self._flow.nodes[index]
        return not self.arrived(node) and index not in self._missing

    def _of(self, node: Node) -> set[Mark]:
        arrived = self.arrived(node)
        passed = [g for g in node.gradients if g is not None]
        found = set[Mark]()
        if passed and node.id in self._main:
            found = self.of_norm(joined(arrived))
        made = [s for v in node.outputs if (s := self._flow.values[v].size) is not None]
        if not all(size.is_finite for size in (*passed, *made)):
            found.add("nan")
        if node.rule.kind == "override":
            found.add("override")
        if node.rule.kind in ("custom", "pullback"):
            found.add("custom")
        # Elsewhere a cut is meant: a random mask reads a shape, a variance stops the gradient of its mean.
        if arrived and not passed and node.id in self._missing:
            found.add("stopped" if node.rule.kind == "stopped" else "cut")
        if passed and all(g.is_zero for g in passed) and not all(g.is_zero for g in arrived):
            found.add("zero")
        return found

    def arrived(self, node: Node) -> list[Size]:
        """The gradients that came to what an operation made."""
        return [g for v in node.outputs if (g := self._flow.values[v].gradient) is not None]


def is_expected(source: Source) -> bool:
    """Whether one expects a gradient: of floating-point numbers that are not frozen."""
    return source.trainable and source.dtype.startswith(("float", "bfloat", "complex"))


def _start(flow: FlowData) -> float:
    """The norm with which the gradient starts: that of the last tensor of several numbers that it reaches.

    A loss is one number; what its average leaves of the gradient is the measure for all that lies before it.
    """
    reached = (flow.values[v] for node in reversed(flow.nodes) for v in node.outputs)
    sizes = [v.gradient for v in reached if v.gradient is not None and v.gradient.norm > 0]
    wide = next((size for size in sizes if size.count > 1), None)
    return (wide or sizes[0]).norm if sizes else 0.0


def _until_met(flow: FlowData, sources: Iterable[Source]) -> set[int]:
    """The operations from these sources up to those that a gradient comes to, these included."""
    values = {v for source in sources for v in source.values}
    found: set[int] = set()
    for node in flow.nodes:
        if not values.isdisjoint(node.inputs):
            values.update(v for v in node.outputs if flow.values[v].gradient is None)
            found.add(node.id)
    return found


def _after(flow: FlowData, sources: Iterable[Source]) -> set[int]:
    """The operations that depend on these sources."""
    values = {v for source in sources for v in source.values}
    found: set[int] = set()
    for node in flow.nodes:
        if not values.isdisjoint(node.inputs):
            values.update(node.outputs)
            found.add(node.id)
    return found
