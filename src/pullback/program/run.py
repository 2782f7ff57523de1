"""A program run: forward with all its values, again with one change, and backward operation by operation.

A run is flat: calls are entered, loops unrolled, of branches there is the one that was taken. Loops and branches may be
single events as well, so that every run of a program has the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pullback.program.data import Node, NodeKind, Program
from pullback.program.protocol import Endures, ProgramEngine, Refused
from pullback.program.words import Word

Operand = tuple[Node, int]
Change = Callable[[Any], Any]
Compute = Callable[[list[Any]], list[Any]]

EVERY = frozenset({NodeKind.CALL, NodeKind.BRANCH, NodeKind.LOOP})
CALLS = frozenset({NodeKind.CALL})
ALL_BUT_LOOPS = EVERY - {NodeKind.LOOP}


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
        frame = self
        for _ in range(further_out):
            if frame.outer is None:
                raise LookupError("a rule reads what is not around its node")
            frame = frame.outer
        return frame.made.values[frame.number(value)]

    def number(self, value: int) -> int:
        """The number of a value in the run; a constant has one as soon as it is read, as has what no node needed."""
        if self.numbers[value] < 0:
            known = self.program.values[value]
            if known.constant is None:
                self._run_maker(value)
            else:
                self.numbers[value] = self.made.add_constant(known)
        return self.numbers[value]

    def _run_maker(self, value: int) -> None:
        node = next(node for node in self.program.nodes if value in node.outputs)
        (self.made.runner or Runner(self.made)).run_node(node, self)


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
    entered: frozenset[NodeKind] = EVERY
    values: list[Any] = field(default_factory=list[Any])
    events: list[Event] = field(default_factory=list[Event])
    # what decided a branch or a loop, and what it decided
    choices: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    constants: dict[int, Any] = field(default_factory=dict[int, Any])  # as the program has them
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

    def add_constant(self, value: Any) -> int:
        """The number of a value that is the same in every run."""
        tensor = value.constant
        number = self.add(self.engine.cast(tensor, self.dtype) if self.dtype else tensor)
        self.constants[number] = value
        return number


@dataclass(frozen=True)
class Changes:
    """Operands that are others, and nodes that are computed in another way: wherever they run."""

    operands: Mapping[Operand, Change] = field(default_factory=dict[Operand, Change])
    instead: Mapping[Node, Compute] = field(default_factory=dict[Node, Compute])

    def concern(self, node: Node) -> bool:
        """Whether a node is computed otherwise whatever it reads."""
        return node in self.instead or any(
            (node, k) in self.operands for k in range(len(node.inputs))
        )


def run_program(
    engine: ProgramEngine,
    program: Program,
    inputs: Sequence[Any],
    *,
    dtype: str = "",
    outer: Frame | None = None,
    entered: frozenset[NodeKind] = EVERY,
) -> Run:
    """Run a program on its inputs, in its own format or in another one; what it captured is the engine's."""
    made = Run(engine, dtype, entered)
    given = [engine.cast(value, dtype) if dtype else value for value in inputs]
    if len(given) < len(program.inputs):
        given += engine.captured(program, dtype)
    made.inputs = list(map(made.add, given))
    made.outputs = Runner(made).run(program, made.inputs, outer, ())
    return made


def run_whole(
    engine: ProgramEngine, node: Node, inputs: Sequence[Any], dtype: str, outer: Frame | None
) -> Run:
    """The run of a call, branch or loop by itself; loops in it are single events."""
    made = Run(engine, dtype, ALL_BUT_LOOPS)
    made.inputs = list(map(made.add, inputs))
    made.outputs = list(Runner(made).enter(node, tuple(made.inputs), outer, ()))
    return made


