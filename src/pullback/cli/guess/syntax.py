"""What the source of a function does with a parameter, read from its syntax."""

from __future__ import annotations

import ast
import functools
import textwrap
from collections.abc import Iterator


@functools.lru_cache(maxsize=64)
def tree_of(text: str) -> ast.Module:
    """The syntax of a function's source, empty where it cannot be read, as of a lambda in the middle of a line."""
    try:
        return ast.parse(textwrap.dedent(text))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def keys_of(name: str, text: str) -> tuple[str, ...]:
    """The texts under which a parameter is asked for its entries: it is a dict.

    >>> keys_of("p", "def f(p): return p['w'] * p['b']")
    ('w', 'b')
    """
    return tuple(dict.fromkeys(_keys_in(name, tree_of(text))))


def _keys_in(name: str, tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and _is_name(node.value, name):
            key = node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            key = (
                node.args[0]
                if node.func.attr == "get" and _is_name(node.func.value, name)
                else None
            )
        else:
            continue
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value


def unpacked(name: str, text: str) -> int:
    """Into how many names a parameter is taken apart: `a, b = pair` makes two."""
    counts = [
        len(target.elts)
        for node in ast.walk(tree_of(text))
        if isinstance(node, ast.Assign) and _is_name(node.value, name)
        for target in node.targets
        if isinstance(target, ast.Tuple | ast.List)
        and not any(isinstance(e, ast.Starred) for e in target.elts)
    ]
    return max(counts, default=0)


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
