"""What comes of running a function once, before it is checked."""

from dataclasses import dataclass
from types import CodeType
from typing import Any


@dataclass(frozen=True)
class Ran:
    """What a function gave; why it did not run, or what is wrong with its gradient at first sight.

    `gradients` has the shape of the gradient of each tensor of real or complex numbers among the arguments, nothing for
    one that has none. `counts` says how many gradients a rule returned for how many arguments, where the two differ.
    """

    result: Any
    refused: str = ""
    not_finite: bool = False
    fault: str = ""
    is_misshapen: bool = False
    gradients: tuple[tuple[int, ...] | None, ...] = ()
    counts: tuple[int, int] | None = None


@dataclass(frozen=True)
class Reached:
    """A function with a gradient of its own that was called, with what, and the code by which it is known."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    codes: tuple[CodeType, ...]
