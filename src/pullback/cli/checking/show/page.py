"""All outcomes as one page: a table to look through, and under each line the report. Nothing is fetched."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from pullback.check.report.page import as_html
from pullback.cli.checking.outcome import Ending, Outcome
from pullback.cli.checking.show.files import shown
from pullback.cli.checking.show.lines import summary


def as_page(outcomes: Sequence[Outcome], ending: Ending) -> str:
    """A whole document."""
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    notes = [f'<p class="summary">{html.escape(note)}</p>' for note in ending.notes]
    rows = "\n".join([*notes, *map(_row, outcomes)])
    head = html.escape(summary(outcomes, ending))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        '<meta name="color-scheme" content="light dark"/>'
        f"<title>{head}</title><style>{style}</style></head>\n"
        f'<body><main class="pullback-outcomes"><h1>pullback check</h1><p class="summary">{head}</p>\n{rows}\n'
        "</main></body></html>\n"
    )


def _row(outcome: Outcome) -> str:
    item = outcome.item
    at = f" {item.cell}" if item.cell else f":{item.line}"
    place = f"{shown(item.file)}{at}" if item.file else ""
    texts = {"mark": outcome.mark, "name": item.name, "place": place, "text": outcome.text}
    cells = "".join(f'<span class="{k}">{html.escape(v)}</span>' for k, v in texts.items())
    inputs = f'<p class="inputs">with {html.escape(outcome.inputs)}</p>' if outcome.inputs else ""
    notes = "".join(f'<p class="inputs">{html.escape(note)}</p>' for note in outcome.notes)
    report = as_html(outcome.report) if outcome.report is not None else ""
    return f'<details class="{outcome.status}"><summary>{cells}</summary>{inputs}{notes}{report}</details>'
