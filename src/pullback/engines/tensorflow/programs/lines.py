"""The user's lines: where an op was made, whose function a rule is."""

from __future__ import annotations

import functools
import inspect
import linecache
import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

from pullback.engines.tensorflow.tf_private import autograph
from pullback.extend import flow, location_of

_HIDDEN = ("<frozen", "<string>", "<stdin")


class Lines:
    """Tells the user's code from that of libraries; code beside the explained function is the user's."""

    def __init__(self, fn: Any, end: Any) -> None:
        self._known: dict[Any, bool] = {}  # by code, and by file
        self._own = _folder_of(fn)
        self._end = end  # the code that calls the explained function: who called that is not asked

    def here(self, frame: Any) -> flow.Place | None:
        """The innermost line of the user's among the frames."""
        known, end = self._known, self._end
        while frame is not None:
            code = frame.f_code
            if code is end:
                return None
            theirs = known.get(code)
            if theirs is None:
                theirs = known[code] = self.is_theirs(code.co_filename)
            if theirs:
                return place_at(code.co_filename, frame.f_lineno, code.co_name)
            frame = frame.f_back
        return None

    def of_operation(self, operation: Any) -> flow.Place | None:
        """The line that made an op of a graph."""
        known = self._known
        for record in reversed(list(getattr(operation, "traceback", None) or ())):
            file = record.filename
            if file == self._end.co_filename:
                return None
            if file not in known:
                known[file] = self.is_theirs(file)
            if known[file]:
                return place_at(file, record.lineno, record.name)
        return None

    def is_theirs(self, file: str) -> bool:
        """Whether the user wrote a file."""
        if autograph.is_generated(file):
            return True
        if file.startswith(_HIDDEN) or (file.startswith("<") and "ipython" not in file):
            return False
        if any(file.startswith(root) for root in _engines_own()):
            return False
        return bool(self._own and file.startswith(self._own)) or not any(
            file.startswith(root) for root in _libraries()
        )


def place_of_error(error: BaseException, lines: Lines) -> flow.Place | None:
    """The innermost line of the user's at which an error was raised."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if lines.is_theirs(code.co_filename):
            found = place_at(code.co_filename, trace.tb_lineno, code.co_name)
        trace = trace.tb_next
    return found


def _folder_of(fn: Any) -> str:
    """The folder of an installed package to which the function belongs, if it is in one and no framework's."""
    try:
        file = inspect.getfile(inspect.unwrap(fn))
    except (TypeError, ValueError):
        return ""
    for root in _libraries():
        if file.startswith(root) and not any(file.startswith(own) for own in _engines_own()):
            rest = Path(file).relative_to(root).parts
            return root + rest[0] if len(rest) > 1 else file
    return ""


@functools.lru_cache(maxsize=4096)
def place_at(file: str, line: int, function: str = "") -> flow.Place:
    """A line, as the user wrote it."""
    file, line = autograph.origin_of_line(file, line)
    return flow.Place(file, line, linecache.getline(file, line).strip(), _plain(function))


def _plain(function: str) -> str:
    return function.removeprefix("tf__").removeprefix("inner_tf__")


def place_of_function(*functions: Any) -> flow.Place | None:
    """Where the first of these functions begins that has a source, and is not the framework's; `None` if none has."""
    for function in functions:
        path, _, line = location_of(function).rpartition(":")
        if line.isdigit() and not path.startswith(_engines_own()):
            return place_at(path, int(line), getattr(function, "__name__", ""))
    return None


@functools.cache
def _libraries() -> tuple[str, ...]:
    found = {sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return tuple(sorted((path + os.sep for path in found), key=len, reverse=True))


@functools.cache
def _engines_own() -> tuple[str, ...]:
    """Folders of the frameworks and of pullback, which are nobody's own code."""
    modules = [sys.modules[name] for name in ("tensorflow", "keras", "numpy", "pullback")]
    return tuple(str(Path(str(module.__file__)).parent) + os.sep for module in modules)
