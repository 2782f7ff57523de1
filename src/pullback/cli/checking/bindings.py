"""Names that a file gives more than one meaning: which definition is the one that exists once the file has run."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

NOT_DEFINED = "never defined in this run"
Path = tuple[str, ...]
_Arms = tuple[tuple[int, str], ...]
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Binding:
    """A statement that gives a name its meaning: its lines, and the arms of branches that it lies in."""

    lines: range
    arms: _Arms

    def is_apart_from(self, other: Binding) -> bool:
        """Whether the two lie in different arms of one branch, of which one alone runs."""
        return any(a == b and x != y for a, x in self.arms for b, y in other.arms)


def bindings_in(text: str) -> Mapping[Path, list[Binding]]:
    """Every meaning of the names of a module and of its classes, in their order.

    >>> [len(several) for several in bindings_in("x = 1; x = 2").values()]
    [2]
    """
    found: dict[Path, list[Binding]] = defaultdict(list)
    for path, binding in _in_body(ast.parse(text).body, (), ()):
        found[path].append(binding)
    return found


def fate(own: range, alive: int | None, several: list[Binding], named: Callable[[int], str]) -> str:
    """What became of a definition that its name does not mean, where `alive` is the line of the one that it does.

    `named` says how lines are called.
    """
    mine = next((b for b in several if _meet(b.lines, own)), None)
    other = next((b for b in several if alive is not None and alive in b.lines), None)
    if mine is None or other is None:
        return f"{NOT_DEFINED}, or replaced"
    if other.lines.start < mine.lines.start or mine.is_apart_from(other):
        return NOT_DEFINED
    return f"replaced by {named(alive or 0)}"


def _meet(some: range, others: range) -> bool:
    return max(some.start, others.start) < min(some.stop, others.stop)


def _in_body(body: list[ast.stmt], path: Path, arms: _Arms) -> Iterator[tuple[Path, Binding]]:
    for node in body:
        start = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        binding = Binding(range(start, (node.end_lineno or node.lineno) + 1), arms)
        yield from (((*path, name), binding) for name in _names_of(node))
        if isinstance(node, ast.ClassDef):
            yield from _in_body(node.body, (*path, node.name), arms)
        elif not isinstance(node, _FUNCTIONS):
            yield from _in_branches(node, path, arms)


def _in_branches(node: ast.stmt, path: Path, arms: _Arms) -> Iterator[tuple[Path, Binding]]:
    for arm in ("body", "orelse", "finalbody"):
        # only that of an `if` runs in place of its body; what comes last runs in any case
        arm_name = arm if isinstance(node, ast.If) else "body"
        within = arms if arm == "finalbody" else (*arms, (node.lineno, arm_name))
        yield from _in_body(getattr(node, arm, []), path, within)
    for k, case in enumerate([*getattr(node, "handlers", ()), *getattr(node, "cases", ())]):
        yield from _in_body(case.body, path, (*arms, (node.lineno, f"case {k}")))


def _names_of(node: ast.stmt) -> list[str]:
    """The names to which a statement gives a meaning that has nothing to do with the one before."""
    if isinstance(node, _FUNCTIONS | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    used = {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
    return [t.id for t in targets if isinstance(t, ast.Name) and t.id not in used]
