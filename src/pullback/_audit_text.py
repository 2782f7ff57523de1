"""An audit as text, as lines with markup, and as HTML."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pullback._audit import Audit, Match, Row

_MOST_SHOWN = 12


def as_text(audit: Audit) -> str:
    """Plain text, one block per target."""
    return "\n".join(_lines(audit))


def as_markup(audit: Audit) -> Iterator[str]:
    """Lines in which targets are bold and what had no effect is red."""
    for row in audit.rows:
        colour = "green" if row.effective else "red"
        outcome = f"[{colour}]{summary(row)}[/{colour}]"
        yield f"[bold]{_escape(row.target)}[/bold] → {_escape(row.rule)}: {outcome}"
        for match in row.matches[:_MOST_SHOWN]:
            line = _escape(match_line(match))
            yield f"  [red]{line}[/red]" if match.hidden_by else f"  {line}"


def as_html(audit: Audit) -> str:
    """A table for notebooks."""
    head = "".join(f"<th>{name}</th>" for name in ("target", "rule", "what happened", "where"))
    body = "".join(_html_row(row) for row in audit.rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def summary(row: Row) -> str:
    """One line on what happened to a target."""
    if not row.matched:
        return "never met"
    idle = row.matched - row.effective - row.hidden
    parts = [f"{row.effective} effective"] if row.effective else []
    parts += [f"{row.hidden} without effect"] if row.hidden else []
    parts += [f"{idle} where nothing was differentiated"] if idle else []
    return f"met {row.matched} times ({', '.join(parts)}), rule ran {row.ran} times"


def match_line(match: Match) -> str:
    """One line on a place."""
    place = match.place
    layer = f" in layer {place.layer}" if place.layer else ""
    source = f" at {place.source}" if place.source else ""
    hidden = f"; no effect: {match.hidden_by}" if match.hidden_by else ""
    return f"{match.count} x {match.mode} {place.name or place.type} ({place.type}){layer}{source}{hidden}"


def _lines(audit: Audit) -> Iterator[str]:
    for row in audit.rows:
        yield f"{row.target} -> {row.rule}: {summary(row)}"
        for match in row.matches[:_MOST_SHOWN]:
            yield f"  {match_line(match)}"
        if len(row.matches) > _MOST_SHOWN:
            yield f"  … and {len(row.matches) - _MOST_SHOWN} more places"


def _html_row(row: Row) -> str:
    places = "<br>".join(html.escape(match_line(m)) for m in row.matches[:_MOST_SHOWN])
    cells = [html.escape(text) for text in (row.target, row.rule, summary(row))]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in [*cells, places]) + "</tr>"


def _escape(text: str) -> str:
    return text.replace("[", r"\[")
