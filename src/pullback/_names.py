"""Objects by module and qualified name: how pickles and files refer to functions."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any, NamedTuple


class Reference(NamedTuple):
    """Where an object is to be found."""

    module: str
    name: str


def reference_to(value: Any) -> Reference:
    """The module and qualified name that an object says of itself; whether they lead to it is another question."""
    module = getattr(value, "__module__", None) or type(value).__module__
    return Reference(module, getattr(value, "__qualname__", ""))


def find(reference: Reference, look_up: Callable[[str], Any] | None = None) -> Any:
    """What `look_up` knows under the name, else what the module holds under it; `None` where there is nothing."""
    found = look_up(reference.name) if look_up else None
    if found is not None:
        return found
    try:
        return functools.reduce(getattr, reference.name.split("."), sys.modules[reference.module])
    except (KeyError, AttributeError):
        return None


def find_in_file(reference: Reference, look_up: Callable[[str], Any] | None = None) -> Any:
    """What a file means: as `find`, with the module imported where it is not yet.

    A file must not be able to name just anything. So no module of Python itself, which holds no rules, is imported for
    it, and what a module has only imported from elsewhere does not count.
    """
    found = find(reference, look_up)
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
