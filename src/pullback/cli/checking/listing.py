"""Which custom gradients a module has: what its source defines and what it holds, each once."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from pullback._reach import cells_of, codes_in, unwrapped, walk
from pullback.cli.checking.bindings import NOT_DEFINED, Binding, bindings_in, fate
from pullback.cli.checking.outcome import Item
from pullback.cli.checking.places import Place, sites_of
from pullback.cli.checking.recorder import codes_of, is_at
from pullback.cli.checking.sites import REGISTER, Site
from pullback.cli.discover import Candidate, candidates, has_own_gradient, named
from pullback.cli.paths import real
from pullback.cli.source import place_of, text_of, written_at


@dataclass(frozen=True)
class Known:
    """One custom gradient of a module: where it is written, or under which name it was found.

    `gone` says why a definition is not what its name means.
    """

    item: Item
    site: Site | None = None
    candidate: Candidate | None = None
    gone: str = ""


def known_in(module: ModuleType, place: Place) -> dict[str, Known]:
    """The custom gradients of a place by name, in the order of the source."""
    file = file_of(module)
    sites = sites_of(file)
    written = list(_written(module, file, sites))
    outside = file is None or not _is_within(place.only, [known.item.name for known in written])
    own = {site.name for site in sites if site.held}
    members = candidates(module, place.only if outside else None, own)
    held = {site: [m for m in members if site.held and _is_held(m, site, file)] for site in sites}
    found = {known.item.name: known for known in written if known.site and not held[known.site]}
    for one in members:
        at = [s for s in sites if _is_of(one, s, file)]
        is_new = not at or one.name == place.only or any(one in held[s] for s in at)
        if one.name not in found and is_new and not _is_around(one, found):
            line = max((s.line for s in at), default=_line_of(one.function, file))
            found[one.name] = Known(item_at(one.name, file, line), None, one)
    only = place.only
    kept = {n: k for n, k in found.items() if only is None or _is_within(only, [n])}
    return dict(sorted(kept.items(), key=lambda pair: pair[1].site is None))


def file_of(module: ModuleType) -> Path | None:
    """The file of a module, if it has one."""
    path = getattr(module, "__file__", None)
    return real(path) if path else None


def _written(module: ModuleType, file: Path | None, sites: list[Site]) -> Iterator[Known]:
    """What the source defines; of several under one name, those that do not exist have their lines in it."""
    text = text_of(file) if sites and file else ""
    bindings, taken = bindings_in(text), set[str]()
    gone = {site: _gone(module, file, site, sites, bindings) for site in sites}
    alive = {site.name: site for site in reversed(sites) if not gone[site]}
    for site in sites:
        is_first = site.name not in taken and alive.get(site.name, site) == site
        item = item_at(site.name, file, site.line)
        item = item if is_first else replace(item, name=f"{site.name}@{item.line}")
        taken.add(item.name)
        yield Known(item, site, gone=gone[site])


def _gone(
    module: ModuleType,
    file: Path | None,
    site: Site,
    sites: list[Site],
    bindings: Mapping[tuple[str, ...], list[Binding]],
) -> str:
    """Why a definition, or the function that it lies in, is not what its name means; nothing where it is."""
    outer = _findable(site)
    several = bindings.get(outer, [])
    if file is None or not several or site.held or site.kind == REGISTER:
        return ""
    try:
        function = named(module, ".".join(outer)).function
    except AttributeError:
        return f"{NOT_DEFINED}, or deleted"
    codes = [code for part in walk(function, inside=_behind) for code in codes_of(part)]
    if len(several) < 2 or is_at(site, file, tuple(inner for c in codes for inner in codes_in(c))):
        return ""
    others = [s.line for s in sites if s.path == outer and is_at(s, file, tuple(codes))]
    lines = [line for written, line in map(written_at, codes) if written == file]
    own = range(min(site.lines), max(site.lines) + 1)
    return fate(own, next(iter([*others, *lines]), None), several, partial(_line_named, file))


def _line_named(file: Path, line: int) -> str:
    at, cell = place_of(file, line)
    return cell or f"line {at}"


def _findable(site: Site) -> tuple[str, ...]:
    """The part of a site's path that can be got at without a call: its classes, and the function in them."""
    classes = len(list(itertools.takewhile(bool, site.in_class)))
    path = site.path[: classes + 1]
    is_mangled = any(p.startswith("__") and not p.endswith("__") for p in path)
    return () if is_mangled else path


def _behind(thing: Any) -> Iterator[Any]:
    """What a callable is wrapped around; a decorator that does not say so has it in a cell."""
    yield from unwrapped(thing)
    yield from filter(callable, cells_of(thing) if isinstance(thing, FunctionType) else ())


def _is_of(one: Candidate, site: Site, file: Path | None) -> bool:
    return file is not None and is_at(site, file, tuple(codes_of(one.function)))


def _is_held(one: Candidate, site: Site, file: Path | None) -> bool:
    """Whether a list or dict holds what is made at a site, of a function that may be written elsewhere."""
    return _is_of(one, site, file) or one.name.startswith(f"{site.name}[")


def _is_around(one: Candidate, found: Mapping[str, Any]) -> bool:
    """Whether a function that inputs are given for is there for the custom gradients that are made in it."""
    inside = any(name.startswith(f"{one.name}.") for name in found)
    return inside and not has_own_gradient(one.function)


def _is_within(only: str | None, names: list[str]) -> bool:
    return only is None or any(n == only or n.startswith(f"{only}.") for n in names)


def _line_of(function: Any, file: Path | None) -> int:
    places = map(written_at, codes_of(function))
    own = [line for written, line in places if file and written == file]
    return own[-1] if own else 0


def item_at(name: str, file: Path | None, line: int) -> Item:
    """A custom gradient at a line of the text of a file."""
    return (
        Item(name, str(file), *place_of(file, line))
        if file and line
        else Item(name, str(file or ""))
    )


def function_of(module: ModuleType, known: Known) -> Any:
    """The function of a name, where it can be had without calling anything."""
    if known.candidate is not None:
        return known.candidate.function
    with contextlib.suppress(AttributeError):
        return named(module, known.item.name).function
    return None
