"""Where a file defines custom gradients, read from its source: also what never runs by itself has a place here.

A site is a function under `custom_gradient`, at whatever depth; a call such as `custom_gradient(lambda x: ...)` or
`with_gradient(...)`; or a rule that is registered for an op. It is known by its line, which is how functions that ran
are found again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

# Words of files that have a say about custom gradients without defining any by themselves.
TELLING = ("pullback_inputs", "override(", "pb.inputs")
DEFINE, REPLACE, REGISTER = "define", "replace", "register"
_MAKERS = {
    "custom_gradient": DEFINE,
    "with_gradient": REPLACE,
    "with_partials": REPLACE,
    "RegisterGradient": REGISTER,
}
Scoped = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Functions = Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef]


@dataclass(frozen=True)
class Site:
    """A custom gradient in a file: the names that lead to it, its lines, and what kind it is.

    `label` is what a rule is registered as, `op` the type of op that the file uses it for. What is `held` has no name
    of its own: a list, a dict or another function was given it. `lazy` is what a call gives in place of a
    result: a coroutine, a generator.
    """

    path: tuple[str, ...]
    lines: frozenset[int]
    kind: str = DEFINE
    label: str = ""
    op: str = ""
    held: bool = False
    lazy: str = field(default="", compare=False)
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

    >>> [site.name for site in sites_in("relu = tf.custom_gradient(lambda x: ...)")]
    ['relu']
    """
    try:
        return _sites_in(ast.parse(text))
    except (RecursionError, MemoryError) as error:
        raise ValueError("is nested too deeply to be read") from error


def _sites_in(tree: ast.Module) -> list[Site]:
    aliases = _aliases(tree)
    reader = _Reader({**aliases, **_helpers(tree, aliases)}, _override_maps(tree))
    reader.read(tree.body, _Scope())
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


def _helpers(tree: ast.Module, aliases: Mapping[str, str]) -> dict[str, str]:
    """Functions of a file that make a custom gradient of what they are given: decorators of the user's own."""
    found: dict[str, str] = {}
    for function in _scopes(tree.body):
        if isinstance(function, ast.ClassDef):
            continue
        inner = [n for n in ast.walk(function) if isinstance(n, Scoped)]
        given = frozenset[str]().union(*map(_parameters, inner))
        own = {n.name for n in inner}
        calls = [n for n in ast.walk(function) if isinstance(n, ast.Call) and n.args]
        makers = [aliases.get(_last(c.func), _last(c.func)) for c in calls]
        for call, maker in zip(calls, makers, strict=True):
            if _MAKERS.get(maker) == DEFINE and _name(call.args[0]) in given - own:
                found[function.name] = maker
    return found


def _parameters(node: Scoped) -> frozenset[str]:
    """The names that a function is given its arguments under."""
    if isinstance(node, ast.ClassDef):
        return frozenset()
    args = node.args
    return frozenset(a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs))


def _override_maps(tree: ast.Module) -> dict[str, str]:
    """The type of op by the name of the gradient that `gradient_override_map` gives it."""
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    maps = [n.args[0] for n in calls if _last(n.func) == "gradient_override_map" and n.args]
    pairs = [
        pair for m in maps if isinstance(m, ast.Dict) for pair in zip(m.keys, m.values, strict=True)
    ]
    return {
        str(name.value): str(op.value)
        for op, name in pairs
        if isinstance(op, ast.Constant) and isinstance(name, ast.Constant)
    }


def _last(node: ast.AST | None) -> str:
    """The last name of `a.b.c`, or nothing."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _name(node: ast.AST) -> str:
    """A name without dots, or nothing."""
    return node.id if isinstance(node, ast.Name) else ""


@dataclass(frozen=True)
class _Scope:
    """The body of a module, class or function: the names that lead to it, and the functions in it.

    Around it are functions with `parameters`, and a class with `methods`.
    """

    path: tuple[str, ...] = ()
    kinds: tuple[bool, ...] = ()
    functions: _Functions = field(default_factory=dict[str, Any])
    parameters: frozenset[str] = frozenset()
    methods: _Functions = field(default_factory=dict[str, Any])

    def of(self, body: list[ast.stmt]) -> _Scope:
        """The same with its functions, which are methods where it is a class."""
        here = {n.name: n for n in _scopes(body) if not isinstance(n, ast.ClassDef)}
        is_class = self.kinds[-1:] == (True,)
        return replace(self, functions=here, methods=here if is_class else self.methods)

    def inside(self, node: Scoped) -> _Scope:
        """The scope of a function or class in this one, of which the body is not known yet."""
        path, kinds = (*self.path, node.name), (*self.kinds, isinstance(node, ast.ClassDef))
        return replace(self, path=path, kinds=kinds, parameters=self.parameters | _parameters(node))

    def function(self, node: ast.AST | None) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The function that `f`, or `self.f`, means here."""
        is_method = isinstance(node, ast.Attribute) and _last(node.value) in ("self", "cls")
        return (self.methods if is_method else self.functions).get(_last(node))


