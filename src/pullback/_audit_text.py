"""An audit as text, as lines with markup, and as HTML. Places whose names differ by numbers only are one line."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pullback._audit import Audit, Match, Row

_MOST_SHOWN = 12
UNKNOWN = "…"  # the name of a place of which nothing is known
_NUMBER = re.compile(r"\d+")


def as_text(audit: Audit) -> str:
    """Plain text, one block per target."""
    return "\n".join(_lines(audit))


def as_markup(audit: Audit) -> Iterator[str]:
    """Lines in which targets are bold and what had no effect is red."""
    for row in audit.rows:
        colour = "green" if row.effective else "yellow" if row.reachable else "red"
        outcome = f"[{colour}]{summary(row)}[/{colour}]"
        yield f"[bold]{_escape(row.target)}[/bold] → {_escape(row.rule)}: {outcome}"
        for hidden, line in places(row):
            yield f"  [red]{_escape(line)}[/red]" if hidden else f"  {_escape(line)}"


def as_html(audit: Audit) -> str:
    """A table for notebooks."""
    head = "".join(f"<th>{name}</th>" for name in ("target", "rule", "what happened", "where"))
    body = "".join(_html_row(row) for row in audit.rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def summary(row: Row) -> str:
    """One line on what happened to a target."""
    if not row.matched:
        return "never met"
    idle, waiting = row.matched - row.reachable - row.hidden, row.reachable - row.effective
    parts = [f"{row.effective} effective"] if row.effective else []
    parts += [f"{waiting} through which no gradient has flowed"] if waiting else []
    parts += [f"{row.hidden} without effect"] if row.hidden else []
    parts += [f"{idle} where nothing was differentiated"] if idle else []
    return f"met {times(row.matched)} ({', '.join(parts)}), {_runs(row)}{_weights(row)}"


def _weights(row: Row) -> str:
    """Whether the gradients of the weights of layers are the rule's."""
    given, left = _many(row.weights), _many(row.ordinary_weights)
    said = f"; it is for {given} too" if row.weights else ""
    return (
        f"{said}; {left} of these layers keep their ordinary gradient"
        if row.ordinary_weights
        else said
    )


def _many(count: int) -> str:
    return "1 weight" if count == 1 else f"{count} weights"


def _runs(row: Row) -> str:
    if not row.traced:
        return f"rule ran {times(row.ran)}"
    at_once = f"ran {times(row.ran)}, " if row.ran else ""
    return f"rule {at_once}traced {times(row.traced)}"


def times(count: int) -> str:
    """A number of times, in words that fit."""
    return "1 time" if count == 1 else f"{count} times"


def family(name: str) -> str:
    """A name with stars for its numbers: equal for names that differ by numbers only."""
    return _NUMBER.sub("*", name)


def places(row: Row) -> Iterator[tuple[bool, str]]:
    """One line for each family of places, and whether they had no effect."""
    groups: dict[tuple[object, ...], list[Match]] = {}
    for match in row.matches:
        place = match.place
        where = family(place.layer or place.name)
        key = (place.type, where, match.mode, match.recorded, match.hidden_by)
        groups.setdefault(key, []).append(match)
    shown = list(groups.values())
    for group in shown[:_MOST_SHOWN]:
        yield group[0].hidden_by is not None, _line(group)
    rest = [match.count for group in shown[_MOST_SHOWN:] for match in group]
    if rest:
        yield False, f"… and {sum(rest)} x at {len(rest)} more places"


def _line(group: Sequence[Match]) -> str:
    """One line on places of one family."""
    first = group[0]
    hidden = f"; no effect: {first.hidden_by}" if first.hidden_by else ""
    idle = "" if first.recorded or hidden else "; nothing was differentiated"
    source = f" at {first.place.source}" if len({m.place.source for m in group}) == 1 else ""
    source = source if first.place.source else ""
    count = sum(match.count for match in group)
    return f"{count} x {first.mode} {_where(group)}{source}{hidden}{idle}"


def _where(group: Sequence[Match]) -> str:
    """Which op or function, in which layers."""
    place = group[0].place
    if place.name == UNKNOWN:
        return "elsewhere"
    layers = list(dict.fromkeys(match.place.layer for match in group if match.place.layer))
    names = {match.place.name for match in group}
    what = f"{place.name or place.type} ({place.type})"
    if len(names) > 1:
        what = family(place.name) if place.type == "function" else place.type
    if len(layers) > 1:
        return f"{what} in {len(layers)} layers {family(layers[0])}"
    if layers:
        return f"{what} in layer {layers[0]}"
    return what if len(names) == 1 else f"{family(place.name)} ({place.type})"


def _lines(audit: Audit) -> Iterator[str]:
    for row in audit.rows:
        yield f"{row.target} -> {row.rule}: {summary(row)}"
        yield from (f"  {line}" for _, line in places(row))


def _html_row(row: Row) -> str:
    where = "<br>".join(html.escape(line) for _, line in places(row))
    cells = [html.escape(text) for text in (row.target, row.rule, summary(row))]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in [*cells, where]) + "</tr>"


def _escape(text: str) -> str:
    return text.replace("[", r"\[")
