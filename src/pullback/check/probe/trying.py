"""What comes of running a function once, before it is checked."""

from dataclasses import dataclass
from types import CodeType
from typing import Any


@dataclass(frozen=True)
class Ran:
    """What a function gave; why it did not run, or what is wrong with its gradient at first sight.

    `gradients` has the shape of the gradient of each tensor of real or complex numbers among the arguments, nothing for
    one that has none. A rule that `never_fits` takes or gives another number of gradients than there are, or cannot
    be called at all, whatever the arguments.
    """

    result: Any
    refused: str = ""
    not_finite: bool = False
    fault: str = ""
    is_misshapen: bool = False
    gradients: tuple[tuple[int, ...] | None, ...] = ()
    never_fits: bool = False


@dataclass(frozen=True)
class Reached:
    """A function with a gradient of its own that was called, with what, and the code by which it is known."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    codes: tuple[CodeType, ...]