class _Reader:
    """Goes through scopes and notes what is defined there."""

    def __init__(self, aliases: Mapping[str, str], ops: Mapping[str, str]) -> None:
        self.aliases, self.ops = aliases, ops
        self.found: list[Site] = []

    def read(self, body: list[ast.stmt], around: _Scope) -> None:
        """Note the sites of one scope and of those inside it."""
        scope = around.of(body)
        for node in _scopes(body):
            inner = scope.inside(node)
            self._decorated(node, inner.path, inner.kinds)
            self.read(node.body, inner)
        for call, target, holder in _calls(body):
            self._called(call, target, holder, scope)

    def _made_by(self, node: ast.AST) -> str:
        """The kind that a decorator or a called name makes, or nothing."""
        name = _last(node)
        return _MAKERS.get(self.aliases.get(name, name), "")

    def _decorated(self, node: Scoped, path: tuple[str, ...], kinds: tuple[bool, ...]) -> None:
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            kind = self._made_by(call.func if call else decorator)
            # `functools.partial(custom_gradient, ...)` and the like
            kind = kind or next(filter(None, map(self._made_by, call.args if call else ())), "")
            if kind == REGISTER:
                self._registered(call, node.name, _lines(node), path[:-1])
            elif kind:
                self.found.append(Site(path, _lines(node), kind, in_class=kinds, lazy=_lazy(node)))

    def _called(self, call: ast.Call, target: str, holder: str, scope: _Scope) -> None:
        """`name = custom_gradient(fn)`, `with_gradient(fn, rule)`, `RegisterGradient("Name")(fn)`."""
        first = call.args[0] if call.args else next((k.value for k in call.keywords), None)
        given = scope.function(first)
        if isinstance(call.func, ast.Call) and self._made_by(call.func.func) == REGISTER:
            lines = _lines(given) if given else frozenset({call.lineno})
            self._registered(call.func, target or _last(first), lines, scope.path)
            return
        kind = self._made_by(call.func)
        if kind not in (DEFINE, REPLACE) or first is None:
            return
        if kind == DEFINE and not given and _name(first) in scope.parameters:
            return  # a helper: the gradient is that of what it is given
        name = target or holder or _last(first) or "lambda"
        lines = frozenset(range(call.lineno, (call.end_lineno or call.lineno) + 1))
        named = map(scope.function, (*call.args, *(k.value for k in call.keywords)))
        lines = lines.union(*(_lines(f) for f in named if f))
        lines = _lines(given) if given and kind == DEFINE else lines
        held, kinds = not target and not scope.path, (*scope.kinds, False)
        self.found.append(Site((*scope.path, name), lines, kind, held=held, in_class=kinds))

    def _registered(
        self, call: ast.Call | None, name: str, lines: frozenset[int], path: tuple[str, ...]
    ) -> None:
        first = call.args[0] if call and call.args else None
        label = str(first.value) if isinstance(first, ast.Constant) else ""
        self.found.append(Site((*path, name), lines, REGISTER, label, self.ops.get(label, "")))


def _lazy(node: Scoped) -> str:
    """What a call gives in place of a result."""
    if isinstance(node, ast.AsyncFunctionDef):
        return "coroutine"
    yields = any(isinstance(n, ast.Yield | ast.YieldFrom) for n in _in_scope(node))
    return "generator" if yields else ""


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
                inner = (
                    [n for n in value if isinstance(n, ast.stmt)] if isinstance(value, list) else []
                )
                yield from _scopes(inner)
                for handler in value if isinstance(value, list) else ():
                    if isinstance(handler, ast.ExceptHandler | ast.match_case):
                        yield from _scopes(handler.body)


def _calls(body: list[ast.stmt]) -> Iterator[tuple[ast.Call, str, str]]:
    """Calls in one scope, each with the name that its value is given, and the name of what it is put into."""
    for statement in body:
        if isinstance(statement, Scoped):
            continue
        names: dict[int, str] = {}
        values: set[int] = set()
        for node in (statement, *_in_scope(statement)):
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                container = target.value if isinstance(target, ast.Subscript) else target
                names |= {id(inner): _last(container) for inner in ast.walk(node.value)}
                values |= {id(node.value)} if container is target else set()
            if isinstance(node, ast.Call):
                name = names.get(id(node), "")
                is_value = id(node) in values
                yield node, name if is_value else "", "" if is_value else name


def _in_scope(statement: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement, without the bodies of functions and classes in it."""
    waiting = list(ast.iter_child_nodes(statement))[::-1]
    while waiting:  # a sum of a thousand terms is a thousand nodes deep
        node = waiting.pop()
        if not isinstance(node, Scoped):
            yield node
            waiting += list(ast.iter_child_nodes(node))[::-1]
