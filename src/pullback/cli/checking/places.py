"""What the targets of a command line come to: files and modules, each with what is asked for in it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.machinery import PathFinder
from pathlib import Path

from pullback.cli.checking.select import may_be_selected
from pullback.cli.checking.sites import Site, sites_in
from pullback.cli.target import split

_SKIPPED = {"build", "dist", "node_modules", "site-packages", "__pycache__", "venv", "env"}
_WANTED = "name a file, a folder, a module or module:function"
_TELLING = ("pullback_inputs", "override(", "pb.inputs")
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


def places(targets: Sequence[str]) -> list[Place]:
    """What each target comes to, in order and each once, however it is written."""
    found: dict[tuple[str, str | None], Place] = {}
    for place in (place for target in targets for place in _of_one(target)):
        found.setdefault((_identity(place.target), place.only), place)
    whole = {target for target, only in found if only is None}
    return [
        replace(place, covered=only is not None and target in whole)
        for (target, only), place in found.items()
    ]


def _identity(target: str) -> str:
    path = Path(target)
    return str(path.resolve()) if path.exists() else target


def _of_one(target: str) -> Iterator[Place]:
    place, only = split(target)
    path = Path(place)
    if path.is_dir():
        yield from map(_of_file, files_in(path))
    elif only is None and not place.endswith(".py") and (folder := _package(place)):
        yield from map(_of_file, files_in(folder))
    else:
        yield _of_file(path, only) if path.exists() else Place(place, place, only)


def _of_file(path: Path, only: str | None = None) -> Place:
    """What means the same wherever the process goes, called as it was written."""
    return Place(str(path.absolute()), str(path), only)


def not_there(place: Place) -> str:
    """Why a place cannot be meant: nothing is there, or no Python; nothing where it may be."""
    path, first = Path(place.target), place.target.partition(".")[0]
    if path.exists():
        notebook = (
            "jupyter nbconvert --to script writes one from it; " if path.suffix == ".ipynb" else ""
        )
        return "" if path.suffix == ".py" else f"is no Python file: {notebook}{_WANTED}"
    is_path = any(sign in place.target for sign in "/\\") or path.suffix == ".py" or not first
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


def files_in(folder: Path, seen: set[Path] | None = None) -> Iterator[Path]:
    """The files of a folder that may define custom gradients, without importing any; links are followed once."""
    seen = set() if seen is None else seen
    if folder.resolve() in seen:
        return
    seen.add(folder.resolve())
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name in _SKIPPED or path.name.endswith(".egg-info"):
            continue
        if path.is_dir() and not (path / "pyvenv.cfg").exists():
            yield from files_in(path, seen)
        elif path.suffix == ".py" and path.is_file() and _tells(path):
            yield path


def _tells(path: Path) -> bool:
    """Whether a file defines custom gradients, or has a say about them; one that cannot be read may."""
    try:
        text = path.read_text(encoding="utf-8")
        return bool(sites_in(text)) or any(word in text for word in _TELLING)
    except (SyntaxError, ValueError, OSError):
        return True


def may_hold(place: Place, expression: str) -> bool:
    """Whether a place may have a custom gradient that `-k` means, as far as its source tells.

    What is put into dicts, or named by other means, has names that are known only once the file has run.
    """
    path = Path(place.target)
    try:
        sites = sites_of(path)
        text = path.read_text(encoding="utf-8") if sites else ""
    except (SyntaxError, ValueError, OSError):
        return True
    hidden = any(site.held for site in sites) or any(word in text for word in _NAMING)
    return not sites or hidden or may_be_selected(expression, f"{place.label}:{text}")


def sites_of(path: Path | None) -> list[Site]:
    """The custom gradients in a file; none where there is no source."""
    if path is None or path.suffix != ".py" or not path.is_file():
        return []
    return sites_in(path.read_text(encoding="utf-8"))


def _package(name: str) -> Path | None:
    """The folder of a package, found without importing it."""
    first, *rest = name.split(".")
    try:
        spec = importlib.util.find_spec(first)
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        inner = Path(folder, *rest)
        if inner.is_dir():
            return inner
    return None
