"""A program run: forward with all its values, again with one change, and backward operation by operation.

A run is flat: calls are entered, loops unrolled, of branches there is the one that was taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pullback.program.data import Node, NodeKind, Program, Value
from pullback.program.protocol import ProgramEngine

Operand = tuple[Node, int]
Change = Callable[[Any], Any]


@dataclass(frozen=True, eq=False, slots=True)
class Frame:
    """One run of one program, within that of another: the number of each of its values."""

    made: Run
    program: Program
    numbers: list[int]
    outer: Frame | None
    path: tuple[str, ...]  # the calls, branches and steps of loops around, outermost first

    def value(self, further_out: int, value: int) -> Any:
        """A value of this program, or of one further out."""
        return self.made.values[self.number(further_out, value)]

    def number(self, further_out: int, value: int) -> int:
        """Its number in the run; what nothing has needed before is computed now."""
        frame = self
        for _ in range(further_out):
            if frame.outer is None:
                raise LookupError("a rule reads what is not around its node")
            frame = frame.outer
        known = frame.numbers[value]
        return _compute_late(frame, value) if known < 0 else known


@dataclass(frozen=True, eq=False, slots=True)
class Event:
    """A node that ran once; inputs and outputs are numbers of values of the run."""

    node: Node
    frame: Frame
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(eq=False)
class Run:
    """What happened, in order, and every value by its number."""

    engine: ProgramEngine
    dtype: str
    values: list[Any] = field(default_factory=list[Any])
    events: list[Event] = field(default_factory=list[Event])
    # what decided a branch or a loop, and what it decided
    choices: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    inputs: list[int] = field(default_factory=list[int])
    outputs: list[int] = field(default_factory=list[int])
    runner: Runner | None = None

    @property
    def results(self) -> list[Any]:
        """What the program gives."""
        return [self.values[number] for number in self.outputs]

    def add(self, value: Any) -> int:
        """The number of a new value."""
        self.values.append(value)
        return len(self.values) - 1


@dataclass(frozen=True)
class Changes:
    """Operands that are others, and nodes that are computed in another way: wherever they run."""

    operands: Mapping[Operand, Change] = field(default_factory=dict[Operand, Change])
    instead: Mapping[Node, Callable[[list[Any]], list[Any]]] = field(
        default_factory=dict[Node, Callable[[list[Any]], list[Any]]]
    )

    def concern(self, node: Node) -> bool:
        """Whether a node is computed otherwise whatever it reads."""
        return node in self.instead or any(
            (node, k) in self.operands for k in range(len(node.inputs))
        )

    def read(self, node: Node, inputs: Sequence[Any]) -> list[Any]:
        """What a node reads."""
        return [self.operands.get((node, k), _same)(value) for k, value in enumerate(inputs)]


def run(
    engine: ProgramEngine,
    program: Program,
    inputs: Sequence[Any],
    *,
    dtype: str = "",
    outer: Frame | None = None,
) -> Run:
    """Run a program on its inputs, in its own format or in another one; what it captured is the engine's."""
    made = Run(engine, dtype)
    given = [engine.cast(value, dtype) if dtype else value for value in inputs]
    if len(given) < len(program.inputs):
        given += engine.captured(program, dtype)
    made.inputs = list(map(made.add, given))
    made.outputs = Runner(made).run(program, made.inputs, outer, ())
    return made


