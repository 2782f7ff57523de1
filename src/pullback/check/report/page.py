"""A report as HTML: a part of a notebook, or a page of its own. Nothing is fetched, everything is escaped."""

import html
import re
from pathlib import Path

from pullback.check.report.data import Finding, Line, Picture, Report
from pullback.check.report.drawing import drawn
from pullback.check.report.render import FARED, MARKS, cost, covered, details, headline, undecided


def as_page(report: Report) -> str:
    """A whole document."""
    title = html.escape(f"{MARKS[report.verdict]} {report.name}")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        '<meta name="color-scheme" content="light dark"/>'
        f"<title>{title}</title></head>\n<body>{as_html(report)}</body></html>\n"
    )


def as_html(report: Report) -> str:
    """One element with its own style."""
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    parts = [_head(report), _leaves(report), *(_card(report, f) for f in report.findings)]
    parts.append(_section("What it takes to decide", _list(undecided(report))))
    parts.append(_section("What was looked at", _list(covered(report))))
    if report.findings:
        parts.append(_section("Reproduce", f"<pre>{html.escape(report.reproduce)}</pre>"))
    body = "\n".join(filter(None, parts))
    return f'<div class="pullback-report {report.verdict}"><style>{style}</style>\n{body}\n</div>'


def _words(text: str) -> str:
    """Escaped text, with what stands in backticks as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text))


def _head(report: Report) -> str:
    lead = headline(report) if not report.findings else "the gradient is wrong"
    return (
        f'<header><span class="badge">{MARKS[report.verdict]}</span><div><h1>{html.escape(report.name)}</h1>'
        f'<p class="lead">{_words(lead)}</p></div><p class="cost">{html.escape(cost(report))}</p></header>'
    )


def _leaves(report: Report) -> str:
    rows = "".join(map(_row, (*report.inputs, *report.outputs)))
    return f"<table><tbody>{rows}</tbody></table>" if rows else ""


def _row(line: Line) -> str:
    leaf, kind = line.leaf, {True: "good", False: "bad", None: "open"}[line.ok]
    texts = [leaf.kind, leaf.name, leaf.describe(), leaf.path if leaf.path != leaf.name else ""]
    cells = "".join(f"<td>{html.escape(text)}</td>" for text in texts)
    return f'<tr><td class="{kind}">{FARED[line.ok]}</td>{cells}</tr>'


def _card(report: Report, finding: Finding) -> str:
    lines = _list(details(report, finding, place=False))
    parts = [f"<h2>{_words(finding.diagnosis)}</h2>", lines]
    if finding.picture is not None:
        parts.append(_figure(finding.picture, report.against or "function"))
    return f'<section class="card">{"".join(parts)}{_source(finding)}</section>'


def _figure(picture: Picture, truth: str) -> str:
    keys = {"truth": truth, "rule": "rule"} if picture.along is not None else {"framed": "wrong"}
    key = "".join(f'<span class="key {k}">{html.escape(v)}</span> ' for k, v in keys.items())
    caption = f"<figcaption>{html.escape(picture.title)} {key}</figcaption>"
    return f"<figure>{caption}{drawn(picture, truth)}</figure>"


def _source(finding: Finding) -> str:
    """Where the rule is written, and the line itself with what is meant underlined."""
    parts = finding.code.partition(finding.underline or finding.code or "·")
    before, meant, after, place = map(html.escape, (*parts, finding.source or ""))
    code = f"<code>{before}<u>{meant}</u>{after}</code>" if finding.code else ""
    return f'<p class="source"><span>{place}</span>{code}</p>' if place else ""


def _section(title: str, body: str) -> str:
    return f"<section><h3>{title}</h3>{body}</section>" if body else ""


def _list(lines: list[str]) -> str:
    items = "".join(f"<li>{_words(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""
