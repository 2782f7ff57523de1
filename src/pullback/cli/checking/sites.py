"""Where a file defines custom gradients, read from its source: also what never runs by itself has a place here.

A site is a function under `custom_gradient`, at whatever depth; a call such as `custom_gradient(lambda x: ...)` or
`with_gradient(...)`; or a rule that is registered for an op. It is known by its line, which is how functions that ran are
found again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

DEFINE, REPLACE, REGISTER = "define", "replace", "register"
_MAKERS = {
    "custom_gradient": DEFINE,
    "with_gradient": REPLACE,
    "with_partials": REPLACE,
    "RegisterGradient": REGISTER,
}
Scoped = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Site:
    """A custom gradient in a file: the names that lead to it, its lines, and what kind it is.

    `label` is what a rule is registered as, `op` the type of op that the file uses it for.
    """

    path: tuple[str, ...]
    lines: frozenset[int]
    kind: str = DEFINE
    label: str = ""
    op: str = ""
    in_class: tuple[bool, ...] = field(default=(), compare=False)

    @property
    def name(self) -> str:
        """`make.inner`, the way a line of the output writes it."""
        return ".".join(self.path)

    @property
    def line(self) -> int:
        """Where to look."""
        return max(self.lines)


def sites_in(text: str) -> list[Site]:
    """The custom gradients that a source defines, in its order.

    >>> [site.name for site in sites_in("def make():\\n @tf.custom_gradient\\n def inner(x): ...")]
    ['make.inner']
    """
    tree = ast.parse(text)
    reader = _Reader(_aliases(tree), _override_maps(tree))
    reader.read(tree.body, (), ())
    return sorted(_distinct(reader.found), key=lambda site: min(site.lines))


def _distinct(found: list[Site]) -> list[Site]:
    """One site for each place; two functions of one name get their lines as well."""
    kept: dict[tuple[str, int], Site] = {}
    for site in found:
        kept.setdefault((site.kind, min(site.lines)), site)
    return list(kept.values())


def _aliases(tree: ast.Module) -> dict[str, str]:
    """What the makers are called in this file, besides their own names."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            pairs = [(a.asname or a.name, a.name) for a in node.names]
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            pairs = [(node.targets[0].id, _last(node.value))]
        else:
            continue
        found.update({here: name for here, name in pairs if name in _MAKERS})
    return found


def _override_maps(tree: ast.Module) -> dict[str, str]:
    """The type of op by the name of the gradient that `gradient_override_map` gives it."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _last(node.func) == "gradient_override_map":
            pairs = zip(node.args[0].keys, node.args[0].values, strict=True) if _is_dict(node) else ()
            for op, name in pairs:
                if isinstance(op, ast.Constant) and isinstance(name, ast.Constant):
                    found[str(name.value)] = str(op.value)
    return found


def _is_dict(node: ast.Call) -> bool:
    return bool(node.args) and isinstance(node.args[0], ast.Dict)


def _last(node: ast.AST | None) -> str:
    """The last name of `a.b.c`, or nothing."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


