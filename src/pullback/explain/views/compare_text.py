"""A comparison in the terminal, and its words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from rich.console import Console, RenderableType
from rich.console import Group as Lines
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pullback.explain.data import Rule
from pullback.explain.views import words
from pullback.explain.views.compare import SAME_DIRECTION, Comparison, Pair, RuleChange
from pullback.explain.views.terminal import print_lines

MOST_ROWS = 30
_MOST_RULES = 12
_MOST_SOURCES = 12
_MOST_LAYERS = 3
_BAR = 10
KINDS = {
    "engine": "the framework's",
    "custom": "custom",
    "pullback": "pullback's",
    "override": "overridden",
    "none": "none registered",
    "stopped": "stopped",
    "unrecorded": "not recorded",
}


def show(comparison: Comparison, file: IO[str] | None = None) -> None:
    """Print a comparison."""
    print_lines(Console(file=file, highlight=False), rendered(comparison))


def as_text(comparison: Comparison) -> str:
    """A few lines: how much differs, and the rules."""
    return "\n".join([headline(comparison), *(f"  {line}" for line in rule_lines(comparison))])


def called(comparison: Comparison) -> str:
    """What is compared."""
    left, right = comparison.labels
    of = f"{comparison.left}, " if comparison.left == comparison.right else ""
    return f"{of}{left} against {right}"


def headline(comparison: Comparison) -> str:
    """How much differs."""
    title = f"{called(comparison)}: "
    parts = [
        f"{sum(p.differs for p in pairs)} of {words.count(len(pairs), thing)}"
        for pairs, thing in (
            (comparison.layers, comparison.layers[0].kind if comparison.layers else "layer"),
            (comparison.sources, "source"),
        )
        if pairs
    ]
    if not comparison.differing and not comparison.rules:
        return f"{title}the same gradients"
    return f"{title}another gradient at {' and '.join(parts)}"


def rendered(comparison: Comparison) -> RenderableType:
    """For a rich console."""
    lines = [Padding(Text(line), (0, 0, 0, 2)) for line in rule_lines(comparison)]
    tables = [
        _table(comparison, title, pairs)
        for title, pairs in (("source", comparison.sources), ("layer", comparison.layers))
        if any(pair.differs for pair in pairs)
    ]
    spaced = [part for table in tables for part in (Text(), table)]
    return Lines(Text(headline(comparison), style="bold"), *lines, *spaced)


def rule_lines(comparison: Comparison) -> Iterator[str]:
    """One line for each kind of change."""
    for change in comparison.rules[:_MOST_RULES]:
        yield f"{_where(change)}: {rule_words(change.left)} → {rule_words(change.right)}"
    if len(comparison.rules) > _MOST_RULES:
        yield f"… and {len(comparison.rules) - _MOST_RULES} more changes of rules"


def _where(change: RuleChange) -> str:
    times = f" ×{change.count}" if change.count > 1 else ""
    if not change.layers:
        return f"{change.type}{times}"
    more = len(change.layers) - _MOST_LAYERS
    layers = ", ".join(change.layers[:_MOST_LAYERS]) + (f" and {more} more" if more > 0 else "")
    return f"{change.type}{times} in {layers}"


def rule_words(rule: Rule | None) -> str:
    """Whose rule, and where it is written."""
    if rule is None:
        return "not there"
    place = f"({Path(rule.place.file).name}:{rule.place.line})" if rule.place else ""
    target = f"by {rule.target}" if rule.target else ""
    return " ".join(filter(None, (KINDS[rule.kind], rule.name, target, place)))


def chosen(pairs: Sequence[Pair], most: int) -> list[Pair]:
    """The pairs that differ most, in the order in which they came."""
    differing = [pair for pair in pairs if pair.differs]
    kept = sorted(differing, key=_weight, reverse=True)[:most]
    return [pair for pair in differing if any(pair is one for one in kept)]


def _weight(pair: Pair) -> float:
    known = pair.ratio is not None and pair.ratio > 0  # which NaN is not
    turned = 1 - pair.cosine if pair.cosine is not None else 0.0
    return abs(math.log(pair.ratio or 1)) + turned if known else math.inf


def change_words(pair: Pair) -> str:
    """What became of a norm."""
    if pair.only:
        return f"only {pair.only}"
    if pair.left is None or pair.right is None:
        return "gained" if pair.left is None else "lost"
    if math.isnan(pair.left) or math.isnan(pair.right):
        return "finite now" if math.isnan(pair.left) else "NaN or Inf"
    size = "×∞" if pair.ratio is None else f"×{words.number(pair.ratio)}"
    if not pair.is_turned or pair.cosine is None:
        return size
    angle = "reversed" if pair.cosine < -SAME_DIRECTION else f"cosine {pair.cosine:.2f}"
    return angle if size == "×1" else f"{size}, {angle}"


def _table(comparison: Comparison, title: str, pairs: Sequence[Pair]) -> Table:
    rows = chosen(pairs, MOST_ROWS if title == "layer" else _MOST_SOURCES)
    scale = words.Scale([norm for pair in rows for norm in (pair.left, pair.right)])
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(f"  {title}", no_wrap=True, max_width=26)
    for name in comparison.labels:
        table.add_column(Text(name), justify="right", no_wrap=True, max_width=12)
        table.add_column("", no_wrap=True, min_width=_BAR)
    table.add_column("", no_wrap=True)
    for pair in rows:
        norms = [
            (words.number(n), Text(scale.bar(n, _BAR), style="blue"))
            for n in (pair.left, pair.right)
        ]
        table.add_row(Text(f"  {pair.name}"), *norms[0], *norms[1], _styled(pair))
    left_out = sum(pair.differs for pair in pairs) - len(rows)
    if left_out:
        table.add_row(Text(f"  … and {left_out} that differ less", style="dim"))
    return table


def _styled(pair: Pair) -> Text:
    ratio = pair.ratio
    style = "red" if ratio is None else "magenta" if ratio > 1 else "yellow"
    return Text(change_words(pair), style=style)
