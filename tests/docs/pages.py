"""Runs the Python blocks of a page, one after the other, and keeps what each of them prints.

The blocks of a page are one program. It is written into a file, where reports find its lines, and is `__main__`, as it
is for a reader who runs it.
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
_CHECKER = doctest.OutputChecker()


@dataclass(frozen=True)
class Block:
    """A Python block, and the output that the page shows directly below it; where both end in the page."""

    code: str
    shown: str
    code_end: int
    end: int


def blocks_of(text: str) -> list[Block]:
    found = list(_FENCED.finditer(text))
    pairs = itertools.zip_longest(found, found[1:])
    return [_block(code, following) for code, following in pairs if code[1] == "python"]


def _block(code: re.Match[str], following: re.Match[str] | None) -> Block:
    between = "" if following is None else code.string[code.end() : following.start()]
    if following is None or following[1] != "text" or between.strip():
        return Block(code[2], "", code.end(), code.end())
    return Block(code[2], following[2], code.end(), following.end())


def program_of(blocks: list[Block]) -> str:
    """All blocks, with an empty line after each."""
    return "\n".join(block.code for block in blocks)


def differences(text: str, name: str, folder: Path) -> list[str]:
    """Where a page shows another output than its program prints; `...` stands for anything."""
    return [
        block.code + _CHECKER.output_difference(_example(block), printed, _FLAGS)
        for block, printed in runs(blocks_of(text), name, folder)
        if not is_shown(block, printed)
    ]


def is_shown(block: Block, printed: str) -> bool:
    return _CHECKER.check_output(block.shown, printed, _FLAGS)


def _example(block: Block) -> doctest.Example:
    return doctest.Example(block.code, block.shown)


def runs(blocks: list[Block], name: str, folder: Path) -> Iterator[tuple[Block, str]]:
    """Each block with what it printed."""
    file = folder / f"{name}.py"
    file.write_text(program_of(blocks), encoding="utf-8")
    module = types.ModuleType("__main__")
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
    program = sys.modules[module.__name__]
    sys.modules[module.__name__] = module
    try:
        yield
    finally:
        sys.modules[module.__name__] = program
