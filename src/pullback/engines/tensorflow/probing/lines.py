"""The user's own lines that the operations of a traced program come from."""

import ast
import functools
import linecache
import re
from pathlib import Path
from typing import Any

from pullback.engines.tensorflow.tf_private.autograph import origin_of_line

_HERE, _OURS = str(Path(__file__).parent), str(Path(__file__).parents[3])
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)
# A statement over several lines that is longer is not quoted as a whole.
_LONG = 120


def line_of(op: Any) -> tuple[str, str]:
    """The statement that an operation comes from, and where it is; nothing if none of the user's is at work."""
    for frame in reversed(list(op.traceback or ())):
        file, line = origin_of_line(frame.filename, frame.lineno)
        if file.startswith(_HERE):  # what lies before called the check
            break
        if not file.startswith((_OURS, "<")) and "site-packages" not in file:
            text, first = _statement(file, line)
            return text, f"{Path(file).name}:{first}"
    return "", ""


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


def assigned(line: str) -> list[str]:
    """The variables that a line gives their values to."""
    try:
        (statement,) = ast.parse(line).body
    except (SyntaxError, ValueError):
        return []
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return [name]
        case ast.Assign(targets=[ast.Tuple(elts=elements)]):
            names = [e.id for e in elements if isinstance(e, ast.Name)]
            return names if len(names) == len(elements) else []
        case _:
            return []
