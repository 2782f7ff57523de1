"""Arrays, and one operation of a function as a diagnosis speaks of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
