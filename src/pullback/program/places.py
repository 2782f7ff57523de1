"""The statements that operations come from, as the user wrote them, and the variables that these assign to."""

from __future__ import annotations

import ast
import functools
import linecache
import re
from pathlib import Path

from pullback.program.data import Place

_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)
# A statement over several lines that is longer is not quoted as a whole.
_LONG = 120


def statement(place: Place | None) -> tuple[str, str]:
    """The statement that a line is part of, and where it begins: nothing for no line."""
    if place is None:
        return "", ""
    text, first = _statement(place.file, place.line)
    return text, f"{Path(place.file).name}:{first}"


@functools.lru_cache(maxsize=4096)
def _statement(file: str, line: int) -> tuple[str, int]:
    """The statement at a line and where it begins; the line alone where that is long, or more than a statement."""
    around = [s for s in _statements(file) if s.lineno <= line <= (s.end_lineno or 0)]
    alone = linecache.getline(file, line).strip()
    if not around:
        return alone, line
    inner = max(around, key=lambda s: s.lineno)
    text = " ".join("".join(linecache.getlines(file)[inner.lineno - 1 : inner.end_lineno]).split())
    text = re.sub(r",? ?([)\]}])", r"\1", re.sub(r"([(\[{]) ", r"\1", text))
    one = inner.lineno == inner.end_lineno
    return (alone, line) if one or len(text) > _LONG else (text, inner.lineno)


@functools.lru_cache(maxsize=64)
def _statements(file: str) -> list[ast.stmt]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, _SIMPLE)]


@functools.lru_cache(maxsize=4096)
def assigned(line: str) -> tuple[str, ...]:
    """The variables that a line gives their values to."""
    try:
        (found,) = ast.parse(line).body
    except (SyntaxError, ValueError):
        return ()
    match found:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return (name,)
        case ast.Assign(targets=[ast.Tuple(elts=elements)]):
            names = tuple(e.id for e in elements if isinstance(e, ast.Name))
            return names if len(names) == len(elements) else ()
        case _:
            return ()
