"""How the inputs of a checked function are called: the same for every engine."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pullback._bind import signature_of
from pullback._tree import flatten, paths
from pullback.check.probe import Leaf


def paths_and_names(
    fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """The path and the name of every leaf, in the order of the leaves of `(args, kwargs)`.

    >>> list(paths_and_names(lambda x, p: x, (1, {"w": 2}), {"k": 3}))
    [('args[0]', 'x'), ('args[1]["w"]', 'p["w"]'), ('kwargs["k"]', 'k')]
    """
    names = dict(enumerate(_parameters(fn)))
    for k, value in enumerate(args):
        yield from _of_value(value, f"args[{k}]", names.get(k, f"args[{k}]"))
    for key in sorted(kwargs):
        yield from _of_value(kwargs[key], f'kwargs["{key}"]', key)


def _of_value(value: Any, path: str, name: str) -> Iterator[tuple[str, str]]:
    _, structure = flatten(value)
    return zip(paths(structure, path), paths(structure, name), strict=True)


def _parameters(fn: Callable[..., Any]) -> list[str]:
    target = getattr(fn, "call", fn)
    found = signature_of(getattr(target, "python_function", target)).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in found if p.kind in positional]


def distinct(leaves: Iterable[Leaf]) -> tuple[Leaf, ...]:
    """Leaves by names of their own: layers built inside one another give parameters the same one."""
    seen: dict[str, int] = {}
    out: list[Leaf] = []
    for leaf in leaves:
        count = seen[leaf.path] = seen.get(leaf.path, 0) + 1
        number = "" if count == 1 else f"#{count}"
        out.append(replace(leaf, path=leaf.path + number, name=leaf.name + number))
    return tuple(out)
