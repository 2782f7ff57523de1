"""Objects by module and qualified name: how pickles and files refer to functions.

Nothing is imported because a file says so: only modules that are loaded already are looked into.
"""

from __future__ import annotations

import functools
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


def is_found(value: Any) -> bool:
    """Whether module and name lead to this very object, as pickle wants it."""
    return find(reference_to(value)) is value
