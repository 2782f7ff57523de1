"""`pullback_inputs`: arguments for the functions of a module, given beside them; and calls to try without it."""

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from pullback._inputs import Inputs
from pullback.cli.guess import guesses
from pullback.errors import CheckError

NAME = "pullback_inputs"
Call = tuple[tuple[Any, ...], dict[str, Any]]


def names_given(module: ModuleType) -> list[str]:
    """The names for which `pullback_inputs` holds something, as far as it tells without being asked."""
    inputs = getattr(module, NAME, None)
    if inputs is not None and not callable(inputs) and not isinstance(inputs, Mapping):
        raise CheckError(
            f"{NAME} is a dict by function name or a function of the name; got "
            f"{type(inputs).__name__}."
        )
    return list(inputs) if isinstance(inputs, Mapping) else []


def given(module: ModuleType, name: str) -> Call | None:
    """The arguments that `pullback_inputs` gives, if it does."""
    found = said_beside(module, name)
    return (found.args, dict(found.kwargs)) if found and found.gives_arguments else None


def said_beside(module: ModuleType, name: str) -> Inputs | None:
    """What `pullback_inputs` beside a function says: a dict by name, or a function of the name."""
    names_given(module)
    inputs = getattr(module, NAME, None)
    try:
        found = inputs(name) if callable(inputs) else (inputs or {}).get(name)
        found = found() if callable(found) and not isinstance(found, Inputs) else found
    except Exception as error:
        raise CheckError(f"{NAME} raised {type(error).__name__}: {error}") from error
    return found if found is None or isinstance(found, Inputs) else _inputs(found)


def _inputs(found: Any) -> Inputs:
    """A dict holds keyword arguments, a tuple or list positional ones, a tuple and a dict both."""
    if isinstance(found, dict):
        return Inputs(kwargs=found)
    if not isinstance(found, tuple | list):
        return Inputs((found,))
    both = len(found) == 2 and isinstance(found[0], tuple | list) and isinstance(found[1], dict)
    return Inputs(tuple(found[0]), found[1]) if both else Inputs(tuple(found))


def tried(function: Any) -> Iterator[Call]:
    """Calls to try, the likeliest first."""
    for guess in guesses(function):
        yield guess.args, guess.kwargs
