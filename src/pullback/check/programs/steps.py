"""The program of a function, operation by operation, so that a diagnosis can make one slip in its derivative.

Custom gradients are left out. An *edge* is an operand of an operation that depends on the arguments. Calls are looked
into, loops and branches are single steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pullback.check.probe import Array, Arrays, OutsideDomain, Step, Traced
from pullback.check.programs.arrays import as_array
from pullback.check.programs.running import run_traced, taken_up
from pullback.check.programs.step_names import Named, named
from pullback.program.push import push
from pullback.program.queries import View, view_of
from pullback.program.run import (
    ALL_BUT_LOOPS,
    Changes,
    Event,
    Run,
    again,
    compute,
    is_number,
    runs_until,
)
from pullback.program.sweep import Options, differentiated, sweep
from pullback.program.words import Word

# Operations beyond so many: the first and the last of them are looked at.
_MOST, _ENDS = 150, 50

Edge = tuple[int, int]
Nested = Sequence[Sequence[Array]]


class WritesItsSources(ValueError):
    """A function writes variables that it is differentiated by."""


@dataclass(frozen=True, eq=False)
class At:
    """The program at one point: what goes into and comes out of every step, and the cotangents of what comes out.

    `held` are operands that do not depend on the arguments, of the steps that have any.
    """

    made: Run
    ws: Arrays
    inputs: Nested
    outputs: Nested
    cotangents: Nested
    held: Nested


@dataclass
class Slips:
    """What is done otherwise on the way back through the program, by edge.

    The values that steps are differentiated at; factors of what flows back; and what is taken for the derivative.
    """

    values: dict[Edge, Array] = field(default_factory=dict[Edge, Array])
    factors: dict[Edge, float] = field(default_factory=dict[Edge, float])
    derivatives: dict[Edge, Array] = field(default_factory=dict[Edge, Array])

    def put(self, s: int, i: int, value: Array, dtype: Any) -> None:
        """Differentiate a step at another value."""
        self.values[s, i] = np.asarray(value, dtype)

    def scale(self, s: int, j: int, number: float) -> None:
        """Multiply what flows back along an edge."""
        self.factors[s, j] = number * self.factors.get((s, j), 1.0)

    def take(self, s: int, j: int, derivative: Array) -> None:
        """Take something for the derivative of a step."""
        self.scale(s, j, 0.0)
        self.derivatives[s, j] = derivative

    @property
    def steps(self) -> set[int]:
        """The steps that are concerned."""
        return {s for s, _ in (*self.values, *self.factors, *self.derivatives)}


class _Found(NamedTuple):
    """A step: which event, its edges, its results that are numbers, and what it holds; where its edges come from."""

    event: int
    edges: tuple[int, ...]
    outputs: tuple[int, ...]
    held: tuple[int, ...]
    origins: tuple[tuple[int, int], ...]


def own_gradients(traced: Traced, xs: Arrays, ws: Arrays) -> list[Array | None]:
    """The gradients by the program's own derivative, with every custom gradient left out."""
    made = run_traced(traced, xs, ws, entered=ALL_BUT_LOOPS)
    return _swept(traced, made, _starts(traced, made, ws), Options(own=False, stops=False))


