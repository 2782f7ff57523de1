"""Outcomes for programs: JSON, JUnit's XML, annotations of GitHub."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from pullback.cli.checking.outcome import IGNORED, RIGHT, UNKNOWN, WRONG, Ending, Outcome
from pullback.cli.source import line_of_place

_BREAKS = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_IN_PROPERTIES = {**_BREAKS, ":": "%3A", ",": "%2C"}


def as_json(outcomes: Sequence[Outcome], ending: Ending) -> str:
    """All that is known, without the pictures."""
    kinds = (RIGHT, WRONG, UNKNOWN, IGNORED)
    counts = {kind: sum(o.status == kind for o in outcomes) for kind in kinds}
    data = {
        "counts": counts,
        "seconds": round(ending.seconds, 3),
        "stopped": ending.stopped or None,
        "notes": list(ending.notes),
        "results": [o.to_dict() for o in outcomes],
    }
    return json.dumps(data, indent=2, ensure_ascii=False)


def as_junit(outcomes: Sequence[Outcome], ending: Ending) -> str:
    """A wrong gradient is a failure, an undecided one an error, an ignored one skipped."""
    wrong, unknown = (sum(o.status == kind for o in outcomes) for kind in (WRONG, UNKNOWN))
    skipped = sum(o.status == IGNORED for o in outcomes)
    counts = {"tests": len(outcomes), "failures": wrong, "errors": unknown, "skipped": skipped}
    attributes = {name: str(count) for name, count in counts.items()}
    attributes |= {"name": "pullback check", "time": f"{ending.seconds:.3f}"}
    suite = ElementTree.Element("testsuite", attributes)
    tags = {WRONG: "failure", UNKNOWN: "error", IGNORED: "skipped"}
    for outcome in outcomes:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            name=outcome.item.name,
            classname=shown(outcome.item.file),
            file=shown(outcome.item.file),
            line=str(outcome.item.line),
            time=f"{outcome.seconds:.3f}",
        )
        if outcome.status in tags:
            inner = ElementTree.SubElement(case, tags[outcome.status], message=outcome.text)
            inner.text = outcome.text + (f"\nwith {outcome.inputs}" if outcome.inputs else "")
    if ending.remarks:
        ElementTree.SubElement(suite, "system-out").text = "\n".join(ending.remarks)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(
        suite, encoding="unicode"
    )


def as_github(outcome: Outcome) -> str:
    """An annotation at the line of the rule; nothing for what is right."""
    level = {WRONG: "error", UNKNOWN: "warning", IGNORED: "notice"}.get(outcome.status)
    if level is None:
        return ""
    file, line = shown(outcome.item.file), line_of_rule(outcome)
    title = _escaped(f"pullback: {outcome.item.name}", _IN_PROPERTIES)
    place = f"file={_escaped(file, _IN_PROPERTIES)},line={line}," if file else ""
    return f"::{level} {place}title={title}::{_escaped(outcome.text, _BREAKS)}"


def as_notice(text: str) -> str:
    """An annotation of the whole run."""
    return f"::notice title=pullback check::{_escaped(text, _BREAKS)}"


def line_of_rule(outcome: Outcome) -> int:
    """The line of the file at which the rule is written, or else the function."""
    at = line_of_place(Path(outcome.item.file), outcome.source.partition(",")[0])
    return at or max(outcome.item.line, 1)


def _escaped(text: str, codes: dict[str, str]) -> str:
    return "".join(codes.get(letter, letter) for letter in text)


def shown(file: str) -> str:
    """A path from here, where it is below."""
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else file
