"""A traced function as data: operations in the order in which they run, with the functions and branches they run.

A program takes all that it reads: nothing is closed over. What reads another program's values is handed them.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

RuleKind = Literal["engine", "custom", "pullback", "override", "none", "stopped", "unrecorded"]


class NodeKind(enum.Enum):
    """What running a node means."""

    OPERATION = enum.auto()  # the engine computes it
    CALL = enum.auto()  # its body runs on its inputs
    BRANCH = enum.auto()  # the body that its first input chooses runs on the others
    LOOP = enum.auto()  # its second body runs on its inputs for as long as the first one says so


@dataclass(frozen=True, slots=True)
class Place:
    """A line that the user wrote."""

    file: str
    line: int
    code: str = ""  # the text of the line
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Rule:
    """Whose gradient runs at a node.

    `engine`: the framework's own; `custom`: somebody's, by the framework's means; `pullback`: defined with pullback;
    `override`: put there by an override, whose target is named; `none`: there is none for this operation; `stopped`: it
    is there to stop gradients; `unrecorded`: it ran while recording was stopped.
    """

    kind: RuleKind
    name: str = ""
    place: Place | None = None
    target: str = ""

    @property
    def is_somebodys(self) -> bool:
        """Whether somebody wrote it for this place."""
        return self.kind in ("custom", "pullback", "override")

    @property
    def passes_nothing(self) -> bool:
        """Whether no gradient passes."""
        return self.kind in ("none", "stopped", "unrecorded")


@dataclass(frozen=True, slots=True)
class Value:
    """What an operation reads or gives."""

    shape: tuple[int | None, ...] | None
    dtype: str
    name: str = ""  # of an argument or variable
    constant: Any = None  # a tensor of the engine, where it is the same in every run
    place: Place | None = None  # of a constant: the line that has it


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Node:
    """One operation of a program. Two nodes are the same only if they are one object.

    A custom gradient is a node `(raw results…, arguments…) → results` of as many raw results as it `carries`: what
    the function computed and what it was given, so that its rule can be left out or run.
    """

    kind: NodeKind
    op: str  # the engine's word
    name: str  # in the program
    inputs: tuple[int, ...]  # values of the program
    outputs: tuple[int, ...]
    rule: Rule
    place: Place | None = None
    layer: tuple[str, ...] = ()  # the layers around it, outermost first
    bodies: tuple[Program, ...] = ()
    carries: int = 0
    has_rule: bool = False  # a gradient of its own, other than that of its type
    raw: Any = None  # what the engine knows it by


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Program:
    """Nodes in the order in which they run; inputs and outputs are values. The last inputs are what was captured."""

    title: str
    nodes: tuple[Node, ...]
    values: tuple[Value, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    captured: tuple[Any, ...] = ()  # for the last of the inputs: tensors of the engine
    idle: frozenset[Node] = (
        frozenset()
    )  # what neither the outputs nor an effect need, but a rule may


@dataclass(frozen=True, eq=False, slots=True)
class RuleBody:
    """The gradient of one node as a program.

    It takes an upstream gradient for each result of the node, then values of the programs around the node: how many
    programs further out, and which. `gradients` says for each input of the node which outputs of the program make
    its gradient: one, those of a sparse gradient, or none.
    """

    program: Program
    reads: tuple[tuple[int, int], ...]
    gradients: tuple[Sequence[int] | None, ...]
