"""Files that a command is to write: whether it can is said before anything runs."""

import os
from collections.abc import Mapping
from pathlib import Path


def unwritable(files: Mapping[str, Path | str | None]) -> str:
    """Why one of the files, by option, cannot be written; nothing where all can. `-` is no file.

    >>> unwritable({"--json": "-", "--html": ""})
    ''
    """
    named = {option: Path(file) for option, file in files.items() if file and str(file) != "-"}
    whys = ((f"{option} {path}", _why_not(path)) for option, path in named.items())
    return next((f"{what} cannot be written: {why}." for what, why in whys if why), "")


def _why_not(path: Path) -> str:
    folder = path.parent
    if path.is_dir():
        return "it is a folder"
    if not folder.is_dir():
        return f"there is no folder {folder}"
    is_allowed = os.access(path if path.exists() else folder, os.W_OK)
    return "" if is_allowed else "that is not allowed"
