"""What cannot be checked, and why: the same words for every engine."""

from collections.abc import Sequence
from typing import Any

from pullback.check.probe import Leaf
from pullback.errors import CheckError


def require_function(fn: Any) -> str:
    """The name of what is to be checked, which can be called."""
    if not callable(fn):
        raise CheckError(
            f"the first argument of check is the function to check; got {type(fn).__name__}. "
            "Write `pb.check(fn, *args)`."
        )
    if isinstance(fn, type) and any("__call__" in vars(kind) for kind in fn.__mro__):
        raise CheckError(
            f"{fn.__name__} is a class, and its instances are what is called. Write "
            f"`pb.check({fn.__name__}(...), *args)`."
        )
    name = getattr(fn, "__name__", None) or getattr(fn, "name", None) or type(fn).__name__
    return name.decode() if isinstance(name, bytes) else str(name)


def require_known(name: str, wrt: Sequence[str] | None, leaves: Sequence[Leaf]) -> None:
    """Every name in `wrt` means an input."""
    for wanted in wrt or ():
        if not any(leaf.is_meant(wanted) for leaf in leaves):
            offered = ", ".join(leaf.name for leaf in leaves) or "there are none"
            raise CheckError(
                f"wrt={wanted!r} names no input of {name} that can be moved. Those are: {offered}."
            )


def require_movable(name: str, inputs: Sequence[Leaf], given: str) -> None:
    if not any(leaf.size for leaf in inputs):
        raise CheckError(
            f"{name} takes nothing differentiable: it was given {given or 'no arguments'}. "
            "Pass at least one floating-point tensor that is not empty: integers, booleans and "
            "Python numbers are held fixed."
        )


def raised(name: str, error: BaseException, given: str, text: str) -> CheckError:
    return CheckError(
        f"{name} raised {type(error).__name__} when called with the given arguments ({given}): "
        f"{text}"
    )


def no_output(name: str, came: str) -> CheckError:
    return CheckError(
        f"{name} returns no floating-point tensor, so it has no gradient; it returned {came}."
    )


def not_repeatable(name: str, seeding: str) -> CheckError:
    """The function is random, and cannot be held fixed."""
    return CheckError(
        f"{name} gives another value each time it is called with the same arguments, even with "
        f"{seeding}. Make its randomness an argument: a seed, or the random tensor itself."
    )
