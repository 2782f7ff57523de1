"""SARIF: what the schema of version 2.1.0 requires, and what services make of it."""

import json
from pathlib import Path
from typing import Any

from pullback.check import Finding, Report
from pullback.cli.checking.outcome import Ending, Item, Outcome
from pullback.cli.checking.show.sarif import as_sarif

FACTOR = Report("f", 0, 1, (Finding("factor", "x", "2× too large"),))
OUTCOMES = [
    Outcome(Item("right", "/a/ops.py", 1), "right", ""),
    Outcome(Item("f", "/a/ops.py", 1), "wrong", "2× too large", "x float32[3]", "ops.py:7", FACTOR),
    Outcome(Item("g", "/a/ops.py", 9), "wrong", "2× too large", report=FACTOR),
    Outcome(Item("h", "/a/b c.ipynb", 9, "cell 2:3"), "undecided", "needs inputs"),
    Outcome(Item("module:h"), "undecided", "not there"),
    Outcome(Item("k", "/a/ops.py", 20), "ignored", "ignored: surrogate"),
]


def log() -> dict[str, Any]:
    return json.loads(as_sarif(OUTCOMES, Ending(1.0, "stopped", ("a note",))))


def test_the_log_has_what_the_schema_requires() -> None:
    data = log()
    assert data["version"] == "2.1.0"
    assert data["$schema"].endswith("sarif-2.1.0.json")
    (run,) = data["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "pullback"
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    assert all(isinstance(one["executionSuccessful"], bool) for one in run["invocations"])
    for result in run["results"]:
        assert result["message"]["text"]
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
        for place in result["locations"]:
            physical = place.get("physicalLocation", {"region": {"startLine": 1}})
            assert physical["region"]["startLine"] >= 1
        for suppression in result.get("suppressions", ()):
            assert suppression["kind"] in ("inSource", "external")


def test_each_verdict_has_its_level_and_its_line() -> None:
    (run,) = log()["runs"]
    found = {one["message"]["text"].partition(":")[0]: one for one in run["results"]}
    assert list(found) == ["f", "g", "h (cell 2", "module", "k"]
    levels = [one["level"] for one in found.values()]
    assert levels == ["error", "error", "warning", "warning", "note"]
    assert [one["ruleId"] for one in found.values()] == [
        "wrong-gradient/factor",
        "wrong-gradient/factor",
        "undecided-gradient",
        "undecided-gradient",
        "ignored-gradient",
    ]
    assert found["f"]["message"]["text"] == "f: 2× too large. With x float32[3]."
    places = [one["locations"][0].get("physicalLocation") for one in found.values()]
    assert [place and place["region"]["startLine"] for place in places] == [7, 9, 9, None, 20]
    assert found["h (cell 2"]["locations"][0]["physicalLocation"]["artifactLocation"][
        "uri"
    ].endswith("/a/b%20c.ipynb")


def test_places_below_here_are_relative(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = Outcome(Item("f", str(tmp_path / "src" / "ops.py"), 3), "undecided", "why")
    (result,) = json.loads(as_sarif([outcome], Ending(1.0)))["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {
        "uri": "src/ops.py",
        "uriBaseId": "%SRCROOT%",
    }
    assert [
        note["message"]["text"]
        for note in log()["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    ] == [
        "stopped",
        "a note",
    ]