class Runner:
    """Runs programs within one run."""

    def __init__(self, run: Run) -> None:
        self.made, self.engine = run, run.engine
        run.runner = self
        self._constants: dict[int, int] = {}
        self._special = {
            NodeKind.CALL: self.call,
            NodeKind.BRANCH: self.branch,
            NodeKind.LOOP: self._loop,
        }

    def run(
        self, program: Program, inputs: Sequence[int], outer: Frame | None, path: tuple[str, ...]
    ) -> list[int]:
        """The numbers of a program's outputs."""
        frame = Frame(self.made, program, [-1] * len(program.values), outer, path)
        for value, number in zip(program.inputs, inputs, strict=True):
            frame.numbers[value] = number
        for value, known in enumerate(program.values):
            if known.constant is not None:
                frame.numbers[value] = self._constant(known)
        for node in program.nodes:
            if node not in program.idle:
                self.run_node(node, frame)
        return [frame.numbers[value] for value in program.outputs]

    def run_node(self, node: Node, frame: Frame) -> None:
        """Run one node on what its frame has."""
        taken = tuple(frame.numbers[value] for value in node.inputs)
        found = self._special.get(node.kind, self.operation)(node, taken, frame)
        for value, number in zip(node.outputs, found, strict=True):
            frame.numbers[value] = number

    def _constant(self, value: Value) -> int:
        """The number of a constant, which is one in all runs of a body."""
        number = self._constants.get(id(value))
        if number is None or self.made.values[number] is None:
            tensor, dtype = value.constant, self.made.dtype
            number = self.made.add(self.engine.cast(tensor, dtype) if dtype else tensor)
            self._constants[id(value)] = number
        return number

    def run_late(self, node: Node, frame: Frame) -> None:
        """Run one node when a rule asks for what it gives: it is no event of the run."""
        before = len(self.made.events)
        self.run_node(node, frame)
        del self.made.events[before:]

    def operation(self, node: Node, taken: tuple[int, ...], frame: Frame) -> Iterable[int]:
        """Let the engine compute it."""
        values = [self.made.values[number] for number in taken]
        found = tuple(map(self.made.add, self.engine.run(node, values, self.made.dtype)))
        self.made.events.append(Event(node, frame, taken, found))
        return found

    def call(self, node: Node, taken: tuple[int, ...], frame: Frame) -> Iterable[int]:
        """Run its body."""
        title = node.bodies[0].title
        path = (*frame.path, title) if title else frame.path
        return self.run(node.bodies[0], taken, frame, path)

    def branch(self, node: Node, taken: tuple[int, ...], frame: Frame) -> Iterable[int]:
        """Run the body that is chosen."""
        chosen = self._choice(taken[0])
        last = len(node.bodies) - 1
        body = node.bodies[chosen if 0 <= chosen <= last else last]
        return self.run(body, taken[1:], frame, (*frame.path, body.title))

    def _loop(self, node: Node, taken: tuple[int, ...], frame: Frame) -> Iterable[int]:
        going_on, body = node.bodies
        values, step = list(taken), 1
        while True:
            path = (*frame.path, f"{body.title}, step {step}")
            if not self._choice(self.run(going_on, values, frame, path)[0]):
                return values
            values = self.run(body, values, frame, path)
            step += 1

    def _choice(self, number: int) -> int:
        chosen = self.engine.choice(self.made.values[number])
        self.made.choices.append((number, chosen))
        return chosen


def _compute_late(frame: Frame, value: int) -> int:
    """Run what makes a value that only a rule reads."""
    node = next(node for node in frame.program.nodes if value in node.outputs)
    for each in node.inputs:
        frame.number(0, each)
    (frame.made.runner or Runner(frame.made)).run_late(node, frame)
    return frame.numbers[value]


class AnotherWay(ValueError):
    """A change would take the run through other branches or more steps of a loop."""


def again(made: Run, changes: Changes) -> Callable[[int], Any]:
    """The values of a run with changes in it, by number: only what follows from them is computed."""
    new: dict[int, Any] = {}
    for event in made.events:
        if any(number in new for number in event.inputs) or changes.concern(event.node):
            before = [made.values[number] for number in event.inputs]
            taken = [new.get(number, made.values[number]) for number in event.inputs]
            taken = changes.read(event.node, taken)
            if event.node in changes.instead:
                found = changes.instead[event.node](taken)
            else:
                found = made.engine.run_changed(event.node, taken, before, made.dtype)
            new.update(zip(event.outputs, found, strict=True))
    for number, chosen in made.choices:
        if number in new and made.engine.choice(new[number]) != chosen:
            raise AnotherWay("another branch would be taken")
    return lambda number: new[number] if number in new else made.values[number]


def _same(value: Any) -> Any:
    return value
