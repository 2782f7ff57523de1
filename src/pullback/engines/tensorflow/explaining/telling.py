"""A run that was recorded, told as flows: one for each gradient that is taken of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.attach.loss_scale import backward_pass
from pullback.engines.tensorflow.explaining import steps, weighing
from pullback.engines.tensorflow.explaining.compiled import Compiler, worse
from pullback.engines.tensorflow.explaining.remedies import ops_of
from pullback.engines.tensorflow.explaining.sight import Sight, bytes_of, size_of
from pullback.engines.tensorflow.explaining.sources import Sources
from pullback.engines.tensorflow.explaining.subject import Subject, starts_of
from pullback.engines.tensorflow.explaining.trials import Trials
from pullback.engines.tensorflow.probing.callee import plain_line
from pullback.engines.tensorflow.programs import rules
from pullback.engines.tensorflow.programs.lines import Lines
from pullback.engines.tensorflow.state import State
from pullback.engines.tensorflow.tf_private import explaining, explaining_hooks
from pullback.errors import ExplainError
from pullback.extend import Answer, Event, Run, View, flow, look_into, recording, sources

_MOST = 8  # gradients besides the one that is explained, of a step that takes many
Measure = Callable[["int | None", Mapping[int, int]], Mapping[int, int]]


class Ran(Protocol):
    """What there is of a run."""

    subject: Subject
    state: State
    lines: Lines
    sight: Sight
    sources: Sources
    given: list[int]
    gradients: steps.Gradients
    step: steps.Asked | None
    weighted: bool
    tape: Any
    result: Any
    wrt: Sequence[Any] | None


class Means:
    """Numbers of a run of TensorFlow's."""

    framework = "TensorFlow"

    def __init__(self, sight: Sight) -> None:
        self.made: Run = sight.made
        self.recorded = sight.recorded
        self.sizes = recording.Sizes(size_of)
        self._facts: dict[int, recording.Fact] = {}

    def facts_of(self, values: Iterable[int]) -> Mapping[int, recording.Fact]:
        """What a flow says of values of the run."""
        for number in values:
            if number not in self._facts:
                self._facts[number] = self._fact(self.made.values[number])
        return self._facts

    def _fact(self, tensor: Any) -> recording.Fact:
        shape = tuple(private.concrete_shape(tensor))
        return recording.Fact(shape, tensor.dtype.name, bytes_of(tensor), self.sizes.of(tensor))

    def array(self, gradient: Any) -> Any:
        """A gradient as a dense array."""
        return explaining.numbers(values.dense(gradient))


def flow_of(ran: Ran, measure: Measure, began: float) -> flow.Flow:
    """The flow of a run; of a step, that of the gradient which is explained, with the others."""
    means = Means(ran.sight)
    calls = [call for call in ran.gradients.asked if call is not ran.step][-_MOST:]
    others = [Telling(ran, means, call).flow(measure, began) for call in calls if ran.step]
    return replace(Telling(ran, means, ran.step).flow(measure, began), others=tuple(others))


