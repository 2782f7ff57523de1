"""What is wrong in a flow, in the words of `Flow.why` and `Flow.first_nonfinite`."""

from __future__ import annotations

from dataclasses import dataclass

from pullback.explain.data import FlowData, Source
from pullback.explain.nonfinite import first_nonfinite
from pullback.explain.views.marks import is_expected, of_source
from pullback.explain.why import why as why_of

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


@dataclass(frozen=True, slots=True)
class Findings:
    """What to say before anything else."""

    nonfinite: str
    node: int | None  # the one that the first line is about
    answers: tuple[Answer, ...]  # all sources
    notes: tuple[str, ...]

    @property
    def missing(self) -> tuple[Answer, ...]:
        """The sources without a gradient where one was to be expected."""
        return tuple(a for a in self.answers if a.expected and a.source.gradient is None)

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
    first = first_nonfinite(flow)
    answers = tuple(_answer(flow, index) for index in range(len(flow.sources)))
    if first is None:
        return Findings("", None, answers, flow.notes)
    node = next(
        (node.id for node in flow.nodes if node is first.node), None
    )  # if it is of this one
    return Findings(str(first), node, answers, flow.notes)


def _answer(flow: FlowData, index: int) -> Answer:
    flow, source = flow.flow_of(flow.sources[index])
    asked = index < MOST_ASKED and bool(of_source(source))
    why = why_of(flow, source.name) if asked else ""
    return Answer(source, index, why, is_expected(source))
