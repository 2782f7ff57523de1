"""Writes below the Python blocks of pages what they print, where the page shows something else.

    python -m tests.docs.update docs/check.md

Review what it wrote: times, and whatever else differs from run to run, are to be replaced by `...`.
"""

import os
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

import keras

from tests.docs.pages import blocks_of, is_shown, runs

WIDTH = "100"  # of a terminal, in columns


def updated(text: str, name: str, folder: Path) -> str:
    """The page with the output of each of its blocks."""
    parts, done = list[str](), 0
    for block, printed in runs(blocks_of(text), name, folder):
        if not is_shown(block, printed):
            parts += [text[done : block.code_end], _as_text(printed.replace(str(folder), "..."))]
            done = block.end
    return "".join([*parts, text[done:]])


def _as_text(printed: str) -> str:
    lines = [line.rstrip() for line in printed.rstrip().splitlines()]
    return "\n".join(["\n\n```text", *lines, "```"]) if lines else ""


def as_module(page: Path) -> str:
    """The name under which the program of a page is imported."""
    return page.stem.replace("-", "_")


if __name__ == "__main__":
    os.environ["COLUMNS"] = WIDTH
    for page in map(Path, sys.argv[1:]):
        keras.utils.clear_session(free_memory=False)
        keras.utils.set_random_seed(0)
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            new = updated(text, as_module(page), Path(folder))
        page.write_text(new, encoding="utf-8")