class _Reader:
    """Goes through scopes and notes what is defined there."""

    def __init__(self, aliases: Mapping[str, str], ops: Mapping[str, str]) -> None:
        self.aliases, self.ops = aliases, ops
        self.found: list[Site] = []

    def read(self, body: list[ast.stmt], path: tuple[str, ...], kinds: tuple[bool, ...]) -> None:
        """Note the sites of one scope and of those inside it."""
        here = {node.name: node for node in _scopes(body) if not isinstance(node, ast.ClassDef)}
        for node in _scopes(body):
            inner, deeper = (*path, node.name), (*kinds, isinstance(node, ast.ClassDef))
            self._decorated(node, inner, deeper)
            self.read(node.body, inner, deeper)
        for target, call in _calls(body):
            self._called(target, call, path, kinds, here)

    def _made_by(self, node: ast.AST) -> str:
        """The kind that a decorator or a called name makes, or nothing."""
        name = _last(node)
        return _MAKERS.get(self.aliases.get(name, name), "")

    def _decorated(self, node: Scoped, path: tuple[str, ...], kinds: tuple[bool, ...]) -> None:
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            kind = self._made_by(call.func if call else decorator) or _of_arguments(self, call)
            if kind == REGISTER:
                self._registered(call, node.name, _lines(node), path)
            elif kind:
                self._note(Site(path, _lines(node), kind, in_class=kinds))

    def _called(
        self,
        target: str,
        call: ast.Call,
        path: tuple[str, ...],
        kinds: tuple[bool, ...],
        here: Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef],
    ) -> None:
        inner = call.func.func if isinstance(call.func, ast.Call) else None
        if inner is not None and self._made_by(inner) == REGISTER:
            assert isinstance(call.func, ast.Call)
            function = here.get(_last(call.args[0]) if call.args else "")
            lines = _lines(function) if function else frozenset({call.lineno})
            self._registered(call.func, target, lines, path)
            return
        kind = self._made_by(call.func)
        if kind not in (DEFINE, REPLACE) or not (call.args or call.keywords):
            return
        given = call.args[0] if call.args else call.keywords[0].value
        name, lines = target, frozenset({call.lineno, given.lineno})
        function = here.get(_last(given))
        if function is not None and kind == DEFINE:
            name, lines = name or function.name, _lines(function)
        self._note(Site((*path, name or _last(given) or "lambda"), lines, kind, in_class=(*kinds, False)))

    def _registered(
        self, call: ast.Call | None, name: str, lines: frozenset[int], path: tuple[str, ...]
    ) -> None:
        first = call.args[0] if call and call.args else None
        label = str(first.value) if isinstance(first, ast.Constant) else ""
        self._note(Site((*path[:-1], name) if path else (name,), lines, REGISTER, label, self.ops.get(label, "")))

    def _note(self, site: Site) -> None:
        self.found.append(site)


def _of_arguments(reader: _Reader, call: ast.Call | None) -> str:
    """The kind of `functools.partial(custom_gradient, ...)` and the like."""
    return next(filter(None, (reader._made_by(a) for a in call.args)), "") if call else ""  # pyright: ignore[reportPrivateUsage]  # of the class it serves


def _lines(node: Scoped) -> frozenset[int]:
    """Where a function may say that it begins: at its first decorator, or at `def`."""
    return frozenset({node.lineno, *(d.lineno for d in node.decorator_list)})


def _scopes(body: list[ast.stmt]) -> Iterator[Scoped]:
    """Functions and classes of one scope, also those in branches and blocks of it."""
    for node in body:
        if isinstance(node, Scoped):
            yield node
        else:
            for _, value in ast.iter_fields(node):
                inner = [n for n in value if isinstance(n, ast.stmt)] if isinstance(value, list) else []
                yield from _scopes(inner)
                for handler in value if isinstance(value, list) else ():
                    if isinstance(handler, ast.ExceptHandler | ast.match_case):
                        yield from _scopes(handler.body)


def _calls(body: list[ast.stmt]) -> Iterator[tuple[str, ast.Call]]:
    """Calls in one scope, each with the name that its value is given, if it is."""
    for statement in body:
        if isinstance(statement, Scoped):
            continue
        target = ""
        if isinstance(statement, ast.Assign):
            target = _last(statement.targets[0])
        elif isinstance(statement, ast.AnnAssign):
            target = _last(statement.target)
        value = getattr(statement, "value", None)
        for node in _in_scope(statement):
            if isinstance(node, ast.Call):
                yield (target if node is value else ""), node


def _in_scope(statement: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement, without the bodies of functions and classes in it."""
    for node in ast.iter_child_nodes(statement):
        if isinstance(node, Scoped):
            continue
        yield node
        yield from _in_scope(node)
