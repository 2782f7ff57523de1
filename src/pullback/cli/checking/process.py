"""Settings of the whole process that a file may change for all others, such as the working folder."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from pullback._engine import only_engine
from pullback.errors import EngineError


class Settings:
    """The settings as they are when it is made; those of frameworks are compared with their defaults.

    Left out is what decides no verdict: seeds, logging, warnings that are not errors, environment variables.
    """

    def __init__(self) -> None:
        self._before = _of_python()

    def changed(self) -> list[str]:
        """What is otherwise now."""
        here = [name for name, value in _of_python().items() if value != self._before[name]]
        try:
            return here + list(only_engine().probes.changed_settings())
        except EngineError:  # nothing has been imported whose settings could be changed
            return here


def shut(modules: Iterable[ModuleType]) -> list[str]:
    """Modules that answer with an error, or end the process, where others look through all that are loaded."""
    return [
        f"what module {module.__name__} says of itself" for module in modules if _is_shut(module)
    ]


def _is_shut(module: ModuleType) -> bool:
    try:
        hasattr(module, "__wrapped__")  # no module has one, and many ask
        dir(module)
    except BaseException:  # whatever it raises, it is about nothing that was done here
        return True
    return False


def _of_python() -> dict[str, Any]:
    return {
        "the working folder": Path.cwd(),
        "sys.argv": list(sys.argv),
        "sys.setrecursionlimit": sys.getrecursionlimit(),
        "warnings as errors": [one for one in warnings.filters if one[0] == "error"],
        "np.seterr": np.geterr(),
    }
