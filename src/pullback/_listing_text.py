"""Targets as text, by kind; what differs by its numbers only is one line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pullback._audit_text import family

if TYPE_CHECKING:
    from pullback._listing import Target, Targets

_MOST_LINES = 20  # of one kind
_MOST_WHERE = 2  # names of layers on a line
_WIDTH = 44
_HEADS = {
    "function": "functions",
    "op": "op types",
    "layer class": "layer classes",
    "layer": "layers",
}
_NUMBER = re.compile(r"\d+")
_LAYER = re.compile(r'\.get_layer\("([^"]*)"\)$')


def as_text(targets: Targets, rest: str = "`for target in pb.targets(...)`") -> str:
    """One block for each kind, with how often each ran; `rest` says how to see what is left out."""
    kinds = [(targets.of(kind), head) for kind, head in _HEADS.items() if targets.of(kind)]
    counts = {head: len(rows) for rows, head in kinds}
    parts = ", ".join(f"{n} {head if n > 1 else _single(head)}" for head, n in counts.items())
    blocks = ["\n".join(_block(rows, head, rest)) for rows, head in kinds]
    return "\n".join([f"What can be overridden in {targets.name}: {parts}", *blocks])


def _single(head: str) -> str:
    return {"layer classes": "layer class"}.get(head, head.removesuffix("s"))


def _block(rows: tuple[Target, ...], head: str, rest: str) -> Iterator[str]:
    yield f"{head}:"
    lines = list(_layers(rows) if head == "layers" else map(_line, rows))
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        yield f"  … and {len(lines) - _MOST_LINES} more: {rest}"


def _line(row: Target) -> str:
    where = families(row.where)
    more = ", …" if len(where) > _MOST_WHERE else ""
    inside = f"  in {', '.join(where[:_MOST_WHERE])}{more}" if where else ""
    taken = "  (overridden)" if row.overridden else ""
    return f"  {row.expression:<{_WIDTH}} {row.count:>4} x{inside}{taken}"


def _layers(rows: tuple[Target, ...]) -> Iterator[str]:
    """Layers whose names differ by numbers are one line: a regular expression, which is a target too."""
    groups: dict[str, list[Target]] = {}
    for row in rows:
        groups.setdefault(family(row.expression), []).append(row)
    for group in groups.values():
        name = _LAYER.search(group[0].expression)
        if len(group) == 1 or name is None:
            yield from map(_line, group)
            continue
        pattern = _NUMBER.sub(r"\\d+", re.escape(name[1]))
        expression = f're.compile(r"{pattern}")'
        yield f"  {expression:<{_WIDTH}} {sum(r.count for r in group):>4} x  {len(group)} layers"


def families(names: Iterable[str]) -> list[str]:
    """Names of which those that differ by numbers only are one, with stars."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(family(name), []).append(name)
    return [stars if len(group) > 1 else group[0] for stars, group in groups.items()]
