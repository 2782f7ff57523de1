"""What an engine does so that programs can be traced, run and differentiated. Tensors are the engine's own."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from pullback.program.data import Node, Program, RuleBody
from pullback.program.words import Word

Array = NDArray[Any]


class Refused(ValueError):
    """An operation is not run, because it might end the process, or not end."""


class Endures(enum.Enum):
    """Which other operands an operation may be given: it computes with them, or raises."""

    ANY = enum.auto()
    SAME_FORM = enum.auto()  # which differ in no more than numbers with a fraction
    FINITE = enum.auto()  # of the same form, and finite


@dataclass(frozen=True)
class Alternative:
    """Another way to take an operation, in words that have a place for what it is called."""

    how: str
    run: Callable[[list[Any]], list[Any]]


class ProgramEngine(Protocol):
    """What an engine does for programs. A `dtype` is a word, such as "float64"; empty for the program's own."""

    @property
    def words(self) -> Mapping[str, Word]:
        """What operations mean, by the engine's word for them."""
        ...

    @property
    def refusals(self) -> tuple[type[Exception], ...]:
        """What operations raise for operands that do not fit."""
        ...

    def trace(
        self, function: Callable[..., Any], args: Sequence[Any], *, seen: bool = False
    ) -> Program:
        """The program of a function of tensors: traced without values, or `seen` while it runs."""
        ...

    def captured(self, program: Program, dtype: str) -> list[Any]:
        """What a program captured, for one run: copies of what the run might write."""
        ...

    def run(self, node: Node, inputs: Sequence[Any], dtype: str) -> list[Any]:
        """The results of an operation."""
        ...

    def run_changed(
        self, node: Node, inputs: Sequence[Any], before: Sequence[Any], dtype: str
    ) -> list[Any]:
        """The same for other inputs than the ordinary ones, `before`; refused where that might do more than raise."""
        ...

    def endures(self, node: Node) -> Endures:
        """Which other operands an operation may be given."""
        ...

    def has_form_of(self, tensor: Any, other: Any, /) -> bool:
        """Whether two tensors differ in no more than numbers with a fraction."""
        ...

    def alternatives(self, node: Node, inputs: Sequence[Any]) -> Sequence[Alternative]:
        """Other ways to take an operation: other axes, options, the order of operands, another one of its family."""
        ...

    def vjp(
        self,
        node: Node,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        upstream: Sequence[Any],
        dtype: str,
    ) -> list[Any]:
        """The gradients of an operation's inputs by the engine's own rule; upstream is `None` where nothing arrived."""
        ...

    def run_loop(self, node: Node, inputs: Sequence[Any]) -> list[Any] | None:
        """The results of a loop as one operation, in its own format; nothing where the engine cannot."""
        ...

    def loop_vjp(
        self, node: Node, inputs: Sequence[Any], upstream: Sequence[Any]
    ) -> list[Any] | None:
        """The gradients of its inputs by the engine's own rules; nothing where the engine cannot."""
        ...

    def jvp(
        self,
        node: Node,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        tangents: Sequence[Any],
        dtype: str,
    ) -> list[Any]:
        """The tangents of an operation's results; a tangent is `None` where nothing moves."""
        ...

    def second(
        self,
        node: Node,
        inputs: Sequence[Any],
        upstream: Sequence[Any],
        directions: Sequence[Any],
        dtype: str,
    ) -> list[Any]:
        """The gradients of ⟨directions, `vjp`⟩ by an operation's inputs; a direction is `None` where there is none."""
        ...

    def misread(
        self, node: Node, inputs: Sequence[Any], upstream: Sequence[Any]
    ) -> Sequence[tuple[str, Sequence[Any]]]:
        """How an operation's derivative may be taken wrongly, and the gradients of its inputs that follow."""
        ...

    def rule(self, node: Node) -> RuleBody:
        """The gradient that somebody wrote for a node."""
        ...

    def gradient(self, node: Node, which: int, parts: Sequence[Any]) -> Any:
        """The gradient of an input as outputs of its rule make it: a tensor, or a sparse one of several."""
        ...

    def choice(self, tensor: Any) -> int:
        """Which body a branch takes; of a loop, whether it goes on."""
        ...

    def array(self, tensor: Any) -> Array | None:
        """The numbers of a tensor, in their own format; nothing for what holds none."""
        ...

    def tensor(self, array: Array, like: Any) -> Any:
        """A tensor of these numbers in the format of another one."""
        ...

    def add(self, tensors: Sequence[Any], /) -> Any:
        """The sum of the gradients that arrived at a value."""
        ...

    def zeros(self, like: Any, /) -> Any:
        """A gradient of zeros."""
        ...

    def cast(self, tensor: Any, dtype: str) -> Any:
        """A tensor in another format, if it holds numbers with a fraction."""
        ...
