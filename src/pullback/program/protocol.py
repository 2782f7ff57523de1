"""What an engine does so that programs can be traced, run and differentiated. Tensors are the engine's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pullback.program.data import Node, Program, RuleBody


class ProgramEngine(Protocol):
    """What an engine does for programs. A `dtype` is a word, such as "float64"; empty for the program's own."""

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
        """The same for inputs that nobody meant, where that can do no more than raise; `before` are ordinary ones."""
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

    def rule(self, node: Node) -> RuleBody:
        """The gradient that somebody wrote for a node."""
        ...

    def gradient(self, node: Node, which: int, parts: Sequence[Any]) -> Any:
        """The gradient of an input as outputs of its rule make it: a tensor, or a sparse one of several."""
        ...

    def choice(self, tensor: Any) -> int:
        """Which body a branch takes; of a loop, whether it goes on."""
        ...

    def add(self, tensors: Sequence[Any]) -> Any:
        """The sum of the gradients that arrived at a value."""
        ...

    def zeros(self, like: Any) -> Any:
        """A gradient of zeros."""
        ...

    def cast(self, tensor: Any, dtype: str) -> Any:
        """A tensor in another format, if it holds numbers with a fraction."""
        ...
