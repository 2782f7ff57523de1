"""What the pytest plugin does once pullback is used. Its hooks are in `_pullback_pytest`, which every session loads."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, ValuesView
from typing import Any

import pytest

import pullback
from pullback._reach import walk
from pullback.check import Report
from pullback.check.options import as_code

_DEPTH = 3  # of lists and dicts in which reports are looked for
_MOST = 5  # reports that one failure shows in full
_NOT = re.compile(r"^assert not |is not false", re.M)
_HEADS = {
    "wrong": "the gradient check failed",
    "right": "the gradient check was expected to fail, and passed",
    "both": "these gradients were checked",
}


def case(mark: pytest.Mark) -> Any:
    """A mark as a case of a parametrised test."""
    options = dict(mark.kwargs)
    name, marks = options.pop("id", None), options.pop("marks", ())
    if not mark.args:
        raise pytest.UsageError(
            "@pytest.mark.pullback takes a function and its arguments: @pytest.mark.pullback(fn, x)."
        )
    name = as_code(mark.args[0], type(mark.args[0]).__name__).strip("'") if name is None else name
    return pytest.param((mark.args, options), id=name, marks=marks)


class CheckGradient:
    """`pb.check` for a test: it fails the test unless the gradient is right."""

    def __init__(self, case: Any, modes: list[str] | None, not_run: Callable[[str], None]) -> None:
        self.has_run = False
        self._case = case
        self._modes = modes
        self._not_run = not_run

    def __call__(self, *args: Any, **options: Any) -> Report:
        """The report, if the gradient is right; else an assertion fails with it."""
        __tracebackhide__ = True
        if not args:
            args, options = self._marked(options)
        if self._modes is not None:
            options = {"modes": self._modes or "none", **options}
        report = pullback.check(*args, **options)
        if "modes" in options:
            self._note(report)
        return report.raise_if_failed()

    def __repr__(self) -> str:
        return "check_gradient"

    def _marked(self, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        if self._case is None:
            raise TypeError(
                "check_gradient takes a function and its arguments, as in check_gradient(fn, x); without them, the "
                "test needs @pytest.mark.pullback(fn, x)."
            )
        self.has_run = True
        args, given = self._case
        return args, {**given, **options}

    def _note(self, report: Report) -> None:
        """A mode that was asked for and could not be run is told at the end of the session."""
        missing = [note for note in report.coverage.notes if ": not run (" in note]
        for note in missing:
            self._not_run(f"{report.name}: {note}")


def show_reports(error: AssertionError) -> None:
    """Put the reports that a failed assertion is about into its message."""
    text = str(error)
    is_mentioned = "Report(" in text
    reports = _asserted_reports(error.__traceback__, anywhere=is_mentioned)
    if not reports or str(reports[0]) in text:
        return
    expected = "right" if _NOT.search(text) else "wrong"
    chosen = [one for one in reports if one.ok == (expected == "right")]
    # What pytest shows of a report is its data, which its text says better; other values it shows well.
    words = _own_words(text) or _HEADS[expected if chosen else "both"] if is_mentioned else text
    shown = [str(one) for one in (chosen or reports)]
    more = [f"… and {len(shown) - _MOST} more"] if len(shown) > _MOST else []
    error.args = ("\n".join([words, *shown[:_MOST], *more]),)


def _own_words(text: str) -> str:
    """The message that the test itself gave, which pytest puts before the assertion."""
    return "" if text.startswith(("assert ", "Report(")) else text.partition("\nassert ")[0]


def _asserted_reports(traceback: Any, *, anywhere: bool) -> list[Report]:
    """The reports that the failed line names or has made; else any that the innermost frame with one holds."""
    frames = list(_frames(traceback))[::-1]
    for frame, line in frames[:1]:
        if reports := _reports(_named(frame, line)):
            return reports
    every = (_reports(frame.f_locals.values()) for frame, _ in frames if anywhere)
    return next(filter(None, every), [])


def _frames(traceback: Any) -> Iterator[tuple[Any, int]]:
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def _named(frame: Any, line: int) -> list[Any]:
    """The values of the names in an assertion, and those that pytest keeps in the frame for it."""
    kept = [value for name, value in frame.f_locals.items() if name.startswith("@py_")]
    try:
        tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename)))
    except SyntaxError:  # of a notebook, or of no file at all
        return kept
    asserts = [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    here = [node for node in asserts if node.lineno <= line <= (node.end_lineno or node.lineno)]
    names = {n.id for node in here for n in ast.walk(node) if isinstance(n, ast.Name)}
    return [*(frame.f_locals[name] for name in names & frame.f_locals.keys()), *kept]


def _reports(values: Iterable[Any]) -> list[Report]:
    found = walk(*values, depth=_DEPTH, inside=_items)
    return [value for value in found if isinstance(value, Report)]


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple | set | frozenset | ValuesView) else ()
