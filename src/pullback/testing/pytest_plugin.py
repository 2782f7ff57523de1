"""What pytest learns from pullback: `assert pb.check(...)` shows the report when it fails."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

_HEAD = "the gradient check failed"
_DEPTH = 3  # of lists and dicts in which reports are looked for


def pytest_runtest_makereport(call: Any) -> None:
    """Put the report into the message of an assertion about it that failed."""
    error = getattr(call.excinfo, "value", None)
    if call.when != "call" or not isinstance(error, AssertionError):
        return
    text = str(error)
    shows_report = "Report(" in text and "pullback.check" in sys.modules
    failed = _failed_reports(call.excinfo.tb) if shows_report else []
    if failed and str(failed[0]) not in text:
        error.args = ("\n".join([_own_words(text) or _HEAD, *map(str, failed)]),)


def _own_words(text: str) -> str:
    """The message that the test itself gave, which pytest puts before the assertion."""
    return "" if text.startswith("assert ") else text.partition("\nassert ")[0]


def _failed_reports(traceback: Any) -> list[Any]:
    """The failed reports that a test's frame holds: pytest keeps the asserted values there."""
    from pullback._reach import walk  # not earlier: the plugin is part of every session
    from pullback.check import Report

    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    found = walk(*traceback.tb_frame.f_locals.values(), depth=_DEPTH, inside=_items)
    return [value for value in found if isinstance(value, Report) and not value.ok]


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else ()