class Steps:
    """The steps of a function, and those that hold operands which do not depend on the arguments."""

    def __init__(self, traced: Traced, xs: Arrays) -> None:
        self.traced, self.engine = traced, traced.engine
        made = self._run(xs)
        view = view_of(made)
        sources = [made.inputs[k] for k in traced.sources]
        if any(view.word(s) is Word.WRITE and s.inputs[0] in sources for s in view.steps):
            raise WritesItsSources("it writes variables that it is differentiated by")
        self.options = Options(own=False, stops=self._stops_nothing(made, view))
        self.found = list(self._steps(made, view, sources))
        count = len(self.found)
        looked_at = (k for k in range(count) if count <= _MOST or min(k, count - 1 - k) < _ENDS)
        # at other values a loop might never end
        self.kept = [k for k in looked_at if not runs_until(self._event(made, k).node)]
        named = self._named(made)
        place = {old: new for new, old in enumerate(self.kept)} | {-1: -1}
        self.steps = tuple(
            Step(*named[k], tuple((place.get(s, -2), i) for s, i in self.found[k].origins))
            for k in self.kept
        )
        self.holding = [k for k in range(count) if self.found[k].held]
        self.holders = tuple(Step(*named[k], self.found[k].origins) for k in self.holding)

    def at(self, xs: Arrays, ws: Arrays) -> At:
        """The program run at a point, and swept with these upstream gradients."""
        made = self._run(xs)
        arrived: dict[Event, Sequence[Any]] = {}

        def observe(event: Event, upstream: Sequence[Any], _: Sequence[Any]) -> None:
            arrived[event] = upstream

        options = Options(False, self.options.stops, observe=observe)
        _swept(self.traced, made, _starts(self.traced, made, ws), options)
        inputs, outputs, cotangents = list[Arrays](), list[Arrays](), list[Arrays]()
        for k in self.kept:
            one, event = self.found[k], self._event(made, k)
            inputs.append([self._array(made.values[event.inputs[j]]) for j in one.edges])
            results = [made.values[event.outputs[i]] for i in one.outputs]
            outputs.append([self._array(y) for y in results])
            come = [arrived[event][i] if event in arrived else None for i in one.outputs]
            pairs = zip(come, results, strict=True)
            cotangents.append(
                [self._array(self.engine.zeros(y) if g is None else g) for g, y in pairs]
            )
        held = [
            [self._array(made.values[self._event(made, k).inputs[i]]) for i in self.found[k].held]
            for k in self.holding
        ]
        return At(made, ws, inputs, outputs, cotangents, held)

    def local(self, at: At, inputs: Nested, cotangents: Nested) -> list[list[Array]]:
        """The cotangents of its inputs that each step alone makes, at other values and for other cotangents."""
        every, made = (
            zip(self.kept, inputs, cotangents, strict=True),
            taken_up(self.traced, at.made),
        )
        try:
            return [self._local(made, k, edges, ws) for k, edges, ws in every]
        except self.engine.refusals as error:
            raise OutsideDomain(str(error)) from error

    def tangents(self, at: At, us: Arrays) -> list[list[Array]]:
        """How the inputs of the steps move when the arguments move by `us`."""
        made, starts = taken_up(self.traced, at.made), dict[int, Any]()
        reads = {e.inputs[0]: e.outputs[0] for e in made.events if self._word(e) is Word.READ}
        for k, u in zip(self.traced.sources, us, strict=True):
            number = made.inputs[k]
            like = reads.get(number, number)  # a variable moves where it is read
            if (value := self.engine.array(made.values[like])) is not None:
                starts[number] = self.engine.tensor(np.asarray(u, value.dtype), made.values[like])
        moving = push(made, starts, stops=self.options.stops)
        return [
            [
                self._array(moving[n] if n in moving else self.engine.zeros(made.values[n]))
                for n in self._numbers(made, k)
            ]
            for k in self.kept
        ]

    def misread(self, at: At) -> list[list[tuple[str, list[Array]]]]:
        """For each step, how it may be taken wrongly, and the cotangents of its inputs that follow."""
        made = taken_up(self.traced, at.made)
        return [
            list(self._misread(made, k, ws)) for k, ws in zip(self.kept, at.cotangents, strict=True)
        ]

    def pull(self, at: At, changes: Mapping[Edge, Array]) -> list[Array]:
        """What is added to the gradients if the cotangents at edges change by this much."""
        made, starts = taken_up(self.traced, at.made), defaultdict[int, list[Any]](list)
        for (s, j), change in changes.items():
            number = self._numbers(made, self.kept[s])[j]
            starts[number].append(self.engine.tensor(change, made.values[number]))
        return self._filled(_swept(self.traced, made, starts, self.options))

    def altered(self, at: At, held: Nested) -> list[Array]:
        """The gradients if what the holders hold were this; `OutsideDomain` where that cannot be run."""
        operands: dict[tuple[Any, int], Any] = {}
        for k, mine, theirs in zip(self.holding, at.held, held, strict=True):
            event = self._event(at.made, k)
            for i, one, other in zip(self.found[k].held, mine, theirs, strict=True):
                if one.shape != other.shape or not np.array_equal(one, other):
                    tensor = self.engine.tensor(other, at.made.values[event.inputs[i]])
                    operands[event.node, i] = lambda _, t=tensor: t
        try:
            made = again(at.made, Changes(operands))
            starts = _starts(self.traced, made, at.ws)
            return self._filled(_swept(self.traced, made, starts, self.options))
        except self.engine.refusals as error:
            raise OutsideDomain(str(error)) from error

    def slipped(self, at: At, slips: Slips) -> list[Array]:
        """The gradients with slips on the way back; `OutsideDomain` where shapes do not fit."""
        made = taken_up(self.traced, at.made)
        concerned = {self._event(made, self.kept[s]): s for s in slips.steps}

        def edit(event: Event, upstream: Sequence[Any], found: list[Any]) -> list[Any]:
            s = concerned.get(event)
            return found if s is None else self._slipped(made, s, slips, upstream, found)

        options = Options(False, self.options.stops, edit=edit)
        try:
            found = _swept(self.traced, made, _starts(self.traced, made, at.ws), options)
            return self._filled(found)
        except self.engine.refusals as error:
            raise OutsideDomain(str(error)) from error

    # one step

    def _event(self, made: Run, k: int) -> Event:
        return made.events[self.found[k].event]

    def _numbers(self, made: Run, k: int) -> list[int]:
        """Those of its edges in the run."""
        event = self._event(made, k)
        return [event.inputs[j] for j in self.found[k].edges]

    def _local(self, made: Run, k: int, edges: Arrays, cotangents: Arrays) -> list[Array]:
        event, one = self._event(made, k), self.found[k]
        inputs = [made.values[number] for number in event.inputs]
        before = list(inputs)
        for j, value in zip(one.edges, edges, strict=True):
            inputs[j] = self.engine.tensor(value, inputs[j])
        if all(map(self._is_same, inputs, before)):
            outputs = [made.values[number] for number in event.outputs]
        else:
            outputs = compute(self.engine, event.node, inputs, made.dtype, event.frame)
        upstream: list[Any] = [None] * len(outputs)
        for i, w in zip(one.outputs, cotangents, strict=True):
            upstream[i] = self.engine.tensor(w, outputs[i])
        found = differentiated(made, event, inputs, outputs, upstream, self.options)
        return [
            self._array(self.engine.zeros(inputs[j]) if found[j] is None else found[j])
            for j in one.edges
        ]

    def _is_same(self, tensor: Any, other: Any) -> bool:
        if tensor is other:
            return True
        a, b = self.engine.array(tensor), self.engine.array(other)
        return a is not None and b is not None and np.array_equal(a, b, equal_nan=True)

    def _misread(self, made: Run, k: int, ws: Arrays) -> Iterator[tuple[str, list[Array]]]:
        event, one = self._event(made, k), self.found[k]
        inputs = [made.values[number] for number in event.inputs]
        pairs = zip(one.outputs, ws, strict=True)
        upstream = [self.engine.tensor(w, made.values[event.outputs[i]]) for i, w in pairs]
        for how, found in self.engine.misread(event.node, inputs, upstream):
            yield (
                how,
                [
                    self._array(self.engine.zeros(inputs[j]) if found[j] is None else found[j])
                    for j in one.edges
                ],
            )

    def _slipped(
        self, made: Run, s: int, slips: Slips, upstream: Sequence[Any], found: list[Any]
    ) -> list[Any]:
        k = self.kept[s]
        one, event = self.found[k], self._event(made, k)
        values = [made.values[number] for number in event.outputs]
        come = [
            self._array(self.engine.zeros(values[i]) if upstream[i] is None else upstream[i])
            for i in one.outputs
        ]
        usual = [self._array(made.values[number]) for number in self._numbers(made, k)]
        edges = [slips.values.get((s, i), value) for i, value in enumerate(usual)]
        if any(edge is not value for edge, value in zip(edges, usual, strict=True)):
            back = self._local(made, k, edges, come)
        else:
            back = [
                np.zeros_like(usual[i]) if found[j] is None else self._array(found[j])
                for i, j in enumerate(one.edges)
            ]
        found = list(found)
        for i, j in enumerate(one.edges):
            total = slips.factors.get((s, i), 1.0) * back[i]
            derivative = slips.derivatives.get((s, i))
            if derivative is not None and derivative.shape == come[0].shape:
                total = total + derivative * come[0]
            found[j] = self.engine.tensor(
                np.asarray(total, back[i].dtype), made.values[event.inputs[j]]
            )
        return found

    # how it is found

    def _run(self, xs: Arrays) -> Run:
        return run_traced(self.traced, xs)

    def _word(self, event: Event) -> Word:
        return self.engine.words.get(event.node.op, Word.OTHER)

    def _steps(self, made: Run, view: View, sources: Sequence[int]) -> Iterator[_Found]:
        origin: dict[int, tuple[int, int]] = {n: (-1, k) for k, n in enumerate(sources)}
        count = 0
        for e, event in enumerate(made.events):
            edges = tuple(j for j, number in enumerate(event.inputs) if number in origin)
            outputs = tuple(
                i for i, number in enumerate(event.outputs) if is_number(view.format(number))
            )
            word = self._word(event)
            if word is Word.STOP and self.options.stops:
                continue
            if event.node.carries or word in (Word.COPY, Word.READ, Word.STOP):
                pairs = zip(event.outputs, event.inputs, strict=False)
                origin.update((out, origin[number]) for out, number in pairs if number in origin)
            elif edges and outputs:
                held = tuple(self._held(view, event, edges))
                origins = tuple(origin[event.inputs[j]] for j in edges)
                yield _Found(e, edges, outputs, held, origins)
                origin.update((event.outputs[i], (count, k)) for k, i in enumerate(outputs))
                count += 1

    def _held(self, view: View, event: Event, edges: Sequence[int]) -> Iterator[int]:
        indexed = self._word(event) in (Word.GATHER, Word.REDUCE)
        for j, number in enumerate(event.inputs):
            kind = view.format(number)
            is_index = j == 1 and indexed and "int" in kind
            if j not in edges and ("float" in kind or kind == "bool" or is_index):
                yield j

    def _stops_nothing(self, made: Run, view: View) -> bool:
        """Whether the gradients that a user stopped are none of the function's derivative."""
        if not any(view.word(step) is Word.STOP for step in view.steps):
            return True
        rng = np.random.default_rng(0)
        ws = [rng.normal(size=leaf.shape) for leaf in self.traced.outputs]
        starts = _starts(self.traced, made, ws)
        kept, passed = (
            self._filled(_swept(self.traced, made, starts, Options(own=False, stops=stops)))
            for stops in (True, False)
        )
        return all(map(np.allclose, kept, passed))

    def _named(self, made: Run) -> list[Named]:
        nodes = [self._event(made, k).node for k in range(len(self.found))]
        leaves = [leaf.name for leaf in self.traced.inputs]
        return named(nodes, [one.origins for one in self.found], leaves)

    def _array(self, tensor: Any) -> Array:
        return np.asarray(self.engine.array(tensor))

    def _filled(self, gradients: Sequence[Array | None]) -> list[Array]:
        pairs = zip(gradients, self.traced.inputs, strict=True)
        return [np.zeros(leaf.shape) if g is None else g for g, leaf in pairs]


def _starts(traced: Traced, made: Run, ws: Arrays) -> dict[int, list[Any]]:
    """Upstream gradients at the results, which have the shapes that they have at the given arguments."""
    starts: dict[int, list[Any]] = {}
    for number, leaf, w in zip(made.outputs, traced.outputs, ws, strict=True):
        value = made.values[number]
        if np.asarray(traced.engine.array(value)).shape != leaf.shape:
            raise OutsideDomain("the outputs have other shapes than at the given arguments")
        starts.setdefault(number, []).append(traced.engine.tensor(_like(w, leaf.is_complex), value))
    return starts


def _like(w: Array, is_complex: bool) -> Array:
    return w if is_complex else np.real(w)


def _swept(
    traced: Traced, made: Run, starts: Mapping[int, Sequence[Any]], options: Options
) -> list[Array | None]:
    found = sweep(made, starts, [made.inputs[k] for k in traced.sources], options)
    return [None if g is None else as_array(traced.engine, g) for g in found]
