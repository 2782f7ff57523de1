"""What a program says of its values, or one run of it: where they come from, and what they are compared with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from pullback.program.data import Node, NodeKind, Program, Value
from pullback.program.protocol import ProgramEngine
from pullback.program.run import Run, is_number
from pullback.program.words import (
    BOUNDS,
    COMPARES,
    EVEN,
    INVERSE,
    INVERSE_WITH,
    KINKS,
    PASSES,
    Word,
)

# How many operations may lie between a comparison and its constant, and between it and the input that it is about.
_TO_CONSTANT, _TO_INPUT = 4, 6


class Step(Protocol):
    """A node with numbers for what it reads and gives."""

    @property
    def node(self) -> Node:
        """The node."""
        ...

    @property
    def inputs(self) -> tuple[int, ...]:
        """Numbers of what it reads."""
        ...

    @property
    def outputs(self) -> tuple[int, ...]:
        """Numbers of what it gives."""
        ...


class _Step(NamedTuple):
    node: Node
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass
class View:
    """Steps in order, the inputs of the program, and what is known of values, by number."""

    engine: ProgramEngine
    inputs: Sequence[int]
    steps: list[Step] = field(default_factory=list[Step])
    values: dict[int, Value] = field(default_factory=dict[int, Value])
    makers: dict[int, Step] = field(default_factory=dict[int, Step])

    def word(self, step: Step | None) -> Word:
        """What a step means; of none, nothing that is known."""
        if step is None or step.node.kind is not NodeKind.OPERATION:
            return Word.OTHER
        return self.engine.words.get(step.node.op, Word.OTHER)

    def maker_word(self, number: int) -> Word:
        """What the step means that a value comes from."""
        return self.word(self.makers.get(number))

    def add(self, step: Step) -> None:
        """One more step."""
        self.steps.append(step)
        self.makers.update(dict.fromkeys(step.outputs, step))

    def needed(self, numbers: Iterable[int]) -> set[int]:
        """All values that these come from, and themselves."""
        found, left = set[int](), list(numbers)
        while left:
            number = left.pop()
            if number not in found:
                found.add(number)
                left += self.makers[number].inputs if number in self.makers else ()
        return found

    def depending(self, numbers: Iterable[int]) -> set[int]:
        """All values that depend on one of these, variables that they are written to among them."""
        found = set(numbers)
        for step in self.steps:
            if not found.isdisjoint(step.inputs):
                found.update(step.outputs)
                if self.word(step) is Word.WRITE:
                    found.add(step.inputs[0])
        return found

    def origin(self, number: int) -> int:
        """The value that one has its numbers from."""
        while self.maker_word(number) in PASSES:
            number = self.makers[number].inputs[0]
        return number

    def constant(self, number: int, depth: int = _TO_CONSTANT) -> float | None:
        """The one number that a constant holds, a few operations away."""
        value = self.values.get(number)
        if depth == 0 or (value is not None and value.constant is not None):
            return _scalar(self.engine, value) if depth and value else None
        word = self.maker_word(number)
        if word is Word.FILL:
            return self.constant(self.makers[number].inputs[1], depth - 1)
        passes = word in PASSES
        return self.constant(self.makers[number].inputs[0], depth - 1) if passes else None

    def format(self, number: int) -> str:
        """The format of a value."""
        return self.values[number].dtype


def flat(engine: ProgramEngine, program: Program) -> View:
    """A program with all that it runs: calls in their place, every branch, and each loop once."""
    view = View(engine, ())
    numbers = [_new(view, program.values[value]) for value in program.inputs]
    view.inputs = numbers
    _enter(view, program, numbers)
    return view


def view_of(made: Run) -> View:
    """What ran."""
    view = View(made.engine, made.inputs)
    view.values.update(made.constants)
    for event in made.events:
        view.add(event)
        known = event.frame.program.values
        for values, numbers in (
            (event.node.inputs, event.inputs),
            (event.node.outputs, event.outputs),
        ):
            for value, number in zip(values, numbers, strict=True):
                view.values.setdefault(number, known[value])
    return view


def _new(view: View, value: Value) -> int:
    view.values[number := len(view.values)] = value
    return number


def _enter(view: View, program: Program, inputs: Sequence[int]) -> list[int]:
    numbers: dict[int, int] = dict(zip(program.inputs, inputs, strict=True))

    def number(value: int) -> int:
        if value not in numbers:
            numbers[value] = _new(view, program.values[value])
        return numbers[value]

    for node in program.nodes:
        taken = tuple(map(number, node.inputs))
        if node.kind is NodeKind.CALL:
            numbers.update(zip(node.outputs, _enter(view, node.bodies[0], taken), strict=True))
            continue
        for body in node.bodies:
            _enter(view, body, list(_given(view, node, body, taken)))
        view.add(_Step(node, taken, tuple(map(number, node.outputs))))
    return list(map(number, program.outputs))


def _given(view: View, node: Node, body: Program, taken: Sequence[int]) -> Iterator[int]:
    """What a branch is given; of a loop, only what stays the same in all steps is what it began with."""
    if node.kind is NodeKind.BRANCH:
        yield from taken[1:]
        return
    steps = node.bodies[-1]
    for k, (number, value) in enumerate(zip(taken, body.inputs, strict=True)):
        stays = steps.outputs[k] == steps.inputs[k]
        yield number if stays else _new(view, body.values[value])


def _scalar(engine: ProgramEngine, value: Value) -> float | None:
    array = engine.array(value.constant)
    if array is None or array.dtype.kind not in "fiuV" or array.size == 0:
        return None
    numbers = array.ravel()
    # str() gives 0.1 for the float32 nearest to it, which is what the author wrote
    return float(str(numbers[0])) if np.all(numbers == numbers[0]) else None


# what values are compared with


def branches(view: View) -> bool:
    """Whether something is chosen or compared, or bent at a place."""
    return any(
        step.node.kind is NodeKind.BRANCH
        or view.word(step) is Word.CHOOSE
        or view.word(step) in KINKS
        or _compares_values(view, step)
        for step in view.steps
    )


def compared_with(view: View) -> Iterator[float]:
    """The constants that values are compared with, and the inputs at which they are met."""
    for step in view.steps:
        if _compares_values(view, step):
            values = [view.constant(number) for number in step.inputs]
            moving = [n for n, value in zip(step.inputs, values, strict=True) if value is None]
            for value in (v for v in values if v is not None) if moving else ():
                yield value
                yield _back(view, moving[0], value)
        else:
            yield from KINKS.get(view.word(step), ())


def _compares_values(view: View, step: Step) -> bool:
    """A comparison of numbers, or of integers made of numbers: others count loops, lengths and classes."""
    if view.word(step) not in COMPARES | BOUNDS:
        return False
    counts = "int" in view.format(step.inputs[0])
    return not counts or any(_is_rounded(view, number) for number in step.inputs)


def _is_rounded(view: View, number: int, depth: int = _TO_INPUT) -> bool:
    """Whether an integer was made of a number a few operations before."""
    step = view.makers.get(number)
    if step is None or depth == 0:
        return False
    if view.word(step) is Word.CAST:
        return is_number(view.format(step.inputs[0]))
    return any(_is_rounded(view, one, depth - 1) for one in step.inputs)


def _back(view: View, number: int, value: float, depth: int = _TO_INPUT) -> float:
    """The input value at which an element-wise chain meets `value`, as far as it can be undone."""
    try:
        step = None if depth == 0 else _undone(view, number, value)
    except (ValueError, ZeroDivisionError, OverflowError):
        return value
    return value if step is None else _back(view, *step, depth - 1)


def _undone(view: View, number: int, value: float) -> tuple[int, float] | None:
    """The operand that moves, and where it must be for the result to be `value`; `None` for other operations."""
    word, step = view.maker_word(number), view.makers.get(number)
    if step is None:
        return None
    if word in PASSES:
        return step.inputs[0], value
    if word in INVERSE:
        return step.inputs[0], INVERSE[word](value)
    if _is_square(view, number):
        return step.inputs[0], math.sqrt(value)
    if word not in INVERSE_WITH:
        return None
    undo = INVERSE_WITH[word]
    match [view.constant(operand) for operand in step.inputs]:
        case [_, float(constant)]:
            return step.inputs[0], undo(value, constant)
        case [float(constant), None]:
            subtracts = word is Word.SUBTRACT
            return step.inputs[1], constant - value if subtracts else undo(value, constant)
        case _:
            return None


def _is_square(view: View, number: int) -> bool:
    """Whether a value is another one multiplied with itself."""
    if view.maker_word(number) is not Word.MULTIPLY:
        return False
    a, b = view.makers[number].inputs
    return a == b


@dataclass(frozen=True)
class Turn:
    """Two values that are compared, or one with zero, and whether the place where they are equal is meant."""

    left: int
    right: int | None
    exact: bool


def turns(view: View, moved: Iterable[int]) -> Iterator[Turn]:
    """The comparisons that turn where a computed value, or one that is asked for exactly, is met.

    Only those that somebody wrote count; other thresholds are constants.
    """
    active, known = view.depending(moved), set[tuple[int, int]]()
    for step in view.steps:
        word = view.word(step)
        if word not in COMPARES | {Word.BOUND} or step.node.place is None:
            continue
        left, right = map(view.origin, step.inputs)
        moving = [number for number in (left, right) if number in active]
        numbers = all("float" in view.format(number) for number in step.inputs)
        if not moving or (left, right) in known or not numbers:
            continue
        known.add((left, right))
        exact = word is Word.MATCH
        given = moving[0] not in view.makers or view.maker_word(moving[0]) is Word.READ
        if len(moving) > 1 or not given or (exact and not _has_zero(view, step)):
            yield Turn(step.inputs[0], step.inputs[1], exact)
        for number in moving:
            if view.maker_word(number) in EVEN or _is_square(view, number):
                yield Turn(view.makers[number].inputs[0], None, True)


def _has_zero(view: View, step: Step) -> bool:
    """Whether a side is the constant zero, to which every check goes."""
    return any(view.constant(number) == 0 for number in step.inputs)


def formats(view: View) -> set[str]:
    """All formats in a program."""
    return {value.dtype for value in view.values.values()}


def is_somebodys(view: View) -> bool:
    """Whether a gradient that somebody wrote is at work."""
    return any(step.node.rule.is_somebodys for step in view.steps)
