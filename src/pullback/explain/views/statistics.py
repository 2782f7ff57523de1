"""A group of operations in numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pullback.explain.data import FlowData, Size
from pullback.explain.views.layers import Child, Group
from pullback.explain.views.marks import WORDS, Mark, Marks, joined
from pullback.program.data import RuleKind


@dataclass(frozen=True, slots=True)
class Statistics:
    """What flowed through a group; a norm is None where no gradient came."""

    operations: int
    arriving: float | None  # at what it makes for others
    passed: float | None  # to what it takes from others, variables left out
    weights: float | None  # of the variables that it reads; NaN where it is not finite
    seconds: float  # of its backward pass
    bytes: int  # what it made that is held for the backward pass
    rules: Mapping[RuleKind, int]
    marks: tuple[Mark, ...]
    is_finite: bool = True  # what arrived

    @property
    def norm(self) -> float | None:
        """The norm by which it is drawn: what arrived, or of a group that makes nothing for others, what it passed."""
        return self.arriving if self.arriving is not None else self.passed

    @property
    def out(self) -> float | None:
        """The norm of all that it hands on, to variables too."""
        given = [norm for norm in (self.passed, self.weights) if norm is not None]
        return math.hypot(*given) if given else None


class Survey:
    """The statistics of all groups of a flow."""

    def __init__(self, flow: FlowData) -> None:
        self.flow = flow
        self.marks = Marks(flow)
        self._readers: dict[int, list[int]] = {}
        for node in flow.nodes:
            for value in node.inputs:
                self._readers.setdefault(value, []).append(node.id)
        self._outputs = set(flow.outputs)
        self._given = {
            v for source in flow.sources for v in source.values
        }  # the rest are constants
        self._known: dict[tuple[str, ...], Statistics] = {}

    def of(self, group: Group) -> Statistics:
        """The statistics of one group."""
        if group.path not in self._known:
            self._known[group.path] = self._of(group)
        return self._known[group.path]

    def readers(self, value: int) -> Sequence[int]:
        """The operations that read a value."""
        return self._readers.get(value, ())

    def is_aside(self, child: Child) -> bool:
        """Whether no gradient has to do with an operation, or with any in a group."""
        nodes = child.nodes() if isinstance(child, Group) else (child,)
        return all(map(self.marks.is_aside, nodes))

    def _of(self, group: Group) -> Statistics:
        nodes = set(group.nodes())
        arrived = list(self._arriving(nodes))
        arriving = joined(arrived)
        operations = [self.flow.nodes[n] for n in nodes]
        made = [self.flow.values[v] for node in operations for v in node.outputs]
        return Statistics(
            operations=len(nodes),
            arriving=arriving,
            passed=joined(self._passed(nodes)),
            weights=finite_or_nan(list(self._weights(nodes))),
            seconds=sum(node.seconds for node in operations),
            bytes=sum(value.bytes for value in made if value.held),
            rules=Counter(node.rule.kind for node in operations if node.gradients),
            marks=self._marks(group, nodes, arriving),
            is_finite=all(size.is_finite for size in arrived),
        )

    def _marks(self, group: Group, nodes: set[int], arriving: float | None) -> tuple[Mark, ...]:
        """Those of its operations, but small and large by what arrives at it and at the groups in it."""
        found: set[Mark] = set().union(*(self.marks.of_node(n) for n in nodes))
        inner = (self.of(one).marks for one in group.groups)
        sizes = self.marks.of_norm(arriving).union(*inner) & {"vanishing", "exploding"}
        found = (found - {"vanishing", "exploding"}) | sizes
        return tuple(mark for mark in WORDS if mark in found)

    def _arriving(self, nodes: set[int]) -> Iterator[Size]:
        values = (v for n in nodes for v in self.flow.nodes[n].outputs)
        for value in values:
            gradient = self.flow.values[value].gradient
            if gradient is not None and self._leaves(value, nodes):
                yield gradient

    def _leaves(self, value: int, nodes: set[int]) -> bool:
        return value in self._outputs or not nodes.issuperset(self.readers(value))

    def _passed(self, nodes: set[int]) -> Iterator[Size]:
        for node in map(self.flow.nodes.__getitem__, nodes):
            for index, gradient in zip(node.inputs, node.gradients, strict=False):
                value = self.flow.values[index]
                outside = (
                    value.node not in nodes if value.node is not None else index in self._given
                )
                if gradient is not None and outside and not value.variable:
                    yield gradient

    def _weights(self, nodes: set[int]) -> Iterator[Size]:
        read = {v for n in nodes for v in self.flow.nodes[n].inputs}
        for value in map(self.flow.values.__getitem__, read):
            if value.variable and value.node not in nodes and value.gradient is not None:
                yield value.gradient


def finite_or_nan(sizes: list[Size]) -> float | None:
    """The norm of several tensors taken together: None of none, NaN where one is not finite."""
    return joined(sizes) if all(size.is_finite for size in sizes) else math.nan
