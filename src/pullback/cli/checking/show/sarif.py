"""Outcomes as SARIF 2.1.0, which code scanning services and editors show beside the lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlunsplit

from pullback._version import __version__
from pullback.cli.checking.outcome import IGNORED, RIGHT, UNKNOWN, WRONG, Ending, Outcome
from pullback.cli.checking.show.files import line_of_rule, shown

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {WRONG: "error", UNKNOWN: "warning", IGNORED: "note"}
_ABOUT = {
    WRONG: "The gradient is not the derivative: {}.",
    UNKNOWN: "It could not be decided whether the gradient is the derivative.",
    IGNORED: "The gradient is meant to differ from the derivative.",
}


def as_sarif(outcomes: Sequence[Outcome], ending: Ending) -> str:
    """A log of one run; what is right is no result."""
    told = [one for one in outcomes if one.status != RIGHT]
    rules = list(dict.fromkeys(map(_rule, told)))
    driver = {
        "name": "pullback",
        "version": __version__,
        "rules": [_about(status, kind) for status, kind in rules],
    }
    remarks = [{"level": "note", "message": {"text": remark}} for remark in ending.remarks]
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": remarks}],
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, rules.index(_rule(one))) for one in told],
    }
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False)


def _rule(outcome: Outcome) -> tuple[str, str]:
    """The status, and of what is wrong the kind of the finding."""
    findings = outcome.report.findings if outcome.report is not None else ()
    kind = findings[0].kind if outcome.status == WRONG and findings else ""
    return outcome.status, kind


def _id(status: str, kind: str) -> str:
    return f"{status}-gradient/{kind}" if kind else f"{status}-gradient"


def _about(status: str, kind: str) -> dict[str, Any]:
    return {
        "id": _id(status, kind),
        "shortDescription": {"text": _ABOUT[status].format(kind or "see the message")},
        "defaultConfiguration": {"level": _LEVELS[status]},
    }


def _result(outcome: Outcome, index: int) -> dict[str, Any]:
    item = outcome.item
    place = f" ({item.cell})" if item.cell else ""
    inputs = f" With {outcome.inputs}." if outcome.inputs else ""
    said = f"{outcome.text.removesuffix('.')}." if outcome.text else ""
    result: dict[str, Any] = {
        "ruleId": _id(*_rule(outcome)),
        "ruleIndex": index,
        "level": _LEVELS[outcome.status],
        "message": {"text": f"{item.name}{place}: {said}{inputs}"},
        "locations": [_location(outcome)],
        # of one function there is one result, wherever it moves to in its file
        "partialFingerprints": {"function/v1": f"{shown(item.file)}:{item.name}"},
    }
    if outcome.status == IGNORED:
        result["suppressions"] = [{"kind": "inSource", "justification": outcome.text}]
    return result


def _location(outcome: Outcome) -> dict[str, Any]:
    item = outcome.item
    named = {"logicalLocations": [{"fullyQualifiedName": item.name, "kind": "function"}]}
    if not item.file:
        return named
    region = {"startLine": line_of_rule(outcome)}
    return {
        **named,
        "physicalLocation": {"artifactLocation": _artifact(item.file), "region": region},
    }


def _artifact(file: str) -> dict[str, str]:
    path = Path(shown(file))
    name = path.as_posix()
    try:
        quoted = quote(name, errors="surrogateescape")  # a name of a file is bytes
    except UnicodeEncodeError:  # and this is none
        quoted = quote(name, errors="backslashreplace")
    if path.is_absolute():
        return {"uri": urlunsplit(("file", "", quoted, "", ""))}
    return {"uri": quoted, "uriBaseId": "%SRCROOT%"}