class Runner:
    """Runs programs within one run."""

    def __init__(self, run: Run) -> None:
        self.made, self.engine = run, run.engine
        run.runner = self
        self._entering = {
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
        for node in self.nodes_of(program):
            self.run_node(node, frame)
        return list(map(frame.number, program.outputs))

    def nodes_of(self, program: Program) -> Iterable[Node]:
        """The nodes that run in any case."""
        return program.nodes

    def run_node(self, node: Node, frame: Frame) -> None:
        """Run one node of a frame."""
        taken = tuple(map(frame.number, node.inputs))
        if node.kind in self.made.entered:
            found = self.enter(node, taken, frame, frame.path)
        else:
            found = self.compute(node, taken, frame)
        for value, number in zip(node.outputs, found, strict=True):
            frame.numbers[value] = number

    def enter(
        self, node: Node, taken: tuple[int, ...], outer: Frame | None, path: tuple[str, ...]
    ) -> Iterable[int]:
        """Run the programs of a node."""
        return self._entering[node.kind](node, taken, outer, path)

    def compute(self, node: Node, taken: tuple[int, ...], frame: Frame) -> Iterable[int]:
        """Let the engine compute a node."""
        values = [self.made.values[number] for number in taken]
        results = compute(self.engine, node, values, self.made.dtype, frame)
        found = tuple(map(self.made.add, results))
        self.made.events.append(Event(node, frame, taken, found))
        return found

    def call(
        self, node: Node, taken: tuple[int, ...], outer: Frame | None, path: tuple[str, ...]
    ) -> Iterable[int]:
        """Run the body of a call."""
        title = node.bodies[0].title
        return self.run(node.bodies[0], taken, outer, (*path, title) if title else path)

    def branch(
        self, node: Node, taken: tuple[int, ...], outer: Frame | None, path: tuple[str, ...]
    ) -> Iterable[int]:
        """Run the body that is chosen."""
        chosen = self._choice(taken[0])
        last = len(node.bodies) - 1
        body = node.bodies[chosen if 0 <= chosen <= last else last]
        return self.run(body, taken[1:], outer, (*path, body.title))

    def _loop(
        self, node: Node, taken: tuple[int, ...], outer: Frame | None, path: tuple[str, ...]
    ) -> Iterable[int]:
        going_on, body = node.bodies
        values, step = list(taken), 1
        while True:
            here = (*path, f"{body.title}, step {step}")
            if not self._choice(self.run(going_on, values, outer, here)[0]):
                return values
            values = self.run(body, values, outer, here)
            step += 1

    def _choice(self, number: int) -> int:
        chosen = self.engine.choice(self.made.values[number])
        self.made.choices.append((number, chosen))
        return chosen


def compute(
    engine: ProgramEngine, node: Node, inputs: Sequence[Any], dtype: str, outer: Frame | None
) -> list[Any]:
    """The results of a node, whatever it is."""
    if node.kind is NodeKind.OPERATION:
        return engine.run(node, inputs, dtype)
    results = engine.run_loop(node, inputs) if runs_as_one(node, dtype) else None
    return run_whole(engine, node, inputs, dtype, outer).results if results is None else results


def runs_as_one(node: Node, dtype: str, *, stops: bool = True) -> bool:
    """Whether a loop may be one operation of the engine: in its own format, with the engine's rules throughout."""
    return (
        node.kind is NodeKind.LOOP
        and not dtype
        and not any(
            one.has_rule or one.carries or (one.rule.kind == "stopped" and not stops)
            for _, one in inside(node)
        )
    )


class AnotherWay(ValueError):
    """A change would take the run through other branches or more steps of a loop."""


def again(made: Run, changes: Changes, events: Collection[Event] | None = None) -> Run:
    """A run with changes in it, its values by the same numbers: only what follows from them is computed.

    `events` are those that count, where not all do. An operand that is another one has a number of its own.
    """
    new = replace(made, values=list(made.values), events=list(made.events))
    changed = set[int]()
    for k, event in enumerate(made.events):
        if events is not None and event not in events:
            continue
        concerned = changes.concern(event.node)
        if not concerned and changed.isdisjoint(event.inputs):
            continue
        if concerned:
            event = new.events[k] = _with_operands(new, event, changes)
        taken = [new.values[number] for number in event.inputs]
        if event.node in changes.instead:
            found = changes.instead[event.node](taken)
        else:
            before = [made.values[number] for number in made.events[k].inputs]
            found = _changed(made, event, taken, before)
        for number, value in zip(event.outputs, found, strict=True):
            new.values[number] = value
        changed.update(event.outputs)
    for number, chosen in made.choices:
        if number in changed and made.engine.choice(new.values[number]) != chosen:
            raise AnotherWay("another branch would be taken")
    return new


def _with_operands(new: Run, event: Event, changes: Changes) -> Event:
    inputs = tuple(
        new.add(changes.operands[event.node, j](new.values[number]))
        if (event.node, j) in changes.operands
        else number
        for j, number in enumerate(event.inputs)
    )
    return replace(event, inputs=inputs)


def _changed(made: Run, event: Event, taken: list[Any], before: list[Any]) -> list[Any]:
    node, engine = event.node, made.engine
    if node.kind is NodeKind.OPERATION:
        return engine.run_changed(node, taken, before, made.dtype)
    if is_open(engine, node) or not all(map(engine.has_form_of, taken, before)):
        raise Refused(f"{node.op} is run on nothing but what the program gives it")
    return compute(engine, node, taken, made.dtype, event.frame)


# what other numbers may do inside of a node


def inside(node: Node) -> Iterator[tuple[Program, Node]]:
    """The nodes that a node runs, with their programs."""
    for program in node.bodies:
        for one in program.nodes:
            yield program, one
            yield from inside(one)


def is_open(engine: ProgramEngine, node: Node) -> bool:
    """Whether other numbers may do more inside of a node than change its results."""
    nodes = [pair for pair in inside(node) if pair[1].kind is NodeKind.OPERATION]
    endured = {engine.endures(one) for _, one in nodes}
    indexed = any(_is_index_of_number(engine, *pair) for pair in nodes)
    return (
        runs_until(node) or Endures.FINITE in endured or (indexed and Endures.SAME_FORM in endured)
    )


def runs_until(node: Node) -> bool:
    """Whether a node has a loop that goes on until numbers meet a condition."""
    loops = [one for _, one in inside(node) if one.kind is NodeKind.LOOP]
    return any(map(_reads_numbers, [node, *loops] if node.kind is NodeKind.LOOP else loops))


def _reads_numbers(loop: Node) -> bool:
    condition = loop.bodies[0]
    every = [(condition, one) for one in condition.nodes]
    every += [pair for one in condition.nodes for pair in inside(one)]
    return any(is_number(program.values[v].dtype) for program, one in every for v in one.inputs)


def _is_index_of_number(engine: ProgramEngine, program: Program, node: Node) -> bool:
    if engine.words.get(node.op) is not Word.CAST:
        return False
    given, made = (program.values[v[0]].dtype for v in (node.inputs, node.outputs))
    return is_number(given) and "int" in made


def is_number(dtype: str) -> bool:
    """Whether numbers with a fraction are in a format."""
    return "float" in dtype or "complex" in dtype
