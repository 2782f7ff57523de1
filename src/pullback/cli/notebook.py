"""Jupyter's notebooks as Python: their code cells in order, each a file of its own in tracebacks (`a.ipynb cell 3`).

What only IPython understands, magics and lines for the shell, is left out. Cells are counted as editors do: all of
them, from 1. The text of a notebook is that of its code cells one after the other, which can be read as one module.
"""

from __future__ import annotations

import ast
import asyncio
import functools
import inspect
import json
import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

SUFFIX = ".ipynb"
_MAGIC = re.compile(
    r"\s*(?:[%!?]|[\w., ]*=\s*[%!]|(?:pip|conda|cd|ls)\b)|.*\?\s*$"
)  # what IPython alone takes
_TIMED = re.compile(r"(\s*)%time\s+(?=\S)")  # runs the rest of its line
_PLAIN_MAGICS = ("%%time", "%%capture", "%%prun")  # cells under them are Python
_AWAITING = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # as cells may
_files: dict[
    str, tuple[Path, int]
] = {}  # a cell's name: its notebook, and how many lines come before


class NoNotebook(ValueError):
    """A file is no notebook of Python; the text says why."""


@dataclass(frozen=True)
class Cell:
    """A code cell: its number, its text as Python, and the lines before it in the text of all.

    `raw` are the lines of its source in the file, `left_out` those that are IPython's, `fault` is why it is no Python,
    and `unread` what it says then.
    """

    number: int
    text: str
    before: int
    raw: tuple[int, ...]
    left_out: tuple[int, ...] = ()
    fault: str = ""
    unread: str = ""

    @property
    def length(self) -> int:
        """How many lines it has."""
        return self.text.count("\n") + 1


@dataclass(frozen=True)
class Notebook:
    """The code cells of a file."""

    path: Path
    cells: tuple[Cell, ...]

    @property
    def text(self) -> str:
        """All cells as one module."""
        return "".join(f"{cell.text}\n" for cell in self.cells)

    def cell_at(self, line: int) -> Cell | None:
        """The cell of a line of the text."""
        return next((c for c in self.cells if c.before < line <= c.before + c.length), None)

    def file_of(self, cell: Cell) -> str:
        """What a cell is called in tracebacks."""
        return f"{self.path} cell {cell.number}"


def read(path: Path) -> Notebook:
    """The code cells of a notebook."""
    return _read(path, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _read(path: Path, written: int) -> Notebook:
    del written  # one that has changed is read again
    raw = path.read_text(encoding="utf-8-sig")
    try:
        data = json.loads(raw)
        cells = tuple(_cells(data["cells"], raw))
        kernel = data.get("metadata", {}).get("kernelspec", {}).get("language") or "python"
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise NoNotebook("is no notebook of format 4") from error
    if not isinstance(kernel, str):
        raise NoNotebook(f"is a notebook of a language without a name: {kernel!r:.80}")
    if kernel.lower() != "python":
        raise NoNotebook(f"is a notebook of {kernel}")
    return Notebook(path, cells)


def _cells(cells: Any, raw: str) -> Iterator[Cell]:
    before, places = 0, _Places(raw)
    for number, data in enumerate(_list(cells), start=1):
        source = data["source"]
        parts = source.splitlines(keepends=True) if isinstance(source, str) else _list(source)
        if data["cell_type"] != "code":
            continue
        lines = tuple(places.of(part) for part in parts)
        whole = "".join(parts)
        text, left_out, fault = _as_python(whole)
        cell = Cell(number, text, before, lines, left_out, fault, whole if fault else "")
        before += cell.length
        yield cell


def _list(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise TypeError(f"{data!r:.80} is no list")
    return cast("list[Any]", data)


class _Places:
    """The lines of a file in which the strings of a source stand, in their order; 1 where it is written otherwise."""

    def __init__(self, raw: str) -> None:
        self._lines = [line.strip().rstrip(",") for line in raw.split("\n")]
        self._at = 0

    def of(self, part: str) -> int:
        """The line of the next one."""
        forms = {json.dumps(part), json.dumps(part, ensure_ascii=False)}
        for k in range(self._at, len(self._lines)):
            if self._lines[k] in forms:
                self._at = k + 1
                return k + 1
        return 1


def _as_python(source: str) -> tuple[str, tuple[int, ...], str]:
    """A cell without what only IPython takes, line by line; which lines that were; why the rest is no Python."""
    lines = source.replace("\r\n", "\n").split("\n")
    first = lines[0].split()[:1]
    if first and first[0].startswith("%%"):
        if first[0] not in _PLAIN_MAGICS:
            return "\n" * (len(lines) - 1) + "pass", (1,), ""
        lines[0] = "pass"
    left_out: dict[int, None] = {}
    while True:
        try:
            ast.parse("\n".join(lines))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            at = getattr(error, "lineno", None) or 0
            if not (0 < at <= len(lines) and at not in left_out and _MAGIC.match(lines[at - 1])):
                blank = "\n" * (len(lines) - 1) + "pass"
                return blank, tuple(left_out), f"{type(error).__name__}: {error}"
            left_out |= dict.fromkeys(_leave_out(lines, at))
        else:
            return "\n".join(lines), tuple(left_out), ""


def _leave_out(lines: list[str], at: int) -> list[int]:
    """Put a statement that does nothing for one of IPython's, which may go on over several lines."""
    timed = _TIMED.sub(r"\1", lines[at - 1])
    if timed != lines[at - 1]:
        lines[at - 1] = timed
        return []
    gone = [at]
    while lines[gone[-1] - 1].endswith("\\") and gone[-1] < len(lines):
        gone.append(gone[-1] + 1)
    indent = re.match(r"\s*", lines[at - 1])
    for k in gone:
        lines[k - 1] = (indent[0] if indent else "") + "pass"
    return gone


def run(notebook: Notebook, last: int, names: dict[str, Any]) -> tuple[Cell, BaseException] | None:
    """Run the cells up to this line of the text; the first that raises ends it, as where Jupyter runs all."""
    names.setdefault("display", lambda *_, **__: None)
    names.setdefault("get_ipython", _Shell)
    with asyncio.Runner() as runner:
        for cell in notebook.cells:
            if cell.before >= last:
                break
            file = notebook.file_of(cell)
            _files[file] = (notebook.path, cell.before)
            lines = [f"{line}\n" for line in cell.text.split("\n")]
            linecache.cache[file] = (len(cell.text), None, lines, file)
            try:
                code = compile(cell.text, file, "exec", _AWAITING, dont_inherit=True)
                waiting = eval(code, names)  # a coroutine where the cell awaits something
                if inspect.iscoroutine(waiting):
                    runner.run(waiting)
            except (Exception, SystemExit) as error:
                return cell, error
    return None


class _Shell:
    """What `get_ipython()` gives where there is no IPython: it takes every question, and does nothing."""

    def __getattr__(self, name: str) -> _Shell:
        if name.startswith("__"):  # which protocols ask for
            raise AttributeError(name)
        return self

    def __call__(self, *_: object, **__: object) -> _Shell:
        return self

    def __iter__(self) -> Iterator[str]:
        return iter(())


def written_at(file: str, line: int) -> tuple[Path, int] | None:
    """The notebook of a cell that was run, and a line of it in the text of all."""
    found = _files.get(file)
    return found and (found[0], found[1] + line)
