"""Objects by module and qualified name: how pickles and files refer to functions."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from typing import Any, NamedTuple


def names_without_folders(names: dict[str, Any]) -> list[str]:
    """The public names of a package, for its `__dir__`, without the folders in which they lie."""
    return sorted(n for n, v in names.items() if not (n.startswith("_") or inspect.ismodule(v)))


class Reference(NamedTuple):
    """Where an object is to be found."""

    module: str
    name: str


def reference_to(value: Any) -> Reference:
    """The module and qualified name that an object says of itself; whether they lead to it is another question."""
    module = getattr(value, "__module__", None) or type(value).__module__
    return Reference(module, getattr(value, "__qualname__", ""))


def find(reference: Reference) -> Any:
    """What a module that is loaded holds under the name; `None` where there is nothing."""
    try:
        return functools.reduce(getattr, reference.name.split("."), sys.modules[reference.module])
    except (KeyError, AttributeError):
        return None


def find_for_trusted_file(reference: Reference) -> Any:
    """As `find`, with the module imported where it is not yet, which runs its code: for files that somebody trusts.

    No module of Python itself, which holds no rules, is imported for it, and what a module has only imported from
    elsewhere does not count.
    """
    found = find(reference)
    package = reference.module.partition(".")[0]
    if found is not None or package in sys.stdlib_module_names:
        return found
    try:
        importlib.import_module(reference.module)
    except ImportError:
        return None
    found = find(reference)
    return found if getattr(found, "__module__", None) == reference.module else None


def is_found(value: Any) -> bool:
    """Whether module and name lead to this very object, as pickle wants it."""
    return find(reference_to(value)) is value


# Picklers for other machines, which take the functions of a program along.
_BY_VALUE = frozenset({"cloudpickle", "dill"})


def reduced(value: Any, parts: tuple[Any, ...]) -> Any:
    """What a pickle holds of a function: its name where that leads to this very object, else what it is made of."""
    in_program = reference_to(value).module == "__main__"
    return (
        parts if (in_program and _is_taken_along()) or not is_found(value) else value.__qualname__
    )


def _is_taken_along() -> bool:
    frame = inspect.currentframe()
    while frame is not None:
        if not _BY_VALUE.isdisjoint(str(frame.f_globals.get("__name__")).split(".")):
            return True
        frame = frame.f_back
    return False
