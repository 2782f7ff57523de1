"""Structures of arguments as plain data: walked by path, without the library's own code for structures."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from tests.strategies import Layer, Point

Path = tuple[Any, ...]
Branch = Callable[[Any, Path], Any]


def children(tree: Any) -> list[tuple[Any, Any]] | None:
    """Pairs of key and child; `None` for a leaf."""
    if isinstance(tree, dict):
        return list(tree.items())
    if isinstance(tree, Layer):
        return [(f.name, getattr(tree, f.name)) for f in dataclasses.fields(tree)]
    if isinstance(tree, (list, tuple)):
        return list(enumerate(tree))
    return None


def rebuilt(tree: Any, values: list[Any]) -> Any:
    """A structure of the same class and keys with other children."""
    if isinstance(tree, dict):
        return type(tree)(zip(tree, values, strict=True))
    if isinstance(tree, Layer):
        return Layer(*values)
    return Point(*values) if isinstance(tree, Point) else type(tree)(values)


def mapped(tree: Any, leaf: Branch, path: Path = ()) -> Any:
    """The same structure with every leaf changed, given its path."""
    below = children(tree)
    if below is None:
        return leaf(tree, path)
    return rebuilt(tree, [mapped(child, leaf, (*path, key)) for key, child in below])


def leaves(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Pairs of path and leaf, in the order in which the structure was written."""
    below = children(tree)
    if below is None:
        yield path, tree
        return
    for key, child in below:
        yield from leaves(child, (*path, key))


def at(tree: Any, path: Path) -> Any:
    """What lies at this path."""
    for key in path:
        tree = getattr(tree, key) if isinstance(tree, Layer) else tree[key]
    return tree


def is_structure(tree: Any) -> bool:
    return children(tree) is not None
