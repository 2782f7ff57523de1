"""One run with its backward pass, as a flow: sizes of values and gradients, and the numbers that values get."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pullback.explain import data, sizes
from pullback.explain.data import Size
from pullback.program.data import Node
from pullback.program.run import Event, Run
from pullback.program.sweep import Options, Sweep

Recorded = Callable[[Event, Sequence[Any]], list[Any]]


@dataclass(frozen=True, slots=True)
class Fact:
    """What a flow says of a tensor."""

    shape: tuple[int, ...]
    dtype: str
    bytes: int
    size: Size | None


class Sizes:
    """Sizes by an engine's means; a tensor that passes on as it is, is measured once."""

    def __init__(self, measure: Callable[[Any], Size | None]) -> None:
        self._measure = measure
        self._known: dict[int, tuple[weakref.ref[Any], Size | None]] = {}

    def of(self, tensor: Any) -> Size | None:
        """The size of a tensor; `None` for what holds no numbers."""
        known = self._known.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[1]
        size = self._measure(tensor)
        self._known[id(tensor)] = weakref.ref(tensor), size
        return size


class Backward:
    """A backward pass, with the sizes of all that was passed on."""

    def __init__(self, made: Run, size_of: Sizes, recorded: Recorded) -> None:
        self.made, self.sizes = made, size_of
        self._recorded = recorded
        self.arrived: dict[int, Size] = {}  # by value
        self.passed: dict[Event, tuple[Size | None, ...]] = {}
        self.seconds: dict[Event, float] = {}
        self.errors: list[tuple[Event, Exception]] = []
        self._began = 0.0

    def run(
        self,
        starts: Mapping[int, Any],
        sources: Iterable[int],
        total: Callable[[int, Any], None],
        look: Callable[[Event, Sequence[Any], tuple[Size | None, ...]], None] | None = None,
        *,
        lets_go: bool = True,
    ) -> None:
        """Sweep; `total` is given what arrived at each source, `look` what each operation got and passed on."""
        wanted = frozenset(sources)

        def arrived(number: int, gradient: Any) -> None:
            self.arrived[number] = self._size(gradient)
            if number in wanted:
                total(number, gradient)

        def passed(event: Event, upstream: Sequence[Any], found: Sequence[Any]) -> None:
            self.seconds[event] = time.perf_counter() - self._began
            self.passed[event] = tuple(None if g is None else self._size(g) for g in found)
            if look is not None:
                look(event, upstream, self.passed[event])

        options = Options(
            observe=passed,
            recorded=self._begin,
            arrived=arrived,
            failed=lambda event, error: self.errors.append((event, error)),
            lets_go=lets_go,
        )
        given = {number: [gradient] for number, gradient in starts.items()}
        Sweep(self.made, options, wanted, given).run()

    def _begin(self, event: Event, upstream: Sequence[Any]) -> list[Any]:
        self._began = time.perf_counter()
        return self._recorded(event, upstream)

    def _size(self, gradient: Any) -> Size:
        return self.sizes.of(gradient) or sizes.THERE


class Numbers:
    """The values of a flow: those of a run that were given or met, in this order."""

    def __init__(
        self, events: Iterable[Event], given: Iterable[int], outputs: Iterable[int]
    ) -> None:
        self.of: dict[int, int] = {}
        self._add(given)
        for event in events:
            self._add(event.inputs)
            self._add(event.outputs)
        self._add(outputs)

    def _add(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.of.setdefault(number, len(self.of))

    def __call__(self, numbers: Iterable[int]) -> tuple[int, ...]:
        """Those of these values that are in the flow."""
        return tuple(self.of[number] for number in numbers if number in self.of)


def nodes_of(
    events: Sequence[Event],
    layers: Sequence[tuple[str, ...]],
    numbers: Numbers,
    swept: Backward,
    compiled: Mapping[Event, tuple[Size | None, ...]],
    raised: Mapping[Event, str],
) -> Iterator[data.Node]:
    """The operations of a flow."""
    for number, (event, layer) in enumerate(zip(events, layers, strict=True)):
        node = event.node
        yield data.Node(
            number, type_of(node), node.name, layer, event.frame.path, node.place, numbers(event.inputs),
            numbers(event.outputs), node.rule, swept.passed.get(event, ()), swept.seconds.get(event, 0.0),
            compiled.get(event, ()), raised.get(event, ""),
        )  # fmt: skip


def type_of(node: Node) -> str:
    """What a flow calls an operation: one that is there for the sake of its rule is called after that."""
    return (node.carries and title_of(node.rule)) or node.op


def title_of(rule: data.Rule) -> str:
    """What an operation is called that is there for the sake of its rule; empty for the engine's own."""
    return {"pullback": rule.name, "custom": rule.name, "override": rule.target}.get(rule.kind, "")


def values_of(
    events: Sequence[Event],
    numbers: Numbers,
    facts: Mapping[int, Fact],
    arrived: Mapping[int, Size],
    variables: Mapping[int, str],
) -> Iterator[data.Value]:
    """The values of a flow."""
    makers = {n: (k, j) for k, event in enumerate(events) for j, n in enumerate(event.outputs)}
    for number, known in numbers.of.items():
        fact = facts[number]
        node, output = makers.get(number, (None, 0))
        yield data.Value(
            known, node, output, fact.shape, fact.dtype, fact.bytes, fact.size, arrived.get(number), False,
            variables.get(number, ""),
        )  # fmt: skip
