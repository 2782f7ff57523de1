"""What pytest learns from pullback: `assert pb.check(...)` shows the report when it fails."""

from __future__ import annotations

import sys
from typing import Any


def pytest_runtest_makereport(call: Any) -> None:
    """Put the report into the message of a bare `assert report` that failed."""
    error = getattr(call.excinfo, "value", None)
    if call.when != "call" or not isinstance(error, AssertionError):
        return
    report = _failed_report(call.excinfo.tb)
    if report is not None and str(report) not in str(error):
        error.args = ("\n".join(["the gradient check failed", *_lines(report)]),)


def _failed_report(traceback: Any) -> Any:
    """The failed report that a test's frame holds: pytest keeps the asserted value there."""
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    held = traceback.tb_frame.f_locals.values()
    return next((value for value in held if _is_report(value) and not value.ok), None)


def _is_report(value: object) -> bool:
    module = sys.modules.get("pullback.check.report")
    return module is not None and isinstance(value, module.Report)


def _lines(report: Any) -> list[str]:
    return str(report).splitlines()
