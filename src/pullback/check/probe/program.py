"""The programs of a function and of its rule, operation by operation, as a diagnosis asks for them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

Array = NDArray[Any]
Arrays = Sequence[Array]


@dataclass(frozen=True)
class Step:
    """One operation of the function's program: its source line, what its inputs and its result are called there.

    Inputs are those that depend on the arguments; `origins` has the step and which of its results each comes from, or
    −1 and the number of the argument, or −2 for a step that is left out. A name is empty where the source has none.
    """

    op: str
    line: str
    place: str
    inputs: tuple[str, ...]
    output: str
    origins: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class StepValues:
    """What goes into and comes out of every step, the cotangents of what comes out, and what holders hold."""

    inputs: Sequence[Arrays]
    outputs: Sequence[Arrays]
    cotangents: Sequence[Arrays]
    held: Sequence[Arrays]


class Steps(Protocol):
    """The program of a function, operation by operation, for slips to be made in its derivative.

    `holders` are those with operands that do not depend on the arguments: constants, masks, indices, axes.
    """

    steps: tuple[Step, ...]
    holders: tuple[Step, ...]

    def values(self, xs: Arrays, ws: Arrays) -> StepValues:
        """What every step computes, and what flows back to it from upstream gradients."""
        ...

    def local(
        self, xs: Arrays, inputs: Sequence[Arrays], cotangents: Sequence[Arrays]
    ) -> Sequence[Arrays]:
        """The cotangents of its inputs that each step alone makes, at other values and for other cotangents."""
        ...

    def tangents(self, xs: Arrays, us: Arrays) -> Sequence[Arrays]:
        """How the inputs of the steps move when the arguments move by `us`."""
        ...

    def variants(
        self, xs: Arrays, values: StepValues
    ) -> Sequence[Sequence[tuple[str, Sequence[Array]]]]:
        """For each step, how an option of it may be taken wrongly, and the cotangents of its inputs that follow."""
        ...

    def altering(
        self, xs: Arrays, ws: Arrays, held: Sequence[Arrays]
    ) -> Callable[[Sequence[Arrays]], list[Array]]:
        """The gradients as a function of what the holders hold, which is `held`; it raises where that is refused."""
        ...

    def swept(
        self,
        xs: Arrays,
        ws: Arrays,
        inputs: Sequence[Arrays],
        factors: Sequence[Arrays],
        own: Sequence[Arrays],
    ) -> list[Array]:
        """The gradients if steps are differentiated at `inputs`, with factors of what they make and get."""
        ...

    def pull(self, xs: Arrays, changes: Sequence[Arrays]) -> list[Array]:
        """What is added to the gradients if the cotangents of the steps' inputs change by this much."""
        ...
