"""`pb.inputs`: with what a function is to be checked, said beside it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pullback._reach import unwrapped
from pullback.errors import CheckError

F = TypeVar("F", bound=Callable[..., Any])
_ATTRIBUTE = "__pullback_inputs__"


@dataclass(frozen=True)
class Inputs:
    """Arguments and options of the check of one function; as a decorator, it leaves the function as it is."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ignore: str = ""

    @property
    def gives_arguments(self) -> bool:
        """Whether it holds arguments, besides options."""
        return bool(self.args or self.kwargs)

    def __call__(self, function: F) -> F:
        """Note it on a function, and on what the function is wrapped around."""
        if not callable(function):
            raise CheckError(
                f"pb.inputs(...) goes above a function or beside its name in pullback_inputs; got {function!r}."
            )
        for one in unwrapped(function):
            with contextlib.suppress(AttributeError, TypeError):
                setattr(one, _ATTRIBUTE, self)
        return function


def inputs(
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    against: Any = None,
    wrt: Any = None,
    domain: Any = None,
    order: int | None = None,
    tolerance: float | None = None,
    ignore: Any = None,
    **others: Any,
) -> Inputs:
    """With what `pullback check` checks a function: arguments, and the options of `pb.check`; written above it.

    `ignore` is the reason why a function is not to be checked: it has a line in the output, and fails no build.
    The same serves as a value of `pullback_inputs`.

    >>> @pb.inputs(tf.constant([0.3, 1.7]), against=tf.identity)
    ... @pb.custom_gradient
    ... def rounded(x):
    ...     return tf.round(x), lambda dy: dy
    >>> rounded(tf.constant(0.3)).numpy().item()
    0.0
    """
    options = {
        "against": against, "wrt": wrt, "domain": domain, "order": order, "tolerance": tolerance,
    }  # fmt: skip
    if others:
        known = ", ".join(["kwargs", *options, "ignore"])
        raise CheckError(
            f"pb.inputs has no option {', '.join(map(repr, others))}; there are {known}. Keyword arguments of "
            f"the function go together: kwargs={_written(others)}."
        )
    if ignore is not None:
        require_reason(ignore)
    given = {name: value for name, value in options.items() if value is not None}
    return Inputs(args, dict(kwargs or {}), given, ignore or "")


def require_reason(ignore: Any) -> None:
    """Refuse to leave a function out without saying why."""
    if not isinstance(ignore, str) or not ignore.strip():
        raise CheckError(f"ignore is the reason, in words; got {ignore!r}.")


def _written(arguments: Mapping[str, Any]) -> str:
    """A dict as it is written, with what is long left out."""
    texts = {name: repr(value) for name, value in arguments.items()}
    inside = (f'"{name}": {text if len(text) <= 20 else "..."}' for name, text in texts.items())
    return f"{{{', '.join(inside)}}}"


def inputs_of(function: Any) -> Inputs | None:
    """What was said above a function, if anything was."""
    found = (getattr(one, _ATTRIBUTE, None) for one in unwrapped(function))
    return next((one for one in found if isinstance(one, Inputs)), None)
