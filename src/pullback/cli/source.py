"""What a file says, whatever it is coded in: Python or a notebook. Lines are those of its text as one module."""

from __future__ import annotations

import re
import tokenize
from pathlib import Path
from types import CodeType

from pullback.cli import notebook
from pullback.cli.paths import is_file, real

SUFFIXES = (".py", notebook.SUFFIX)
_LARGEST = 10**7  # bytes of Python: what is larger was not written by anybody
_LARGEST_NOTEBOOK = 10**9  # which has its pictures in it
_AT = re.compile(r"(?:.* cell (?P<cell>\d+)|[^:]*):(?P<line>\d+)")


def is_source(path: Path | str) -> bool:
    """Whether a name is that of a file of code."""
    return Path(path).suffix in SUFFIXES


def unreadable(path: Path) -> str:
    """Why a file of code cannot be read; nothing where it can."""
    if not is_file(path):
        return "is no file that can be read to its end"
    most = _LARGEST_NOTEBOOK if path.suffix == notebook.SUFFIX else _LARGEST
    try:
        if (size := path.stat().st_size) > most:
            return f"has {size:,} bytes, more than anybody writes"
        with path.open("rb") as file:
            file.read(1)
        if path.suffix == notebook.SUFFIX:
            notebook.read(path)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except ValueError as error:
        return str(error)
    return ""


def text_of(path: Path) -> str:
    """Its text; raises `SyntaxError`, `ValueError` or `OSError` where there is none."""
    if why := unreadable(path):
        raise ValueError(why)
    if path.suffix == notebook.SUFFIX:
        return notebook.read(path).text
    try:  # as Python reads it: with its byte order mark, and the coding that it names
        with tokenize.open(path) as file:
            return file.read()
    except LookupError as error:  # a codec between bytes and bytes, or text and text
        raise ValueError(f"is no text: {error}") from error


def unread_in(path: Path) -> str:
    """What the cells of a notebook say that are no Python."""
    is_book = path.suffix == notebook.SUFFIX
    return "\n".join(cell.unread for cell in notebook.read(path).cells) if is_book else ""


def written_at(code: CodeType) -> tuple[Path, int]:
    """The file in which code is written, and the line at which it begins."""
    file, line = code.co_filename, code.co_firstlineno
    return notebook.written_at(file, line) or (real(file), line)


def place_of(path: Path, line: int) -> tuple[int, str]:
    """A line of the text as a line of the file, and for a notebook its cell: `cell 3:5`."""
    if path.suffix != notebook.SUFFIX:
        return line, ""
    cell = notebook.read(path).cell_at(line)
    if cell is None:
        return 1, ""
    inner = line - cell.before
    return _raw(cell, inner), f"cell {cell.number}:{inner}"


def line_of_place(path: Path, place: str) -> int | None:
    """The line of a file that `file.py:12`, or `file.ipynb cell 3:5`, means."""
    found = _AT.fullmatch(place.strip())
    if found is None or not place.strip().startswith(path.name):
        return None
    line = int(found["line"])
    if found["cell"] is None:
        return line
    cells = {cell.number: cell for cell in notebook.read(path).cells}
    cell = cells.get(int(found["cell"]))
    return cell and _raw(cell, line)


def _raw(cell: notebook.Cell, line: int) -> int:
    return cell.raw[line - 1] if 0 < line <= len(cell.raw) else 1
