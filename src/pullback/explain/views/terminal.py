"""A flow in the terminal: what is wrong, then the layers in the order in which the gradient meets them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, Any

from rich.console import Console, RenderableType
from rich.console import Group as Lines
from rich.table import Table
from rich.text import Text

from pullback.explain import words as why_words
from pullback.explain.data import FlowData
from pullback.explain.residuals import in_bytes
from pullback.explain.views import words
from pullback.explain.views.findings import Answer, Findings, findings
from pullback.explain.views.layers import grouped
from pullback.explain.views.marks import STARTS_HERE, WORDS, Mark
from pullback.explain.views.outline import Row, outline
from pullback.explain.views.statistics import Survey

STYLES: dict[Mark, str] = {
    "nan": "bold red",
    "cut": "red",
    "zero": "red",
    "exploding": "magenta",
    "vanishing": "yellow",
    "override": "cyan",
    "custom": "blue",
    "stopped": "dim",
}
MOST_ROWS = 30
_MOST_TOLD = 6
_MOST_NAMED = 6  # sources of one cause
_NAME, _BAR, _WIDE = 30, 12, 96  # columns; from this width on, there is room for time and bytes


def show(flow: FlowData, file: IO[str] | None = None) -> None:
    """Print a flow; colours only where a terminal shows them."""
    console = Console(file=file, highlight=False)
    print_lines(console, rendered(flow, console.width))


def print_lines(console: Console, *parts: RenderableType) -> None:
    """Print; in files and pipes without the blanks that fill lines up."""
    if console.is_terminal or console.is_jupyter:
        console.print(Lines(*parts))
        return
    with console.capture() as captured:
        console.print(Lines(*parts))
    console.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def rendered(flow: FlowData, width: int) -> RenderableType:
    """For a rich console of this width."""
    found = findings(flow)
    grid = Table.grid(padding=(0, 2))
    for title, style, text in troubles(found):
        grid.add_row(Text(f"  {title}", style=style), Text(text))
    told = [grid] if grid.row_count else []
    return Lines(_headline(flow, found), *told, Text(), _layers(flow, found, width))


def as_text(flow: FlowData) -> str:
    """A few lines: the headline and what is wrong."""
    found = findings(flow)
    lines = [f"  {title}  {text}" for title, _, text in troubles(found)]
    return "\n".join([_headline(flow, found).plain, *lines])


def verdict(found: Findings) -> str:
    """The flow in one sentence."""
    count = sum(answer.expected for answer in found.answers)
    of_all = f"{words.count(count, 'source')}"
    if found.nonfinite:
        return "NaN or Inf on the way"
    if found.missing:
        return f"no gradient for {len(found.missing)} of {of_all}" if count > 1 else "no gradient"
    if found.zero:
        where = f" for {len(found.zero)} of {of_all}" if count > 1 else ""
        return f"the gradient is zero{where}"
    stopped = len(found.stopped)
    told = [
        f"a gradient for {f'{count - stopped} of ' if stopped else 'all ' if count > 1 else ''}{of_all}"
    ]
    told += [f"{stopped} stopped"] if stopped else []
    told += [f"{WORDS[mark]} at {words.count(n, 'operation')}" for mark, n in found.sizes]
    return ", ".join(told)


def sign(found: Findings) -> tuple[str, str]:
    """A mark for all of it, and its colour."""
    if not found.all_is_well:
        return "✗", "red"
    return ("!", "yellow") if found.sizes else ("✓", "green")


def _headline(flow: FlowData, found: Findings) -> Text:
    mark, style = sign(found)
    cost = f"  ({words.count(len(flow.nodes), 'operation')}, {words.seconds(flow.seconds)})"
    name = (f"{flow.name}: ", "bold")
    return Text.assemble((f"{mark} ", style), name, (verdict(found), "bold"), (cost, "dim"))


def troubles(found: Findings) -> Iterator[tuple[str, str, str]]:
    """What is wrong: title, style and sentence of each."""
    if found.nonfinite:
        yield WORDS["nan"], STYLES["nan"], found.nonfinite
    parts = [("no gradient", STYLES["cut"], _sentences(found.missing))]
    parts += [("zero", STYLES["zero"], _sentences(found.zero))]
    parts += [(WORDS["stopped"], STYLES["stopped"], _sentences(found.stopped))]
    parts += [("note", "dim", list(found.notes))]
    for title, style, sentences in parts:
        yield from ((title, style, text) for text in sentences[:_MOST_TOLD])
        if len(sentences) > _MOST_TOLD:
            yield title, style, f"… and {len(sentences) - _MOST_TOLD} more"


def _sentences(answers: Iterable[Answer]) -> list[str]:
    """One for each cause, with the names of all that it concerns."""
    said: dict[str, list[str]] = {}
    for answer in answers:
        name = f"`{answer.source.name}`"
        said.setdefault(answer.why.removeprefix(f"{name}: "), []).append(name)
    return [why_words.of_all(_listed(names), len(names), text) for text, names in said.items()]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _layers(flow: FlowData, found: Findings, width: int) -> RenderableType:
    rows = outline(grouped(flow), Survey(flow), MOST_ROWS, found.node)
    scale = words.Scale([norm for row in rows for norm in (row.norm, *row.norms)])
    wide = width >= _WIDE
    held = any(row.bytes for row in rows)
    table = Table(
        box=None, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False, header_style="dim"
    )
    title = "layer" if any(row.statistics for row in rows) else "operation"
    table.add_column(f"  {title}", no_wrap=True, max_width=_NAME)
    table.add_column("gradient", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, min_width=_BAR)
    table.add_column("weights", justify="right", no_wrap=True)
    if wide:
        table.add_column("time", justify="right", no_wrap=True)
        table.add_column("held" if held else "", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in rows:
        table.add_row(*_cells(row, scale, wide=wide))
    return table


def told_marks(row: Row) -> list[tuple[Mark, str]]:
    """The marks of a row in words."""
    found: list[tuple[Mark, str]] = [("nan", STARTS_HERE)] if row.breaks else []
    return found + [(m, WORDS[m]) for m in row.marks if not (row.breaks and m == "nan")]


def _cells(row: Row, scale: words.Scale, *, wide: bool) -> Iterator[Any]:
    stats = row.statistics
    times = f" ×{row.count}" if row.count > 1 else ""
    name = Text("  " * (row.depth + 1) + row.name)
    name.truncate(_NAME - len(times), overflow="ellipsis")
    yield name.append(times, style="bold")
    norm = words.number(row.norm) if row.is_finite else "NaN"
    yield Text(norm, style="" if row.norm is not None else "dim")
    style = next((STYLES[mark] for mark in row.marks), "green")
    drawn = scale.line(row.norms, _BAR) if row.norms else scale.bar(row.norm, _BAR)
    yield Text(drawn, style=style)
    yield Text("" if stats is None or stats.weights is None else words.number(stats.weights))
    if wide:
        yield Text(words.seconds(row.seconds) if row.seconds else "", style="dim")
        yield Text(in_bytes(row.bytes) if row.bytes else "", style="dim")
    told = [Text(word, style=STYLES[mark]) for mark, word in told_marks(row)]
    yield Text(", ").join([*told, *([Text(row.line, style="dim")] if row.line else [])])
