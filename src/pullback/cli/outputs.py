"""Files that a command is to write: whether it can is said before anything runs, and each is whole or as it was."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from pullback.cli.paths import is_folder, is_there, real, unreachable
from pullback.cli.terminal import Unwritten, echo, escaped

STDOUT = "-"
_SOURCES = (".py", ".ipynb")
Files = Mapping[str, Path | str | None]


def unwritable(files: Files, sources: Iterable[Path | str] = ()) -> str:
    """Why one of the files, by option, cannot be written; nothing where all can. `-` is stdout.

    `sources` are read by the command: none of them is written over.

    >>> unwritable({"--json": "-", "--html": None})
    ''
    """
    named = {option: str(file) for option, file in files.items() if file is not None}
    known = {real(source) for source in sources}
    first: dict[Path | str, str] = {}
    for option, file in named.items():
        if not file:
            return f"{option} names no file."
        place = file if file == STDOUT else real(file)
        if place in first:
            return f"{option} {file} is where {first[place]} goes: give each a file of its own."
        first[place] = option
        if why := "" if file == STDOUT else _why_not(Path(file), place in known):
            return f"{option} {file} cannot be written: {why}."
    return ""


def _why_not(path: Path, is_source: bool) -> str:
    folder = path.parent
    if is_folder(path):
        return "it is a folder"
    if not is_folder(folder):
        return f"there is no folder {folder}"
    if why := unreachable(path):
        return why
    if is_there(path) and (is_source or path.suffix in _SOURCES):
        return "it is a source, which would be lost"
    is_allowed = os.access(path if is_there(path) else folder, os.W_OK)
    return "" if is_allowed else "that is not allowed"


def write(file: Path | str, text: str) -> None:
    """Write a file as a whole; where that fails it is as it was, and the error says so. `-` prints."""
    if str(file) == STDOUT:
        echo(text)
        return
    try:
        _write(file, text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritten(f"{file} cannot be written: {error.strerror or error}") from error


def _write(file: Path | str, text: str) -> None:
    data = escaped(text).encode()
    path = real(file)  # a link goes on meaning the same
    if path.exists() and not path.is_file():  # a pipe or a device
        path.write_bytes(data)
        return
    try:
        number, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
    except PermissionError:  # the file may be written, and none beside it
        path.write_bytes(data)
        return
    try:
        with os.fdopen(number, "wb") as written:
            written.write(data)
        Path(name).chmod(_mode(path))
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def _mode(path: Path) -> int:
    """The permissions of a file, or those of a new one."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
