"""What is wrong in a flow, in the words of `Flow.why` and `Flow.first_nonfinite`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from pullback.explain.data import FlowData, Source
from pullback.explain.graph import Graph
from pullback.explain.missing import is_stopped
from pullback.explain.nonfinite import first_nonfinite
from pullback.explain.views.marks import Mark, Marks, is_expected, of_source
from pullback.explain.why import why as why_of

_SIZES: tuple[Mark, ...] = ("vanishing", "exploding")
MOST_ASKED = 200  # a question walks the flow; nobody reads more answers than this


@dataclass(frozen=True, slots=True)
class Answer:
    """A source, and why its gradient is missing, zero or not finite; empty where all is well."""

    source: Source
    index: int
    why: str
    expected: (
        bool  # whether a gradient was to be expected: of a floating-point source that is trained
    )
    is_stopped: bool = False  # by nothing but stops that the code asks for


@dataclass(frozen=True, slots=True)
class Findings:
    """What to say before anything else."""

    nonfinite: str
    node: int | None  # the one that the first line is about
    answers: tuple[Answer, ...]  # all sources
    notes: tuple[str, ...]
    sizes: tuple[
        tuple[Mark, int], ...
    ] = ()  # at how many operations gradients are too small or large

    @property
    def missing(self) -> tuple[Answer, ...]:
        """The sources without a gradient where one was to be expected."""
        without = [a for a in self.answers if a.expected and a.source.gradient is None]
        return tuple(a for a in without if not a.is_stopped or not self._any_gradient)

    @property
    def stopped(self) -> tuple[Answer, ...]:
        """The sources whose gradient is stopped, where others have one: that is what stops are for."""
        return tuple(a for a in self.answers if a.expected and a.is_stopped and self._any_gradient)

    @property
    def _any_gradient(self) -> bool:
        return any(a.source.gradient is not None for a in self.answers)

    @property
    def zero(self) -> tuple[Answer, ...]:
        """The sources whose gradient is zero throughout."""
        return tuple(a for a in self.answers if a.expected and "zero" in of_source(a.source))

    @property
    def all_is_well(self) -> bool:
        """Whether there is nothing to say."""
        return not (self.nonfinite or self.missing or self.zero)


def findings(flow: FlowData) -> Findings:
    """Ask a flow what is wrong."""
    first, marks = first_nonfinite(flow), Marks(flow)
    graphs: dict[int, Graph] = {}
    answers = tuple(_answer(flow, graphs, index) for index in range(len(flow.sources)))
    found = Counter[Mark](mark for node in flow.nodes for mark in marks.of_node(node.id))
    sizes: list[tuple[Mark, int]] = [(mark, found[mark]) for mark in _SIZES if found[mark]]
    known = first.node if first is not None else None
    node = next((n.id for n in flow.nodes if n is known), None)  # if it is of this one
    return Findings(str(first or ""), node, answers, flow.notes, tuple(sizes))


def _answer(flow: FlowData, graphs: dict[int, Graph], index: int) -> Answer:
    flow, source = flow.flow_of(flow.sources[index])
    asked = index < MOST_ASKED and bool(of_source(source))
    if not asked:
        return Answer(source, index, "", is_expected(source))
    graph = graphs.setdefault(id(flow), Graph(flow))
    return Answer(
        source, index, why_of(flow, source.name), is_expected(source), is_stopped(graph, source)
    )
