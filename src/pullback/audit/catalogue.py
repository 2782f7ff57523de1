"""What an engine tells of its framework for an audit: what there is, and calls of it as code with inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pullback.check.probe import Array


class NotCallable(Exception):
    """No call was found that runs; the text says why."""


@dataclass(frozen=True)
class Case:
    """One call: an expression in which the inputs are names, what is made before it, and the inputs.

    `what` says what is special about it. `thorough` asks for points of the check's own, `second` for the gradient of
    the gradient, `explain` for a diagnosis, which costs most of the time.
    """

    call: str
    inputs: Mapping[str, Array]
    what: str
    setup: str = ""
    thorough: bool = False
    second: bool = False
    explain: bool = True


class Catalogue(Protocol):
    """What a framework differentiates by itself."""

    @property
    def version(self) -> str:
        """The framework and its version."""
        ...

    def names(self) -> Sequence[str]:
        """Everything that is to be audited, under the names that a user writes."""
        ...

    def aliases(self, name: str) -> Sequence[str]:
        """Other names of the same function."""
        ...

    def listed_as(self, name: str) -> str:
        """The one of `names` that means the same as any name that a user may write; empty where none does."""
        ...

    def cases(self, name: str, *, careful: bool = False) -> Sequence[Case]:
        """Calls that run, the plainest first; raises `NotCallable`. Careful ones avoid what may end the process."""
        ...

    def function(self, case: Case, *, second: bool = False) -> tuple[Any, Sequence[Any]]:
        """A call, or the gradient of a call with fixed upstreams, as a function and its arguments."""
        ...

    def operations(self, case: Case) -> Sequence[str]:
        """The operations that a call runs, as names of the catalogue."""
        ...

    def script(
        self,
        case: Case,
        blamed: str,
        *,
        weighted: bool = False,
        second: bool = False,
        together: bool = False,
    ) -> str:
        """A program of the framework and NumPy alone that prints the gradient for one input beside differences.

        It leaves `f`, the input and `got` behind. With weights, outputs are added up with weights that differ. With
        `together`, all numbers of the input are moved at once, by a number `move`.
        """
        ...

    def by_design(self, name: str) -> str:
        """Why the gradient is meant to be no derivative; empty where it is meant to be one."""
        ...

    def mended_by(self, name: str) -> str:
        """The ready-made function of pullback that is right where this is wrong; empty where there is none."""
        ...
