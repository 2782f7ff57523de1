"""Questions about paths that a user wrote: whatever it is, loops of links and names that are too long among them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def is_there(path: Path | str) -> bool:
    """Whether anything is there, a link that leads nowhere too."""
    try:
        Path(path).lstat()
    except (OSError, ValueError):
        return False
    return True


def is_file(path: Path | str) -> bool:
    """Whether it is a file that can be read to its end: no pipe, no device."""
    return _asked(Path(path).is_file)


def is_folder(path: Path | str) -> bool:
    """Whether it is a folder, or a link to one."""
    return _asked(Path(path).is_dir)


def unreachable(path: Path | str) -> str:
    """Why nothing can be at a path, such as a name that is too long; nothing where there is, or may be."""
    try:
        Path(path).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:
        return str(error)
    return ""


def real(path: Path | str) -> Path:
    """Where it leads; a loop of links leads to itself."""
    return Path(os.path.realpath(path)) if "\0" not in str(path) else Path(path)


def _asked(question: Callable[[], bool]) -> bool:
    try:
        return question()
    except (OSError, ValueError):
        return False
