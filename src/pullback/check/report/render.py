"""A report as text, for the terminal, for notebooks."""

import html
from typing import Any

from rich.console import Group
from rich.text import Text

from pullback.check.report.data import Finding, Line, Report

Piece = tuple[str, str]
_MARKS: dict[bool | None, Piece] = {
    True: ("✓ ", "green"),
    False: ("✗ ", "red"),
    None: ("· ", "dim"),
}


def as_text(report: Report) -> str:
    """Plain text, one finding per paragraph."""
    return "\n".join("".join(text for text, _ in line) for line in _lines(report))


def as_rich(report: Report) -> Any:
    """The same for a rich console."""
    return Group(*(Text.assemble(*line) for line in _lines(report)))


def as_html(report: Report) -> str:
    """The same for a notebook."""
    colours = {
        "green": "#0a7d33",
        "red": "#c0392b",
        "bold": "inherit",
        "dim": "#777",
        "": "inherit",
    }
    rows = []
    for line in _lines(report):
        parts = [
            f'<span style="color:{colours[style]}">{html.escape(text)}</span>'
            for text, style in line
        ]
        rows.append("".join(parts) or "&nbsp;")
    return '<pre style="line-height:1.35">' + "\n".join(rows) + "</pre>"


def _lines(report: Report) -> list[list[Piece]]:
    lines = [_headline(report)]
    lines += [_leaf(line) for line in (*report.inputs, *report.outputs)]
    for finding in report.findings:
        lines += _finding(finding, report.against or "the function")
    lines += [[("  " + text, "dim")] for text in _covered(report)]
    if report.findings:
        lines += [[("  reproduce:", "dim")]]
        lines += [[("    " + text, "")] for text in report.reproduce.splitlines()]
    return lines


def _headline(report: Report) -> list[Piece]:
    count = f"{report.calls} calls, {report.seconds:.2g} s, seed {report.seed}"
    if report.ok:
        verdict = f"is that of {report.against}" if report.against else "is right"
        return [
            ("✓ ", "green"),
            (f"{report.name}: the gradient {verdict}", "bold"),
            (f"  ({count})", "dim"),
        ]
    return [("✗ ", "red"), (f"{report.name}: {report.diagnosis}", "bold"), (f"  ({count})", "dim")]


def _leaf(line: Line) -> list[Piece]:
    mark = _MARKS[line.ok]
    arrow = "→ " if line.leaf.kind == "output" else "  "
    path = "" if line.leaf.path == line.leaf.name else f"  {line.leaf.path}"
    return [
        ("  ", ""),
        mark,
        (f"{arrow}{line.leaf.name}  {line.leaf.describe()}", ""),
        (path, "dim"),
    ]


def _finding(finding: Finding, truth: str) -> list[list[Piece]]:
    lines: list[list[Piece]] = [[("  ", ""), (f"{finding.kind}: ", "red"), (finding.diagnosis, "")]]
    place = finding.path + (f" → {finding.output}" if finding.output else "")
    at = f", point: {finding.point}" if finding.point else ""
    lines.append([(f"    {place}{at}", "dim")])
    if finding.got is not None and finding.wanted is not None:
        bar = "" if finding.error is None else f" ± {finding.error:.1g}"
        text = f"    the rule gives {finding.got:.6g}, {truth} says {finding.wanted:.6g}{bar}"
        lines.append([(text, "")])
    if finding.confirmed:
        points = "1 point" if finding.confirmed == 1 else f"{finding.confirmed} points"
        lines.append([(f"    confirmed at {points} it was not fitted to", "dim")])
    if finding.source:
        lines.append([(f"    rule: {finding.source}", "dim")])
    if finding.kind == "second":
        lines.append([("    order=1 leaves second derivatives out", "dim")])
    return lines


def _covered(report: Report) -> list[str]:
    seen = report.coverage
    out = []
    if seen.points:
        names = ", ".join(dict.fromkeys(seen.points))
        many = "1 point" if len(seen.points) == 1 else f"{len(seen.points)} points"
        out.append(f"tried {many} to order {seen.order}: {names}")
    if seen.left_out:
        out.append(f"outside the domain: {', '.join(dict.fromkeys(seen.left_out))}")
    if seen.kinks:
        out.append(f"kinks met: {seen.kinks} (there any derivative between the two sides is right)")
    if seen.undecided:
        out.append(f"not decided: {seen.undecided} of the numbers compared")
    if seen.never_reached and report.ok:
        out.append(f"gradient zero everywhere: {seen.never_reached} of {seen.entries} entries")
    if seen.modes:
        out.append(f"same in: {' · '.join(seen.modes)}")
    return out + list(seen.notes)
