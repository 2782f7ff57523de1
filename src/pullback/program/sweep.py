"""The backward pass of a run, operation by operation: what arrives at a value, and what each node passes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pullback.program.data import NodeKind, RuleBody
from pullback.program.run import Event, Run, run_program, run_whole, runs_as_one

# What a node passes on, given what arrived at its results; `None` for what is as usual.
Edit = Callable[[Event, Sequence[Any], list[Any]], "list[Any]"]
Observe = Callable[[Event, Sequence[Any], Sequence[Any]], None]


@dataclass(frozen=True)
class Options:
    """How to sweep: `own` runs the rules that somebody wrote, else the function's own derivative is taken."""

    own: bool = True
    stops: bool = True  # whether no gradient passes where it is stopped on purpose
    edit: Edit | None = None
    observe: Observe | None = None
    # What the gradient gives with which an operation was recorded when this very run was made.
    recorded: Callable[[Event, Sequence[Any]], list[Any]] | None = None
    arrived: Callable[[int, Any], None] | None = None  # is given what arrived at each value
    failed: Callable[[Event, Exception], None] | None = None  # is given what a rule raised
    lets_go: bool = False  # whether values are forgotten once they are needed no more


@dataclass(eq=False)
class Sweep:
    """Gradients on their way back."""

    made: Run
    options: Options
    sources: frozenset[int]
    arrived: dict[int, list[Any]] = field(default_factory=dict[int, list[Any]])
    totals: dict[int, Any] = field(default_factory=dict[int, Any])  # of the sources

    def run(self) -> None:
        """Over all events, the last one first."""
        wanted = _depending(self.made, self.sources)
        first = _first_readers(self.made, self.sources)
        for event in reversed(self.made.events):
            upstream = [self._total(number) for number in event.outputs]
            if any(g is not None for g in upstream) and not wanted.isdisjoint(event.inputs):
                self._pass_on(event, upstream, wanted)
            for number in first.get(event, ()):  # to which nothing more will come
                self._total(number)
            if self.options.lets_go:
                self._let_go(event)
        for number in list(self.arrived):
            self._total(number)

    def _pass_on(self, event: Event, upstream: list[Any], wanted: set[int]) -> None:
        found = self._found(event, upstream)
        if self.options.edit is not None:
            found = self.options.edit(event, upstream, found)
        if self.options.observe is not None:
            self.options.observe(event, upstream, found)
        for number, gradient in zip(event.inputs, found, strict=True):
            if gradient is not None and number in wanted:
                self.arrived.setdefault(number, []).append(gradient)

    def _found(self, event: Event, upstream: list[Any]) -> list[Any]:
        try:
            return passed_on(self.made, event, upstream, self.options)
        except Exception as error:  # of the user's code, or of what it does to the engine's
            if self.options.failed is None:
                raise
            self.options.failed(event, error)
            return [None] * len(event.inputs)

    def _let_go(self, event: Event) -> None:
        for number in event.outputs:
            if number not in self.sources:
                self.made.values[number] = None

    def _total(self, number: int) -> Any:
        parts = self.arrived.pop(number, None)
        if parts is None:
            return None
        total = parts[0] if len(parts) == 1 else self.made.engine.add(parts)
        if self.options.arrived is not None:
            self.options.arrived(number, total)
        elif number in self.sources:
            self.totals[number] = total
        return total


def sweep(
    made: Run,
    starts: Mapping[int, Sequence[Any]],
    sources: Iterable[int] | None = None,
    options: Options | None = None,
) -> list[Any]:
    """The gradients of sources, which are the inputs unless they are named: `None` where nothing arrives.

    Gradients start at values; there may be several for one.
    """
    sources = list(made.inputs if sources is None else sources)
    arrived = {number: list(gradients) for number, gradients in starts.items()}
    found = Sweep(made, options or Options(), frozenset(sources), arrived)
    found.run()
    return [found.totals.get(number) for number in sources]


def passed_on(made: Run, event: Event, upstream: Sequence[Any], options: Options) -> list[Any]:
    """What one node gives for each of its inputs."""
    node = event.node
    if options.recorded is not None and not node.rule.passes_nothing:
        return options.recorded(event, upstream)
    if node.has_rule and options.own:
        return rule_gradients(made, event, upstream)
    if node.carries:
        return [*upstream[: node.carries], *[None] * (len(node.inputs) - node.carries)]
    if node.rule.kind == "stopped" and not options.stops:
        return list(upstream)
    if node.rule.passes_nothing and (options.own or node.rule.kind != "unrecorded"):
        return [None] * len(node.inputs)
    inputs, outputs = (
        [made.values[number] for number in numbers] for numbers in (event.inputs, event.outputs)
    )
    return differentiated(made, event, inputs, outputs, upstream, options)


def differentiated(
    made: Run,
    event: Event,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    upstream: Sequence[Any],
    options: Options,
) -> list[Any]:
    """What a node gives by the rule of its type, at other values than those of the run perhaps."""
    node = event.node
    if node.kind is NodeKind.OPERATION:
        return made.engine.vjp(node, inputs, outputs, upstream, made.dtype)
    if runs_as_one(node, made.dtype, stops=options.stops):
        found = made.engine.loop_vjp(node, inputs, upstream)
        if found is not None:
            return found
    # through what a branch or loop that is one event runs inside
    whole = run_whole(made.engine, event.node, inputs, made.dtype, event.frame)
    starts: dict[int, list[Any]] = {}
    for number, gradient in zip(whole.outputs, upstream, strict=True):
        if gradient is not None:
            starts.setdefault(number, []).append(gradient)
    every = Options(options.own, options.stops)
    return sweep(whole, starts, options=every)


def rule_gradients(made: Run, event: Event, upstream: Sequence[Any]) -> list[Any]:
    """What the rule of a node gives for its inputs."""
    rule = made.engine.rule(event.node)
    found = run_rule(made, event, rule, upstream).results
    return [
        None
        if parts is None
        else made.engine.gradient(event.node, which, [found[k] for k in parts])
        for which, parts in enumerate(rule.gradients)
    ]


def run_rule(made: Run, event: Event, rule: RuleBody, upstream: Sequence[Any]) -> Run:
    """The run of a rule, on what arrived at the results of its node."""
    engine = made.engine
    given = [
        engine.zeros(made.values[number]) if g is None else g
        for number, g in zip(event.outputs, upstream, strict=True)
    ]
    read = [event.frame.value(*where) for where in rule.reads]
    return run_program(engine, rule.program, [*given, *read], dtype=made.dtype, outer=event.frame)


def _depending(made: Run, sources: frozenset[int]) -> set[int]:
    """The values that depend on one of the sources."""
    found = set(sources)
    for event in made.events:
        if not found.isdisjoint(event.inputs):
            found.update(event.outputs)
    return found


def _first_readers(made: Run, sources: frozenset[int]) -> Mapping[Event, list[int]]:
    """The sources that no event gives, by the event that is the first to read each."""
    left = set(sources).difference(*(event.outputs for event in made.events))
    found: dict[Event, list[int]] = {}
    for event in made.events:
        if read := left.intersection(event.inputs):
            found[event] = list(read)
            left -= read
    return found
