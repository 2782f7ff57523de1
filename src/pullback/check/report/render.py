"""A report as text, for the terminal; the words that the page uses too."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from rich.console import Group
from rich.text import Text

from pullback.check import numbers as n
from pullback.check.probe import Array
from pullback.check.probe.vectors import all_but_one
from pullback.check.report.data import Finding, Line, Report

Piece = tuple[str, str]
MARKS = {"right": "✓", "wrong": "✗", "undecided": "?"}
FARED = {True: "✓", False: "✗", None: "·"}
STYLES = {"✓": "green", "✗": "red", "?": "yellow", "·": "dim"}
# With so many digits a float64 is told from every other.
_MOST_DIGITS = np.finfo(np.float64).precision + 2
_AGAIN = "the function must give the same each time it is called with the same arguments"


def as_text(report: Report) -> str:
    """Plain text, one finding per paragraph."""
    return "\n".join("".join(text for text, _ in line) for line in _lines(report))


def as_rich(report: Report) -> Any:
    """The same for a rich console."""
    return Group(*(Text.assemble(*line) for line in _lines(report)))


def _lines(report: Report) -> Iterator[list[Piece]]:
    mark, name = MARKS[report.verdict], f"{report.name}: {headline(report)}"
    yield [(f"{mark} ", STYLES[mark]), (name, "bold"), (f"  ({cost(report)})", "dim")]
    yield from map(_leaf, (*report.inputs, *report.outputs))
    before: list[str] = []
    for k, finding in enumerate(report.findings):
        if k:  # the first is the headline
            yield [("  ✗ ", "red"), (finding.diagnosis, "")]
        told = [text for text in details(report, finding) if text not in before]
        yield from ([("    " + text, "")] for text in told)
        before += told
    yield from ([("  " + text, "")] for text in undecided(report))
    yield from ([("  " + text, "dim")] for text in covered(report))
    if report.findings:
        yield [("  reproduce:", "dim")]
        yield from ([("    " + text, "")] for text in report.reproduce.splitlines())


def _leaf(line: Line) -> list[Piece]:
    leaf, mark = line.leaf, FARED[line.ok]
    arrow = "→ " if leaf.kind == "output" else "  "
    path = "" if leaf.path == leaf.name else f"  {leaf.path}"
    text = f"{arrow}{leaf.name}  {leaf.describe()}"
    return [("  ", ""), (f"{mark} ", STYLES[mark]), (text, ""), (path, "dim")]


def headline(report: Report) -> str:
    """The verdict in words."""
    if report.verdict == "right":
        return "the gradient is " + (f"that of {report.against}" if report.against else "right")
    return report.diagnosis or "undecided: the given arguments do not tell"


def cost(report: Report) -> str:
    """What the check took."""
    return f"{report.calls} calls, {report.seconds:.2g} s, seed {report.seed}"


def details(report: Report, finding: Finding, *, place: bool = True) -> list[str]:
    """Numbers, place and remedy of a finding, a line each; without its place where that is shown by itself."""
    made_up, points = finding.made_up, _many(finding.confirmed, "point")
    at = arrays(finding.at) if made_up or _is_long(report) else ""
    lines = {
        _numbers(report, finding): True,
        f"{_passed(report, finding)}: {finding.point}": made_up,
        f"if such values are not meant, write `{finding.exclude}`": made_up and finding.exclude,
        f"it fails for {at}": at,
        f"upstream: {arrays(finding.upstream)}": finding.upstream,
        f"the diagnosis was confirmed at {points} that it was not fitted to": finding.confirmed,
        f"rule: {_in_one_line(finding.source)}": place and finding.source,
        "order=1 leaves second derivatives out": finding.kind == "second",
    }
    return [line for line, applies in lines.items() if line and applies]


def _in_one_line(source: str | None) -> str:
    """A place, in whose file name there may be line breaks."""
    return (source or "").replace("\r", "\\r").replace("\n", "\\n")


def _passed(report: Report, finding: Finding) -> str:
    given = report.coverage.points[:1]
    if finding.kind == "second" and not set(given) & set(report.coverage.second):
        return "seen at arguments that were made up"
    return "the given arguments pass, made-up ones do not"


def _is_long(report: Report) -> bool:
    return sum(line.leaf.size for line in report.inputs) > n.FEW


def _numbers(report: Report, finding: Finding) -> str:
    if finding.got is None or finding.wanted is None:
        return ""
    got, wanted = tell_apart(finding.got, finding.wanted)
    if finding.kind == "mode":
        return f"{finding.path}: {got}, in eager execution {wanted}"
    error, size = finding.error or 0.0, np.fmax(abs(finding.got), abs(finding.wanted))
    bar = f" ± {error:.1g}" if np.finfo(float).eps * size < error < math.inf else ""
    names = {line.leaf.path: line.leaf.name for line in report.inputs}
    at = f" at {finding.entry}" if finding.entry else ""
    what = f"gradient for `{names.get(finding.path, finding.path)}`{at}"
    if not finding.path:
        what = "change along one direction"
    elif finding.kind == "second":
        what = f"derivative of the {what} along one direction"
    return f"{what}: the rule gives {got}, {report.against or 'the function'} says {wanted}{bar}"


def tell_apart(*numbers: float) -> list[str]:
    """Numbers with the digits that it takes to see that they differ."""
    finite = [x for x in numbers if math.isfinite(x)]
    size = max(map(abs, finite), default=0.0)
    gap = max(finite, default=0.0) - min(finite, default=0.0)
    digits = math.ceil(-math.log10(gap / size)) + n.MORE_DIGITS if gap else 0
    digits = min(max(digits, n.LEAST_DIGITS), _MOST_DIGITS)
    power = math.floor(math.log10(size)) if size else 0
    if -n.LEAST_DIGITS < power < n.LEAST_DIGITS:
        decimals = max(0, digits - 1 - power)
        while decimals and all(round(x, decimals - 1) == round(x, decimals) for x in finite):
            decimals -= 1
        texts = [f"{x:.{decimals}f}" for x in numbers]
    else:
        texts = [f"{x:.{digits - 1}e}" for x in numbers]
    return ["NaN" if text == "nan" else text if text.strip("-0.") else "0" for text in texts]


def arrays(values: Mapping[str, Array]) -> str:
    """Arrays by name, as short as can be."""
    return ", ".join(f"{name} = {_array(np.asarray(value))}" for name, value in values.items())


def _array(value: Array) -> str:
    if value.size <= n.FEW:
        return _listed(value)
    known = all_but_one(value)
    if known is None:
        return f"{list(value.shape)}, kept in finding.at"
    usual, other, place = known
    index = ",".join(map(str, np.unravel_index(place, value.shape)))
    return f"{usual:g} throughout" + (f" but {other:g} at [{index}]" if other != usual else "")


def _listed(value: Array) -> str:
    return f"[{', '.join(map(_listed, value))}]" if value.ndim else f"{value.item():g}"


def undecided(report: Report) -> list[str]:
    """Why nothing can be said, and what to write."""
    if report.verdict != "undecided":
        return []
    seen, names = report.coverage, [repr(line.leaf.name) for line in report.inputs]
    if seen.varies and not seen.open_given and len(seen.reasons) == 1:
        return [*seen.reasons, _AGAIN]
    count = f"{seen.open_given} of the numbers compared there stayed open"
    write = "to decide it, pass arguments at which the function is finite and smooth"
    if len(names) > 1:
        write += f", or leave out the inputs that cannot be told, as in `wrt={names[0]}`"
    domain = [f"`domain={{{name}: (low, high)}}` says where to try it" for name in names[:1]]
    return [*seen.reasons, *([count] if seen.open_given else []), write, *domain]


def covered(report: Report) -> list[str]:
    """What was looked at, a line each."""
    seen = report.coverage
    second = f", {len(seen.second)} of them to second order" if seen.second else ""
    points = f"{_many(len(seen.points), 'point')}{second}: {_listing(seen.points)}"
    dead = f"{seen.never_reached} of {seen.entries} entries"
    lines = {
        f"tested at {points}": seen.points,
        f"left out, where the function has no value: {_listing(seen.left_out)}": seen.left_out,
        f"kinks met: {seen.kinks} (there any derivative between the two sides is right)": seen.kinks,
        f"left open: {seen.undecided} of the numbers compared at made-up points": seen.undecided,
        f"gradient zero everywhere: {dead}": seen.never_reached and report.ok,
        f"same in: {' · '.join(seen.modes)}": seen.modes,
    }
    return [line for line, applies in lines.items() if applies] + list(seen.notes)


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count > 1)}"


def _listing(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))
