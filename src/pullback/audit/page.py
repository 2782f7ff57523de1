"""The page of an audit: counts, what is wrong and a program for each fault, and a line for every function."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pullback.audit import document
from pullback.audit import results as r
from pullback.audit.document import Block, Heading, Items, Paragraph, Program, Table
from pullback.audit.results import Fault, Result

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
    return document.as_markdown(_blocks(head, found))


def as_html(head: Mapping[str, str], found: Sequence[Result]) -> str:
    """The page as HTML that needs no network."""
    return document.as_html(_blocks(head, found), f"Gradients of {head['version']}")


def _blocks(head: Mapping[str, str], found: Sequence[Result]) -> list[Block]:
    groups = grouped(found)
    return [
        Heading(1, f"What is wrong with the gradients of {head['version']}"),
        Paragraph(_introduction(head, found, groups)),
        Paragraph(_METHOD),
        _counts(found),
        *(block for status in r.FAULTS for block in _section(status, groups)),
        *_others(found),
        *_all(found),
    ]


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
    named = [_OP + name for f in one.faults for name in f.wrong_ops]
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
        f"{causes} as far as they can be told apart."
    )


def _counts(found: Sequence[Result]) -> Block:
    counts = Counter(one.status for one in found)
    rows = [
        (kind, f"{counts[kind]:,}", meaning) for kind, meaning in r.MEANING.items() if counts[kind]
    ]
    return Table(("", "functions", ""), tuple(rows))


def _section(status: str, groups: Mapping[str, list[Result]]) -> list[Block]:
    chosen = {name: ones for name, ones in groups.items() if ones[0].status == status}
    causes = [block for name, ones in sorted(chosen.items()) for block in _cause(name, ones)]
    about = _meaning(status)
    return [Heading(2, _TITLES[status]), about, *causes] if causes else []


def _meaning(status: str) -> Block:
    text = r.MEANING[status]
    return Paragraph(f"{text[0].upper()}{text[1:]}.")


def _cause(name: str, ones: Sequence[Result]) -> Iterator[Block]:
    first = ones[0]
    faults = [f for f in first.faults if f.status in r.FAULTS]
    mended = next((one.mended for one in ones if one.mended), "")
    known = [*first.aliases, *(one.name for one in ones if one.name != name)]
    yield Heading(3, f"`{name}`")
    yield Items(tuple(_told(fault, first.status) for fault in faults))
    if known:
        yield Paragraph(f"Also: {', '.join(f'`{other}`' for other in known)}.")
    if mended:
        yield Paragraph(f"`{mended}` is right there, of real numbers.")
    yield Program("py", faults[0].script)
    yield Program("text", faults[0].shown)


def _told(fault: Fault, usual: str) -> str:
    kink = "at a kink, " if fault.kink else ""
    kind = "" if fault.status == usual else f"{_TITLES[fault.status]}: "
    return f"{kind}{kink}{fault.diagnosis} (inputs: {fault.what})"


def _others(found: Sequence[Result]) -> Iterator[Block]:
    for status in (r.SINGULAR, r.DESIGN, r.UNCONFIRMED, r.LOST, r.UNDECIDED):
        rows = [(f"`{one.name}`", _cell(_why(one))) for one in found if one.status == status]
        if rows:
            yield Heading(2, status.capitalize())
            yield _meaning(status)
            yield Table(("", ""), tuple(rows))
    crashed = [(f"`{one.name}`", one.crash) for one in found if one.crash]
    if crashed:
        yield Heading(2, "Crashes")
        yield Paragraph(
            "With axes of size 1 or 0 the process ended; the rest was audited without them."
        )
        yield Table(("", ""), tuple(crashed))


def _why(one: Result) -> str:
    return one.reason or (one.faults[0].diagnosis if one.faults else "")


def _all(found: Sequence[Result]) -> Iterator[Block]:
    rows = [(f"`{one.name}`", one.status, str(one.cases or ""), _cell(_note(one))) for one in found]
    yield Heading(2, "Every function")
    yield Table(("", "", "sets of inputs", ""), tuple(rows))


def _note(one: Result) -> str:
    if one.status == r.RIGHT:
        return ""
    return _why(one)


def _cell(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _LONG else plain[: _LONG - 1] + "…"
