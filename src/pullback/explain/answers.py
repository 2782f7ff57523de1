"""What one gradient of a run is: swept, compared with what the framework gave, and told as a flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol

from pullback.explain import data, sources
from pullback.explain.data import Size
from pullback.explain.recording import Backward, Fact, Numbers, Sizes, nodes_of, values_of
from pullback.explain.sketch import sketch_of
from pullback.explain.sources import Entry, Gap, Given
from pullback.program.run import Event, Run

Look = Callable[[Event, Sequence[Any], "tuple[Size | None, ...]"], None]


@dataclass(frozen=True, slots=True)
class View:
    """A run as one gradient sees it: up to where that is taken, with the rules by which it was recorded."""

    events: Sequence[Event]
    layers: Sequence[tuple[str, ...]]  # of each event
    given: Sequence[int]  # the values that were there before
    outputs: Sequence[int]  # from which gradients start
    starts: Mapping[int, Any]


class Means(Protocol):
    """What an engine does so that a gradient of a run can be told."""

    @property
    def made(self) -> Run:
        """The run, with its values."""
        ...

    @property
    def sizes(self) -> Sizes:
        """The sizes of tensors and gradients."""
        ...

    @property
    def framework(self) -> str:
        """What it is called."""
        ...

    def array(self, gradient: Any) -> Any:
        """A gradient as a dense array."""
        ...

    def recorded(self, event: Event, upstream: Sequence[Any]) -> list[Any]:
        """What the gradient with which an operation was recorded passes on."""
        ...


@dataclass(eq=False)
class Answer:
    """One gradient of a run."""

    means: Means
    view: View
    entries: Sequence[Entry]
    facts: Mapping[int, Fact]
    gaps: dict[Entry, Gap] = field(default_factory=dict[Entry, Gap])
    lost: set[Entry] = field(default_factory=set[Entry])  # for which the framework gave nothing
    swept: Backward = field(init=False)

    def __post_init__(self) -> None:
        made = self.means.made
        events = list(self.view.events)
        run = Run(made.engine, made.dtype, values=made.values, events=events, runner=made.runner)
        self.swept = Backward(run, self.means.sizes, self.means.recorded)

    def sweep(
        self, truth: Mapping[Entry, Given | None], look: Look | None, *, lets_go: bool
    ) -> None:
        """Sweep back; `truth` is what the framework gave for the sources that it was asked for."""
        left = dict(truth)
        by_value = {number: entry for entry in self.entries for number in entry.values}

        def total(number: int, gradient: Any) -> None:
            entry = by_value[number]
            if entry.flows:
                entry.gradient = self.swept.arrived[number]
                if entry in left:
                    self._compare(entry, gradient, left.pop(entry))
                else:
                    entry.sketch = sketch_of(self.means.array(gradient))

        self.swept.run(self.view.starts, by_value, total, look, lets_go=lets_go)
        for entry, given in left.items():
            self._compare(entry, None, given)

    def _compare(self, entry: Entry, gradient: Any, truth: Given | None) -> None:
        size, entry.gradient = entry.gradient, None if truth is None else truth.size
        entry.sketch = () if truth is None else truth.sketch
        if truth is None and gradient is None:
            return
        found = Gap(inf, 0.0, "") if truth is None else truth.gap(gradient, size)
        if found is not None:
            self.gaps[entry] = found
        if truth is None:
            self.lost.add(entry)

    def notes(self, taken_at: data.Place | None) -> list[str]:
        """Where sweep and framework do not agree; `taken_at` is where the function itself takes the gradient."""
        largest = max((size.max for size in self.swept.arrived.values()), default=0.0)
        least = sources.least_of(fact.dtype for fact in self.facts.values())
        notes: list[str] = []
        for entry in self.entries:
            if entry not in self.gaps or not self.gaps[entry].is_wide(largest, least):
                continue
            if entry in self.lost and data.Hint.NOT_TRAINABLE in entry.hints:
                continue
            if entry in self.lost and taken_at is not None:
                entry.hints.append(data.Hint.NOT_WATCHED)
                entry.place = taken_at
                continue
            notes.append(
                f"the gradient of {entry.name} that is told here differs from the one that {self.means.framework} gives"
            )
        return notes

    def numbers(self) -> Numbers:
        """The values of the flow."""
        return Numbers(self.view.events, self.view.given, self.view.outputs)

    def nodes(
        self,
        numbers: Numbers,
        compiled: Mapping[Event, tuple[Size | None, ...]],
        raised: Mapping[Event, str],
    ) -> tuple[data.Node, ...]:
        """The operations of the flow."""
        view = self.view
        return tuple(nodes_of(view.events, view.layers, numbers, self.swept, compiled, raised))

    def values(self, numbers: Numbers) -> tuple[data.Value, ...]:
        """The values of the flow."""
        names = {n: e.name for e in self.entries if e.is_variable for n in e.values}
        return tuple(values_of(self.view.events, numbers, self.facts, self.swept.arrived, names))
