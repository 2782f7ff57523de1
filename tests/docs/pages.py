"""Runs the Python blocks of a page, one after the other, and keeps what each of them prints.

The blocks of a page are one program. It is written into a file, where reports find its lines, and is a module of that
name, which pickles and saved models look for.
"""

import contextlib
import doctest
import io
import itertools
import re
import sys
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
README = ROOT / "README.md"
_FENCED = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """A Python block, and the output that the page shows below it."""

    code: str
    shown: str


def blocks_of(text: str) -> list[Block]:
    found = [*_FENCED.findall(text), ("", "")]
    return [
        Block(code, shown if following == "text" else "")
        for (language, code), (following, shown) in itertools.pairwise(found)
        if language == "python"
    ]


def program_of(blocks: list[Block]) -> str:
    """All blocks, with an empty line after each."""
    return "\n".join(block.code for block in blocks)


def differences(text: str, name: str, folder: Path) -> list[str]:
    """Where a page shows another output than its program prints; `...` stands for anything."""
    found: list[str] = []
    checker = doctest.OutputChecker()
    for block, printed in _runs(blocks_of(text), name, folder):
        if not checker.check_output(block.shown, printed, _FLAGS):
            example = doctest.Example(block.code, block.shown)
            found.append(block.code + checker.output_difference(example, printed, _FLAGS))
    return found


def _runs(blocks: list[Block], name: str, folder: Path) -> Iterator[tuple[Block, str]]:
    file = folder / f"{name}.py"
    file.write_text(program_of(blocks), encoding="utf-8")
    module = types.ModuleType(name)
    module.__file__ = str(file)
    line = 0
    with _known(module), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in blocks:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile("\n" * line + block.code, file, "exec"), vars(module))
            yield block, out.getvalue()
            line += block.code.count("\n") + 1


@contextlib.contextmanager
def _known(module: types.ModuleType) -> Iterator[None]:
    sys.modules[module.__name__] = module
    try:
        yield
    finally:
        del sys.modules[module.__name__]
