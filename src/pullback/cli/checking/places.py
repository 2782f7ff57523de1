"""What the targets of a command line come to: files and modules, each with what is asked for in it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.machinery import PathFinder
from pathlib import Path

from pullback.cli.checking.select import may_be_selected
from pullback.cli.checking.sites import TELLING, Site, sites_in
from pullback.cli.paths import is_file, is_folder, is_there, real
from pullback.cli.source import is_source, text_of, unread_in, unreadable
from pullback.cli.target import split

_SKIPPED = {"build", "dist", "node_modules", "site-packages", "__pycache__", "venv", "env"}
_WANTED = "name a file, a folder, a module or module:function"
_DEFINING = ("radient", "with_partials", *TELLING)  # in a cell that is no Python
_NAMING = ("pullback_inputs", "override(", "globals(", "setattr(", "import *")


@dataclass(frozen=True)
class Place:
    """A file or module to look at, the function that is asked for, and how to call it in the output.

    A function is `covered` where its whole file is looked at as well: it need only be there.
    """

    target: str
    label: str
    only: str | None = None
    covered: bool = False


def places(targets: Sequence[str], *, telling: bool = False) -> list[Place]:
    """What each target comes to, in order and each once, however it is written.

    With `telling`, files that define no custom gradient are left out even if they are named.
    """
    found: dict[tuple[str, str | None], Place] = {}
    for place in (place for target in targets for place in _of_one(target)):
        path = Path(place.target)
        if telling and is_source(path) and is_file(path) and not _tells(path):
            continue
        found.setdefault((_identity(place.target), place.only), place)
    whole = {target for target, only in found if only is None}
    return [
        replace(place, covered=only is not None and target in whole)
        for (target, only), place in found.items()
    ]


def _identity(target: str) -> str:
    return str(real(target)) if is_there(target) else target


def _of_one(target: str) -> Iterator[Place]:
    place, only = split(target)
    path = Path(place)
    if place and is_folder(path):
        yield from map(_of_file, files_in(path))
    elif only is None and not is_source(path) and (folder := _package(place)):
        yield from map(_of_file, files_in(folder))
    else:
        yield _of_file(path, only) if place and is_there(path) else Place(place, place, only)


def _of_file(path: Path, only: str | None = None) -> Place:
    """What means the same wherever the process goes, called as it was written."""
    return Place(str(path.absolute()), str(path), only)


def not_there(place: Place) -> str:
    """Why a place cannot be meant: nothing is there, or no Python; nothing where it may be."""
    path, first = Path(place.target), place.target.partition(".")[0]
    if not place.target:  # which Python takes for the current folder
        return f"is no name: {_WANTED}"
    if is_folder(path):
        return f"cannot be read: {_unlisted(path)}"
    if is_there(path):
        return unreadable(path) if is_source(path) else f"is no Python file: {_WANTED}"
    is_path = any(sign in place.target for sign in "/\\\0") or is_source(path) or not first
    if is_path or not _is_importable(first):
        return (
            f"no such file or folder{'' if is_path else ', and no module of that name'}: {_WANTED}"
        )
    return ""


def _is_importable(name: str) -> bool:
    try:
        here = PathFinder.find_spec(name, [str(Path.cwd())])
        return (here or importlib.util.find_spec(name)) is not None
    except (ImportError, ValueError):
        return True  # something is there, and importing it says what


def files_in(folder: Path) -> Iterator[Path]:
    """The files of a folder that may define custom gradients, without importing any; links are followed once.

    A folder that cannot be read stands for what may be in it.
    """
    seen: set[Path] = set()
    waiting = [folder]
    while waiting:
        path = waiting.pop()
        if not is_folder(path):
            if is_source(path) and is_file(path) and _tells(path):
                yield path
        elif real(path) not in seen:
            seen.add(real(path))
            if _unlisted(path):
                yield path
            else:
                waiting += sorted(filter(_is_looked_at, path.iterdir()), reverse=True)


def _unlisted(folder: Path) -> str:
    """Why what is in a folder cannot be listed; nothing where it can."""
    try:
        next(folder.iterdir(), None)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _is_looked_at(path: Path) -> bool:
    is_left_out = path.name.startswith(".") or path.name.endswith(".egg-info")
    return not (is_left_out or path.name in _SKIPPED or is_there(path / "pyvenv.cfg"))


def _tells(path: Path) -> bool:
    """Whether a file defines custom gradients, or has a say about them; one that cannot be read may."""
    try:
        text = text_of(path)
        unread = unread_in(path)
        told = any(word in text for word in TELLING) or any(word in unread for word in _DEFINING)
        return told or bool(sites_in(text))
    except (SyntaxError, ValueError, OSError):
        return True


def may_hold(place: Place, expression: str) -> bool:
    """Whether a place may have a custom gradient that `-k` means, as far as its source tells.

    What is put into dicts, or named by other means, has names that are known only once the file has run.
    """
    path = Path(place.target)
    try:
        sites = sites_of(path)
        text = text_of(path) if sites else ""
    except (SyntaxError, ValueError, OSError):
        return True
    hidden = any(site.held for site in sites) or any(word in text for word in _NAMING)
    return not sites or hidden or may_be_selected(expression, f"{place.label}:{text}")


def sites_of(path: Path | None) -> list[Site]:
    """The custom gradients in a file; none where there is no source."""
    if path is None or not is_source(path) or not is_file(path):
        return []
    return sites_in(text_of(path))


def _package(name: str) -> Path | None:
    """The folder of a package, found without importing it."""
    first, *rest = name.split(".")
    try:
        spec = importlib.util.find_spec(first)
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        inner = Path(folder, *rest)
        if is_folder(inner):
            return inner
    return None
