"""Settings of the whole process that a file may change for all others, such as the working folder."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from pullback._engine import only_engine
from pullback.cli.homes import was_entered
from pullback.errors import EngineError

# With the standard library: what loads, runs and judges files. Frameworks say themselves what is changed in them.
_OWN = {"numpy", "optree", "rich", "pullback"}
# What libraries log decides nothing, and many files set it.
_LOGGING = ("TF_CPP_", "ABSL_", "AUTOGRAPH_VERBOSITY")
# How things are shown: `logging.captureWarnings`, prettier tracebacks.
_SHOWING = {"warnings.showwarning", "sys.excepthook", "sys.displayhook", "builtins.print"}


class Settings:
    """The settings as they are when it is made; those of frameworks are compared with their defaults.

    Left out is what decides no verdict: seeds, logging, warnings that are not errors, environment variables and entries
    of `sys.path` that are added.
    """

    def __init__(self) -> None:
        self._before = _of_python()
        self._environment = dict(os.environ)
        self._path = list(sys.path)
        self._modules = {name: m for name, m in list(sys.modules.items()) if _is_own(name, m)}
        self._attributes = [
            (name, vars(module), key, value)
            for name, module in self._modules.items()
            for key, value in list(vars(module).items())
            if callable(value) or type(value) in (int, float)
        ]

    def changed(self) -> list[str]:
        """What is otherwise now."""
        try:
            here = [*self._of_python(), *self._replaced()]
        except BaseException:  # it is so changed that it cannot be looked at
            return ["what Python has of its own"]
        try:
            return here + list(only_engine().probes.changed_settings())
        except EngineError:  # nothing has been imported whose settings could be changed
            return here

    def _of_python(self) -> Iterator[str]:
        yield from (name for name, value in _of_python().items() if value != self._before[name])
        if any(os.environ.get(k) != v for k, v in self._environment.items() if _decides(k)):
            yield "os.environ"
        if any(p not in sys.path and not was_entered(p) for p in self._path):
            yield "sys.path"

    def _replaced(self) -> Iterator[str]:
        """Modules that are no longer there, functions and numbers in whose place there are others."""
        yield from (name for name, m in self._modules.items() if sys.modules.get(name) is not m)
        for name, now, key, value in self._attributes:
            if now.get(key) is not value and f"{name}.{key}" not in _SHOWING:
                yield f"{name}.{key}"


def _is_own(name: str, module: Any) -> bool:
    first = name.partition(".")[0]
    is_ours = first in sys.stdlib_module_names or first in _OWN
    return is_ours and isinstance(module, ModuleType) and name != "__main__"


def _decides(variable: str) -> bool:
    return not variable.startswith(_LOGGING)


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
        "the working folder": _working_folder(),
        "sys.argv": list(sys.argv),
        "sys.setrecursionlimit": sys.getrecursionlimit(),
        "warnings as errors": [one for one in warnings.filters if one[0] == "error"],
        "np.seterr": np.geterr(),
    }


def _working_folder() -> str | None:
    """Nothing where it has been removed."""
    try:
        return str(Path.cwd())
    except OSError:
        return None
