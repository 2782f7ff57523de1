"""The program of a rule, operation by operation, so that a diagnosis can look for the one change that makes it right.

Function and rule are one program, whose steps are those of the rule. What follows from a changed operand, or from an
operation that is taken otherwise, is computed operation by operation. Loops and branches are single steps.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.check.probe import Array, Arrays, OutsideDomain, Traced
from pullback.check.programs.arrays import as_array
from pullback.check.programs.running import run_traced
from pullback.program.places import assigned, statement
from pullback.program.protocol import Alternative
from pullback.program.queries import view_of
from pullback.program.run import Changes, Event, Run, again
from pullback.program.words import Word

# Tensors of more numbers in all would make thousands of changes slow, and fill the memory at many points.
_MOST_NUMBERS = 100_000

Change = Callable[[Array], Array]


class TooLarge(ValueError):
    """A program is too large to be looked into."""


@dataclass(frozen=True)
class RuleStep:
    """One operation of the rule: its type, that with a number where its line has several, its line and place.

    Operands and results are numbers of tensors, −1 for what holds no numbers. `options` are other ways to take it, in
    words that have a place for what it is called.
    """

    op: str
    word: Word
    name: str
    line: str
    place: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: tuple[str, ...]


class RuleProgram:
    """Function and rule as one program whose steps are those of the rule.

    Tensors, of the function and of the rule, have numbers: `names` is what they are called, in backticks where that is
    in the source, `kinds` and `lines` say what makes them, `gradients` which of them the rule returns. `epsilon` is the
    rounding unit in which it runs.
    """

    def __init__(self, traced: Traced, xs: Arrays, ws: Arrays) -> None:
        self.traced, self.engine, self.epsilon = traced, traced.engine, traced.epsilon
        made = self.first = self.at(xs, ws)
        self.view = view_of(made)
        arrays = list(map(self.engine.array, made.values))
        if sum(array.size for array in arrays if array is not None) > _MOST_NUMBERS:
            raise TooLarge("the program is too large")
        # numbers of the run that are tensors of numbers
        self.tensors = [number for number, array in enumerate(arrays) if array is not None]
        self.number = {number: k for k, number in enumerate(self.tensors)}
        self.places = {event: statement(event.node.place) for event in made.events}
        self.which = self._of_the_rule(made)
        events = [made.events[k] for k in self.which]
        self.ways = [self._ways(event) if self.places[event][0] else [] for event in events]
        self.steps = tuple(self._steps(events))
        outputs = [None if k is None else made.outputs[k] for k in traced.gradients]
        self.gradients = tuple(None if n is None else self.number.get(n, -1) for n in outputs)
        self.inputs = dict(zip(made.inputs, _names_of_inputs(traced), strict=False))
        self.used = {number for event in made.events for number in event.inputs}
        self.lasts = self._lasts(made.events)
        self.names = tuple(map(self._name, self.tensors))
        self.lines = tuple(map(self._line, self.tensors))
        self.kinds = tuple(map(self._kind, self.tensors))
        self.constants = frozenset(self.number[n] for n in made.constants if n in self.number)
        self.copies = frozenset(
            k for k, n in enumerate(self.tensors) if self.view.maker_word(n) is Word.COPY
        )

    def at(self, xs: Arrays, ws: Arrays) -> Run:
        """The program run at a point."""
        return run_traced(self.traced, xs, ws)

    def arrays(self, made: Run) -> list[Array]:
        """Every tensor of numbers of a run."""
        return [np.asarray(self.engine.array(made.values[number])) for number in self.tensors]

    def run(
        self,
        made: Run,
        operands: Mapping[tuple[int, int], Change],
        options: Mapping[int, int],
    ) -> list[Array | None]:
        """The gradients if operands of steps are changed, or steps taken otherwise; returning is the last step."""
        try:
            found = self._run(made, operands, options)
        except self.engine.refusals as error:
            raise OutsideDomain(str(error)) from error
        shapes = [leaf.shape for leaf in self.traced.inputs]
        if any(g is not None and g.shape != s for g, s in zip(found, shapes, strict=True)):
            raise OutsideDomain("the gradients have other shapes")
        return found

    def _run(
        self,
        made: Run,
        operands: Mapping[tuple[int, int], Change],
        options: Mapping[int, int],
    ) -> list[Array | None]:
        events = [made.events[k] for k in self.which]
        last = len(events)
        changes = Changes(
            {
                (events[k].node, j): self._on_tensors(f)
                for (k, j), f in operands.items()
                if k < last
            },
            {events[k].node: self.ways[k][way].run for k, way in options.items()},
        )
        changed = again(made, changes, frozenset(events))
        found: list[Array | None] = []
        for j, which in enumerate(self.traced.gradients):
            tensor = None if which is None else changed.values[made.outputs[which]]
            if tensor is not None and (change := operands.get((last, j))):
                tensor = self._on_tensors(change)(tensor)
            found.append(None if tensor is None else as_array(self.engine, tensor))
        return found

    def _on_tensors(self, change: Change) -> Callable[[Any], Any]:
        def changed(tensor: Any) -> Any:
            return self.engine.tensor(change(np.asarray(self.engine.array(tensor))), tensor)

        return changed

    def _of_the_rule(self, made: Run) -> list[int]:
        """Which events gradients come from, and results do not."""
        wanted = [made.outputs[k] for k in self.traced.gradients if k is not None]
        ours = self.view.needed(wanted)
        before = self.view.needed(made.outputs[: len(self.traced.outputs)])
        return [
            k
            for k, event in enumerate(made.events)
            if event.inputs
            and not ours.isdisjoint(event.outputs)
            and before.isdisjoint(event.outputs)
        ]

    def _ways(self, event: Event) -> list[Alternative]:
        values = [self.first.values[number] for number in event.inputs]
        return list(self.engine.alternatives(event.node, values))

    # words

    def _steps(self, events: list[Event]) -> list[RuleStep]:
        same: defaultdict[object, list[Event]] = defaultdict(list)
        for event in events:
            same[self.places[event], event.node.op].append(event)
        found: list[RuleStep] = []
        for event, ways in zip(events, self.ways, strict=True):
            (line, place), op = self.places[event], event.node.op
            alike = same[self.places[event], op]
            kind = f"{op} no. {alike.index(event) + 1}" if len(alike) > 1 and line else op
            inputs, outputs = (
                tuple(self.number.get(n, -1) for n in ns) for ns in (event.inputs, event.outputs)
            )
            hows = tuple(way.how for way in ways)
            found.append(
                RuleStep(op, self.view.word(event), kind, line, place, inputs, outputs, hows)
            )
        return found

    def _kind(self, number: int) -> str:
        """What makes a tensor: a type of operation; nothing for what is given."""
        maker = self.view.makers.get(number)
        return maker.node.op if maker else "constant" if number in self.first.constants else ""

    def _line(self, number: int) -> str:
        if number in self.first.constants:
            return statement(self.first.constants[number].place)[0]
        maker = self.view.makers.get(number)
        return statement(maker.node.place)[0] if maker else ""

    def _name(self, number: int) -> str:
        """What a tensor is called in the source, or what it is."""
        if name := self._plain_name(number):
            return name
        if number in self.first.constants:
            return _written(np.asarray(self.engine.array(self.first.constants[number].constant)))
        maker = self.view.makers.get(number)
        if maker is None:
            return "a value from outside"
        inputs = (n for n in maker.inputs if n not in self.first.constants)
        of = next(filter(None, map(self._plain_name, inputs)), "")
        return f"the result of {maker.node.op}" + (f" of {of}" if of else "")

    def _plain_name(self, number: int) -> str:
        """A name that is none of what makes it."""
        if number in self.inputs:
            return self.inputs[number]
        name = self._variable(number)
        return f"`{name}`" if name else ""

    def _variable(self, number: int) -> str:
        """The variable that a line gives a tensor to: what its last operation gives, or one of the last of its type."""
        maker = self.view.makers.get(number)
        if maker is None:
            return ""
        place = statement(maker.node.place)
        names, last = assigned(place[0]), self.lasts.get(place, [])
        is_last = bool(last) and last[-1].outputs == maker.outputs
        if len(names) == 1 and is_last:
            return (
                names[0] if [n for n in maker.outputs if n in self.used] in ([number], []) else ""
            )
        if len(names) > 1 and is_last and len(maker.outputs) == len(names):
            return names[maker.outputs.index(number)]
        alike = [event.outputs for event in last if event.node.op == maker.node.op]
        several = len(names) == len(alike) > 1 and maker.outputs in alike
        return names[alike.index(maker.outputs)] if several else ""

    def _lasts(self, events: list[Event]) -> dict[tuple[str, str], list[Event]]:
        """The operations of each line that are of the type of its last."""
        found: dict[tuple[str, str], list[Event]] = {}
        for event in events:
            if self.view.word(event) is not Word.COPY:
                found.setdefault(self.places[event], []).append(event)
        return {
            place: [one for one in every if one.node.op == every[-1].node.op]
            for place, every in found.items()
        }


def _names_of_inputs(traced: Traced) -> list[str]:
    many = len(traced.outputs) > 1
    upstream = [f" of `{leaf.name}`" if many else "" for leaf in traced.outputs]
    return [
        *(f"`{leaf.name}`" for leaf in traced.inputs),
        *("the upstream" + of for of in upstream),
    ]


def _written(value: Array) -> str:
    text = np.array2string(np.asarray(value), precision=4, separator=", ", threshold=8)
    return " ".join(text.split())
