"""The page of an audit: counts, what is wrong and a program for each fault, and a line for every function."""

import html as html_format
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources

from pullback.audit import results as r
from pullback.audit.results import Fault, Result

_OWN = re.compile(r"\s*\(the engine's own gradient of (\w+) is wrong there, no rule of yours\)")
_UNEXPLAINED = re.compile(r"; none of \d+ explanations tried predicts it")
_OP = "tf.raw_ops."
_TITLES = {
    r.WRONG: "Wrong",
    r.NAN: "NaN",
    r.NONE: "None",
    r.SECOND: "Second derivatives",
}
_METHOD = (
    "`pb.check` found each. The program that is shown for it is of the framework and NumPy alone; it was run, and a "
    "second opinion that knows nothing of the check had to bear it out: quotients of differences to either side of "
    "every number. At a kink any number between the slopes of the two sides counts as right. What was not borne out "
    "is listed as unconfirmed. The inputs in a program are the smallest at which the same was found."
)
_LONG = 160  # characters of a diagnosis or reason in a table


def as_markdown(head: Mapping[str, str], found: Sequence[Result]) -> str:
    """The page as Markdown."""
    groups = grouped(found)
    parts = [
        f"# What is wrong with the gradients of {head['version']}",
        _introduction(head, found, groups),
        _counts(found),
        *(_section(status, groups) for status in r.FAULTS),
        _others(found),
        _all(found),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def grouped(found: Iterable[Result]) -> dict[str, list[Result]]:
    """Functions with faults by where the fault is: an op that is wrong itself heads those that run it."""
    faulty = [one for one in found if one.is_fault]
    at_ops = {o.name: {f.status for f in o.faults} for o in faulty if o.name.startswith(_OP)}
    groups: dict[str, list[Result]] = defaultdict(list)
    for one in faulty:
        groups[_head(one, at_ops)].append(one)
    return {name: sorted(ones, key=lambda o: o.name != name) for name, ones in groups.items()}


def _head(one: Result, at_ops: Mapping[str, set[str]]) -> str:
    if one.name in at_ops:
        return one.name
    named = [_OP + m[1] for f in one.faults if (m := _OWN.search(f.diagnosis))]
    runs = [op for op in (*named, *one.operations) if one.status in at_ops.get(op, ())]
    return runs[0] if runs else one.name


def _introduction(
    head: Mapping[str, str], found: Sequence[Result], groups: Mapping[str, object]
) -> str:
    called = sum(one.was_called for one in found)
    sets = sum(one.cases for one in found)
    faulty = sum(one.is_fault for one in found)
    left = sum(one.left_out for one in found)
    every = int(head.get("names", len(found)))
    share = f"{len(found):,}" if every == len(found) else f"{len(found):,} of {every:,}"
    causes = "1 cause" if len(groups) == 1 else f"{len(groups):,} causes"
    return (
        f"`pullback audit {head['framework']}` on {head['date']}: {share} ops, functions, layers and losses "
        f"looked at, {called:,} of them called, with {sets:,} sets of inputs made for them ({left:,} more were "
        f"left out for want of time). The gradient of {faulty:,} is wrong, NaN or missing somewhere, for "
        f"{causes} as far as they can be told apart.\n\n{_METHOD}"
    )


def _counts(found: Sequence[Result]) -> str:
    counts = Counter(one.status for one in found)
    rows = [
        f"| {kind} | {counts[kind]:,} | {meaning} |"
        for kind, meaning in r.MEANING.items()
        if counts[kind]
    ]
    return "\n".join(["| | functions | |", "|---|---|---|", *rows])


def _section(status: str, groups: Mapping[str, list[Result]]) -> str:
    chosen = {name: ones for name, ones in groups.items() if ones[0].status == status}
    if not chosen:
        return ""
    parts = [_cause(name, ones) for name, ones in sorted(chosen.items())]
    return "\n\n".join([f"## {_TITLES[status]}", f"{r.MEANING[status].capitalize()}.", *parts])


def _cause(name: str, ones: Sequence[Result]) -> str:
    first = ones[0]
    faults = [f for f in first.faults if f.status in r.FAULTS]
    mended = next((one.mended for one in ones if one.mended), "")
    known = [*first.aliases, *(one.name for one in ones if one.name != name)]
    others = [f"`{other}`" for other in known]
    lines = [f"### `{name}`"]
    lines += ["\n".join(f"- {_told(fault, first.status)}" for fault in faults)]
    lines += [f"Also: {', '.join(others)}."] if others else []
    lines += [f"`{mended}` is right there, of real numbers."] if mended else []
    lines += [f"```py\n{faults[0].script.strip()}\n```", f"```text\n{faults[0].shown.strip()}\n```"]
    return "\n\n".join(lines)


def _told(fault: Fault, usual: str) -> str:
    kink = "at a kink, " if fault.kink else ""
    kind = "" if fault.status == usual else f"{_TITLES[fault.status]}: "
    return f"{kind}{kink}{_plain(fault.diagnosis)} (inputs: {fault.what})"


def _plain(diagnosis: str) -> str:
    """A diagnosis without what it says to somebody whose rule it is."""
    return _UNEXPLAINED.sub("", _OWN.sub("", diagnosis))


def _others(found: Sequence[Result]) -> str:
    parts: list[str] = []
    for status in (r.SINGULAR, r.DESIGN, r.UNCONFIRMED, r.LOST, r.UNDECIDED):
        chosen = [one for one in found if one.status == status]
        if chosen:
            rows = [f"| `{one.name}` | {_cell(_why(one))} |" for one in chosen]
            head = [f"## {status.capitalize()}", "", f"{r.MEANING[status].capitalize()}.", ""]
            parts.append("\n".join([*head, "| | |", "|---|---|", *rows]))
    crashed = [f"| `{one.name}` | {one.crash} |" for one in found if one.crash]
    if crashed:
        told = "With axes of size 1 or 0 the process ended; the rest was audited without them."
        parts.append("\n".join(["## Crashes", "", told, "", "| | |", "|---|---|", *crashed]))
    return "\n\n".join(parts)


def _why(one: Result) -> str:
    return one.reason or (one.faults[0].diagnosis if one.faults else "")


def _all(found: Sequence[Result]) -> str:
    rows = [
        f"| `{one.name}` | {one.status} | {one.cases or ''} | {_cell(_note(one))} |"
        for one in found
    ]
    head = ["## Every function", "", "| | | sets of inputs | |", "|---|---|---|---|"]
    return "\n".join([*head, *rows])


def _note(one: Result) -> str:
    if one.status == r.RIGHT:
        return ""
    return _why(one)


def _cell(text: str) -> str:
    plain = " ".join(_plain(text).split())
    plain = plain if len(plain) <= _LONG else plain[: _LONG - 1] + "…"
    code = plain.split("`")
    code[::2] = [part.replace("<", "&lt;").replace("[", "&#91;") for part in code[::2]]
    return "`".join(code).replace("|", "\\|")


def as_html(head: Mapping[str, str], found: Sequence[Result]) -> str:
    """The page as HTML that needs no network."""
    style = resources.files("pullback.check.report").joinpath("page.css").read_text("utf-8")
    body = _as_tags(as_markdown(head, found))
    title = html_format.escape(f"Gradients of {head['version']}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{style}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _as_tags(markdown: str) -> str:
    """The Markdown of this page in tags: headings, tables, lists, code and paragraphs are all it has."""
    return "\n".join(
        _block(block) for block in re.split(r"\n\n(?![^`]*```$)", markdown.strip()) if block
    )


def _block(block: str) -> str:
    lines = block.splitlines()
    if block.startswith("```"):
        return f"<pre><code>{html_format.escape(chr(10).join(lines[1:-1]))}</code></pre>"
    if block.startswith("#"):
        level = len(block) - len(block.lstrip("#"))
        return f"<h{level}>{_inline(lines[0][level + 1 :])}</h{level}>" + "".join(
            map(_block, lines[1:])
        )
    if block.startswith("|"):
        rows = [line.strip("|").split(" | ") for line in lines if not line.startswith("|---")]
        cells = ["".join(f"<td>{_inline(cell.strip())}</td>" for cell in row) for row in rows]
        return "<table>" + "".join(f"<tr>{row}</tr>" for row in cells) + "</table>"
    if block.startswith("- "):
        return "<ul>" + "".join(f"<li>{_inline(line[2:])}</li>" for line in lines) + "</ul>"
    return f"<p>{_inline(block)}</p>"


def _inline(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html_format.escape(html_format.unescape(text)))
