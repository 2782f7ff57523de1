"""What pytest learns from pullback: `assert pb.check(...)` shows the report when it fails."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

_HEAD = "the gradient check failed"


def pytest_runtest_makereport(call: Any) -> None:
    """Put the report into the message of an assertion about it that failed."""
    error = getattr(call.excinfo, "value", None)
    if call.when != "call" or not isinstance(error, AssertionError):
        return
    text = str(error)
    failed = _failed_reports(call.excinfo.tb) if "Report(" in text else []
    if failed and str(failed[0]) not in text:
        error.args = ("\n".join([_own_words(text) or _HEAD, *map(str, failed)]),)


def _own_words(text: str) -> str:
    """The message that the test itself gave, which pytest puts before the assertion."""
    return "" if text.startswith("assert ") else text.partition("\nassert ")[0]


def _failed_reports(traceback: Any) -> list[Any]:
    """The failed reports that a test's frame holds: pytest keeps the asserted values there."""
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    found = _reports(list(traceback.tb_frame.f_locals.values()), depth=3)
    return list({id(report): report for report in found if not report.ok}.values())


def _reports(value: Any, depth: int) -> Iterator[Any]:
    if _is_report(value):
        yield value
    elif depth and isinstance(value, dict):
        yield from _reports(list(value.values()), depth)
    elif depth and isinstance(value, list | tuple):
        for item in value:
            yield from _reports(item, depth - 1)


def _is_report(value: object) -> bool:
    module = sys.modules.get("pullback.check.report")
    return module is not None and isinstance(value, module.Report)
