"""Whose module a name means, where files of several folders are run in one process.

Two folders may each have a `consts.py`, and files beside them that import it. Each file has to get its own, when it is
loaded and when its functions are run.
"""

from __future__ import annotations

import sys
import sysconfig
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

_INSTALLED = {Path(folder).resolve() for folder in sysconfig.get_paths().values()}
# What names meant when a folder was left, by folder; the folder that is entered comes last.
_meant: dict[Path, dict[str, ModuleType]] = {}


def enter(folder: Path, *, last: bool = False) -> None:
    """Let names mean what they do for a file in a folder; `last` is for one that must hide nobody else's modules."""
    for left in list(_meant)[-1:]:
        _meant[left] = {
            name: module for name, module in list(sys.modules.items()) if is_beside(name)
        }
    others = [one for one in reversed(_meant) if one != folder]
    rest = [p for p in sys.path if Path(p) not in (folder, *others)]
    after = [str(one) for one in others if not _outranks(one, folder)]
    sys.path[:] = [*rest, str(folder), *after] if last else [str(folder), *rest, *after]
    there = {name.partition(".")[0] for name in list(sys.modules) if is_beside(name)}
    hidden = {name for name in there if _is_other(name, folder)}
    for name in list(sys.modules):
        if name.partition(".")[0] in hidden:
            del sys.modules[name]
    meant = _meant.pop(folder, {})
    sys.modules.update(meant)
    _meant[folder] = meant


def _outranks(other: Path, folder: Path) -> bool:
    """Whether a folder has a package where another has a namespace: Python takes the package, wherever it stands."""
    namespaces = (p for p in folder.glob("*/") if not (p / "__init__.py").exists())
    return any((other / p.name / "__init__.py").exists() for p in namespaces)


def is_beside(name: str) -> bool:
    """Whether a module, or the package that it lies in, was found in a folder that was entered."""
    return any(map(is_entered, _places(sys.modules.get(name.partition(".")[0]))))


def is_entered(file: Path | str | None) -> bool:
    """Whether a file lies directly in a folder that was entered, and in which nothing is installed."""
    folder = Path(file).parent if file else None
    return folder in _meant and folder not in _INSTALLED


def was_entered(folder: Path | str) -> bool:
    """Whether it is here that decides where, and whether, a folder is on `sys.path`."""
    return Path(folder) in _meant


def _is_other(name: str, folder: Path) -> bool:
    """Whether a name means something else in a folder than what is loaded."""
    spec: Any = PathFinder.find_spec(name, [str(folder)])
    if spec is None:
        return False
    found = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or ())
    is_package = spec.submodule_search_locations is not None
    places = [Path(one).parent if is_package and spec.has_location else Path(one) for one in found]
    return places != _places(sys.modules.get(name))


def _places(module: ModuleType | None) -> list[Path]:
    """The file of a module, the folder or folders of a package."""
    file, folders = getattr(module, "__file__", None), getattr(module, "__path__", None)
    if folders is not None:
        return [Path(one) for one in folders]
    return [Path(file)] if isinstance(file, str) else []
