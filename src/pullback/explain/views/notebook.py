"""Flows and comparisons as parts of a notebook: no script, everything escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from pullback.explain.data import FlowData
from pullback.explain.views import words
from pullback.explain.views.compare import Comparison, Pair
from pullback.explain.views.compare_text import called, change_words, chosen, headline, rule_lines
from pullback.explain.views.findings import Findings, findings
from pullback.explain.views.layers import grouped
from pullback.explain.views.outline import Row, outline
from pullback.explain.views.statistics import Survey
from pullback.explain.views.terminal import sign, told_marks, troubles, verdict

MOST_ROWS = 60


def flow_html(flow: FlowData) -> str:
    """One element with its own style."""
    found = findings(flow)
    rows = outline(grouped(flow), Survey(flow), MOST_ROWS, found.node)
    scale = words.Scale([row.norm for row in rows])
    body = "".join(_layer(row, scale) for row in rows)
    cost = f"{words.count(len(flow.nodes), 'operation')}, {words.seconds(flow.seconds)}"
    head = _head(flow.name, verdict(found), cost, sign(found)[0])
    columns = ("layer", "gradient", "", "weights", "")
    return _element(head, _troubles(found), _table(columns, [body]))


def comparison_html(comparison: Comparison) -> str:
    """One element with its own style."""
    mark = "≠" if comparison.differing or comparison.rules else "✓"
    name = called(comparison)
    told = headline(comparison).removeprefix(f"{name}: ")
    rules = "".join(f"<li>{_words(line)}</li>" for line in rule_lines(comparison))
    tables = [
        _pairs(comparison, title, pairs)
        for title, pairs in (("source", comparison.sources), ("layer", comparison.layers))
    ]
    return _element(_head(name, told, "", mark), f"<ul>{rules}</ul>" if rules else "", *tables)


def comparison_page(comparison: Comparison) -> str:
    """A whole document."""
    title = html.escape(called(comparison))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        '<meta name="color-scheme" content="light dark"/>'
        f"<title>{title}</title></head>\n<body>{comparison_html(comparison)}</body></html>\n"
    )


def _element(*parts: str) -> str:
    style = Path(__file__).with_name("notebook.css").read_text(encoding="utf-8")
    body = "\n".join(filter(None, parts))
    return f'<div class="pullback-flow"><style>{style}</style>\n{body}\n</div>'


def _head(name: str, told: str, cost: str, mark: str) -> str:
    kind = {"✓": "good", "✗": "bad"}.get(mark, "other")
    return (
        f'<header class="{kind}"><span class="badge">{mark}</span><div><h1>{html.escape(name)}</h1>'
        f'<p class="lead">{html.escape(told)}</p></div><p class="cost">{html.escape(cost)}</p></header>'
    )


def _words(text: str) -> str:
    """Escaped text, with what stands in backticks as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text))


def _troubles(found: Findings) -> str:
    items = [
        f"<li><b>{html.escape(title)}</b> {_words(text)}</li>" for title, _, text in troubles(found)
    ]
    return f"<ul>{''.join(items)}</ul>" if items else ""


def _table(columns: Sequence[str], bodies: Iterable[str]) -> str:
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(bodies)}</tbody></table>"


def _layer(row: Row, scale: words.Scale) -> str:
    times = f" <b>×{row.count}</b>" if row.count > 1 else ""
    name = (
        f'<span style="padding-left:{1.2 * row.depth:.1f}em">{html.escape(row.name)}{times}</span>'
    )
    told = told_marks(row)
    marks = " ".join(f'<span class="mark {mark}">{word}</span>' for mark, word in told)
    weights = row.statistics.weights if row.statistics else None
    cells = [
        name,
        words.number(row.norm) if row.is_finite else "NaN",
        _bar(scale, row.norm, told[0][0] if told else ""),
        words.number(weights) if weights is not None else "",
        marks or html.escape(row.line),
    ]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _bar(scale: words.Scale, norm: float | None, kind: str = "") -> str:
    width = 100 * scale.share(norm)
    return f'<div class="bar {kind}" style="width:{width:.0f}%"></div>' if norm else ""


def _pairs(comparison: Comparison, title: str, pairs: Sequence[Pair]) -> str:
    rows = chosen(pairs, len(pairs))
    if not rows:
        return ""
    scale = words.Scale([norm for pair in rows for norm in (pair.left, pair.right)])
    body = "".join(_pair(pair, scale) for pair in rows)
    left, right = comparison.labels
    return _table((title, left, "", right, "", ""), [body])


def _pair(pair: Pair, scale: words.Scale) -> str:
    cells = [html.escape(pair.name)]
    for norm in (pair.left, pair.right):
        cells += [words.number(norm), _bar(scale, norm)]
    cells.append(f"<b>{html.escape(change_words(pair))}</b>")
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