class Telling:
    """One gradient of a run."""

    def __init__(self, ran: Ran, means: Means, step: steps.Asked | None) -> None:
        self.ran, self.means, self.step, self.sight = ran, means, step, ran.sight
        self.notes: list[str] = [weighing.NOTE] if ran.weighted else []
        self.refused = False  # whether TensorFlow raises in place of giving gradients
        made = ran.sight.made
        self.cut, self.limit = step.position if step else (len(made.events), len(made.values))

    def flow(self, measure: Measure, began: float) -> flow.Flow:
        """Run backward, and tell."""
        ran, outputs = self.ran, self._outputs()
        entries = self._entries()
        truth = self._truth(entries, outputs)
        view = self._view(outputs)
        numbers = recording.Numbers(view.events, view.given, view.outputs)
        facts = self.means.facts_of(numbers.of)
        answer = Answer(self.means, view, entries, facts)
        compiler = self._compiler(truth)
        asked = frozenset(private.number_of(getattr(e.thing, "handle", e.thing)) for e in entries)
        # Our own rules ask what a gradient is taken of, which a tape would tell.
        with explaining_hooks.numbers_asked_for(asked), backward_pass():
            is_last = self.step is ran.step
            answer.sweep(truth, compiler.look if compiler else None, lets_go=is_last)
        if self.refused:
            for entry in entries:
                entry.gradient, entry.sketch = None, ()
        else:
            self.notes += answer.notes(self.step.place if self.step else None)
        raised = {event: _in_words(error) for event, error in answer.swept.errors}
        self._note_errors(raised)
        tensors = [e for e in entries if e.kind == "tensor"]
        call = next((k for k, c in enumerate(ran.gradients.asked) if c is self.step), None)
        trials = Trials(ran.subject, ran.lines, ran.state, self.sight.known, tensors, call)
        not_taken = self.sight.interpreter.not_taken
        look_into(entries, view.events, view.starts, lambda: not_taken, trials)
        wanted = ran.sources.wanted(entries)
        nodes = answer.nodes(numbers, compiler.found if compiler else {}, raised)
        return flow.Flow(
            ran.subject.name,
            "tensorflow",
            nodes,
            answer.values(numbers),
            (*(entry.to_source(numbers) for entry in wanted), *self._not_tensors()),
            numbers(dict.fromkeys(view.outputs)),
            tuple(self.notes),
            time.perf_counter() - began,
            ops_of(node.type for node in nodes),
            objects=[(thing, k) for k, entry in enumerate(wanted) for thing in entry.objects],
            layers=list(self.sight.known_layers.values()),
            measure_held=lambda: measure(call, numbers.of),
        )

    def _not_tensors(self) -> list[flow.Source]:
        """Numbers of Python among the arguments: one may ask about them, too."""
        return [
            flow.Source(
                name, "argument", (), (), f"Python {kind}", None, hints=(flow.Hint.NOT_A_TENSOR,)
            )
            for name, kind in self.ran.subject.numbers
            if self.ran.wrt is None
        ]

    # what is asked

    def _outputs(self) -> list[Any]:
        """Where gradients start; what ran after a step's own gradient was taken is no part of it."""
        ran, step = self.ran, self.step
        if step is None:
            return starts_of(ran.subject, ran.result)
        scale = steps.scale_of(ran.subject.fn)
        if scale is not None:
            self.notes.append(
                f"the loss is multiplied by {scale:g} (mixed precision): so are all gradients told here, until the "
                "optimizer divides by it"
            )
        others = len(ran.gradients.asked) - 1
        if others and step is ran.step:
            self.notes.append(
                f"{ran.subject.name} takes {others + 1} gradients; this is the last one, taken at {step.place}"
            )
        return step.outputs or starts_of(ran.subject, step.target)

    def _entries(self) -> list[sources.Entry]:
        ran = self.ran
        read = {n for event in ran.sight.made.events[: self.cut] for n in event.inputs}

        def met(thing: Any) -> tuple[int, ...]:
            known = self.sight.known(thing)
            return () if known is None or known >= self.limit else (known,)

        def is_read(thing: Any) -> bool:
            return not read.isdisjoint(met(thing))

        calls = ran.gradients.asked if self.step else ()
        more = [source for call in calls for source in call.sources]
        found = ran.sources.entries(ran.tape.watched_variables(), met, is_read, more)
        if self.step is not None and len(calls) > 1:
            of_others = {id(s) for call in calls if call is not self.step for s in call.sources}
            own = {id(s) for s in self.step.sources}
            for entry in found:
                entry.asked = id(entry.thing) in own or id(entry.thing) not in of_others
        if not any(entry.flows for entry in found):
            raise ExplainError(
                f"{ran.subject.name} takes nothing differentiable: it was given {ran.subject.given}, and reads no "
                "variable. Pass at least one floating-point tensor or variable."
            )
        return found

    def _truth(
        self, entries: Sequence[sources.Entry], outputs: Sequence[Any]
    ) -> Mapping[sources.Entry, sources.Given | None]:
        """The gradients that TensorFlow itself gives, for the sources that it is asked for."""
        entries = [entry for entry in entries if entry.flows]
        if self.step is not None:
            found = {id(s): g for s, g in zip(self.step.sources, self.step.found, strict=True)}
            return {e: self._given(found[id(e.thing)]) for e in entries if id(e.thing) in found}
        if not any(map(values.flows, outputs)):
            return dict.fromkeys(entries)
        try:
            things, given = [entry.thing for entry in entries], self._upstreams(outputs)
            truth = self.ran.tape.gradient(outputs, things, output_gradients=given)
        except Exception as error:
            self.notes.append(
                f"TensorFlow itself gives no gradient here, but raises {_in_words(error)}"
            )
            self.refused = True
            return {}
        return {e: self._given(g) for e, g in zip(entries, truth, strict=True)}

    def _given(self, gradient: Any) -> sources.Given | None:
        return (
            None
            if gradient is None
            else sources.Given(gradient, self.means.array, self.means.sizes.of)
        )

    def _upstreams(self, outputs: Sequence[Any]) -> list[Any]:
        """What each output starts with."""
        if self.step is not None:
            return self.step.upstreams()
        return [weighing.upstream_of(y, weighted=self.ran.weighted) for y in outputs]

    def _view(self, outputs: Sequence[Any]) -> View:
        ran, made = self.ran, self.sight.made
        events = made.events[: self.cut]
        layers = [self.sight.around[event].layer for event in events]
        if self.step is not None:
            tape = self.step.tape
            first, last = self.sight.block_of(tape)
            events = [
                event if self._is_on(tape, event) else _off(event, inside=first <= k < last)
                for k, event in enumerate(events)
            ]
        starts: dict[int, Any] = {}
        numbers = list(map(self.sight.value, outputs))
        if any(map(values.flows, outputs)):
            for value, one in zip(numbers, self._upstreams(outputs), strict=True):
                starts[value] = one + starts[value] if value in starts else one
        return View(events, layers, ran.given, numbers, starts)

    def _is_on(self, tape: Any, event: Event) -> bool:
        """Whether a tape has recorded what ran, if there is anything to record."""
        is_dead = event.node.rule.kind in ("none", "stopped")
        return is_dead or tape in self.sight.around[event].tapes

    def _compiler(self, truth: Mapping[sources.Entry, Any]) -> Compiler | None:
        """Whether something is compiled, and has worse gradients than op by op."""
        ran = self.ran
        if not self.sight.interpreter.compiled or self.step is not None:
            return None
        try:
            names = worse(ran.subject, ran.sources.watched(), truth)
        finally:
            ran.state.restore(ran.state.changed())
        if names:
            self.notes.append(
                f"compiled by XLA, the gradient of {', '.join(names)} is not finite; op by op, as told here, it is"
            )
        return Compiler(self.sight.made) if names else None

    def _note_errors(self, raised: Mapping[Event, str]) -> None:
        for event, error in raised.items():
            node = event.node
            where = f" at {node.place}" if node.place else ""
            self.notes.append(f"the gradient of {recording.type_of(node)}{where} raises {error}")


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {plain_line(error)}"


def _off(event: Event, *, inside: bool) -> Event:
    """What ran before or after the block of a tape, or while that was stopped, has no gradient on it."""
    rule = rules.UNRECORDED if inside else rules.OUTSIDE
    return replace(event, node=replace(event.node, rule=rule))
