"""What the user's code says of a thing that did not get into the run, or left it: read from the source, not run."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pullback.engines.tensorflow.programs.lines import Lines, place_at
from pullback.extend import Mention, flow, unwrapped, walk

_LEAVING = frozenset(
    {
        *("numpy", "item", "tolist", "numpy_function", "py_function", "__array__"),
        *("predict", "predict_on_batch", "evaluate"),  # of a Keras model: its results are NumPy's
    }
)
_SHAPES = frozenset({"shape", "size", "rank", "len", "dtype", "ndim", "zeros_like", "ones_like"})
_NUMBERS = frozenset({"float", "int", "complex", "bool"})
_TENSORS = frozenset({"tensorflow", "keras", "pullback", "tf_keras", "tensorflow_probability"})


class Code:
    """The source of a function, with what its names mean."""

    def __init__(self, function: types.FunctionType, holder: Any = None) -> None:
        lines, self._first = inspect.getsourcelines(function)
        self._file = inspect.getsourcefile(function) or ""
        self.tree = _parsed("".join(lines))
        functions = [n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef | ast.Lambda)]
        self._root = functions[0] if functions else self.tree
        self._parent = {
            child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)
        }
        self._known = dict(_outside(function))
        self._held = vars(holder) if holder is not None else {}
        self.parameters = tuple(inspect.signature(function).parameters)

    def place(self, node: ast.AST) -> flow.Place:
        """The line of a part of the code."""
        return place_at(self._file, self._first + getattr(node, "lineno", 1) - 1)

    def mentions(self, name: str, things: Iterable[Any]) -> list[ast.expr]:
        """Where the code uses an argument of this name, or a name that means one of these things."""
        wanted = {id(thing) for thing in things}
        names = {n for n, value in self._known.items() if id(value) in wanted}
        attributes = {n for n, value in self._held.items() if id(value) in wanted}
        argument = _expression(name) if _root(name) in self.parameters else ""
        return [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Name | ast.Attribute | ast.Subscript)
            and isinstance(node.ctx, ast.Load)
            and (
                (isinstance(node, ast.Name) and node.id in names)
                or (isinstance(node, ast.Attribute) and node.attr in attributes)
                or (argument and ast.unparse(node) == argument)
            )
        ]

    def stored(self, name: str) -> ast.Name | None:
        """Where an argument's name gets another value."""
        names = (
            node for node in ast.walk(self.tree) if isinstance(node, ast.Name) and node.id == name
        )
        known = name in self.parameters
        return next((n for n in names if known and isinstance(n.ctx, ast.Store)), None)

    def condition_of(self, node: ast.AST) -> ast.AST | None:
        """The statement or call that decides whether a part of the code runs."""
        child = node
        while (parent := self._parent.get(child)) is not None:
            if _decides(parent, child):
                return parent
            if left := _left_before(parent, child):
                return left
            if isinstance(parent, ast.Lambda | ast.FunctionDef) and parent is not self._root:
                above = self._parent[parent]
                return (
                    above
                    if isinstance(parent, ast.Lambda) and not isinstance(above, ast.Module)
                    else parent
                )
            child = parent
        return None

    def sees_shape(self, node: ast.AST) -> bool:
        """Whether a name stands where no more than its shape is asked for."""
        above = self._parent.get(node)
        function = above.func if isinstance(above, ast.Call) else above
        name = getattr(function, "attr", None) or getattr(function, "id", None)
        return name in _SHAPES

    def leaving(self, name: str, things: Iterable[Any]) -> ast.Call | None:
        """The first call that takes something made of these out of the tensors."""
        marks = {ast.unparse(node) for node in self.mentions(name, things)}
        marks |= set(self.parameters) if not marks else set()
        for statement in ast.walk(
            self.tree
        ):  # one pass in the order of the text is enough to follow names
            if isinstance(statement, ast.Assign) and _mentions(statement.value, marks):
                marks |= {ast.unparse(t) for target in statement.targets for t in _names_in(target)}
        calls = sorted(
            (
                node
                for node in ast.walk(self.tree)
                if isinstance(node, ast.Call) and self._leaves(node)
            ),
            key=lambda node: (node.lineno, node.col_offset),
        )
        return next((call for call in calls if _mentions(call, marks)), None)

    def _leaves(self, call: ast.Call) -> bool:
        function = call.func
        if isinstance(function, ast.Name):
            return function.id in _NUMBERS or self._is_foreign(self._known.get(function.id))
        if not isinstance(function, ast.Attribute):
            return False
        root = function.value
        while isinstance(root, ast.Attribute):
            root = root.value
        module = self._known.get(root.id) if isinstance(root, ast.Name) else None
        return function.attr in _LEAVING or self._is_foreign(module)

    def _is_foreign(self, thing: Any) -> bool:
        """Whether a module, or a function of one, computes with something other than tensors."""
        if isinstance(thing, types.ModuleType):
            return thing.__name__.partition(".")[0] not in _TENSORS
        # np.sin is an object of NumPy, and so are generators of random numbers
        return type(thing).__module__.partition(".")[0] == "numpy"


def codes_of(fn: Any, lines: Lines) -> list[Code]:
    """The code of a function, and of what it can call that the user wrote as well."""
    found: dict[types.CodeType, Code] = {}
    for thing in walk(*unwrapped(fn), fn):
        for function, holder in _functions_of(thing):
            if function.__code__ not in found and lines.is_theirs(function.__code__.co_filename):
                try:
                    found[function.__code__] = Code(function, holder)
                except (OSError, TypeError, SyntaxError, ValueError):  # no source to read
                    continue
    return list(found.values())


def _functions_of(thing: Any) -> list[tuple[types.FunctionType, Any]]:
    if isinstance(thing, types.MethodType):
        return [(inspect.unwrap(thing.__func__), thing.__self__)]
    if isinstance(thing, types.FunctionType):
        return [(inspect.unwrap(thing), None)]
    methods = [
        m for name in ("call", "__call__") for m in unwrapped(getattr(type(thing), name, None))
    ]
    return [(inspect.unwrap(m), thing) for m in methods if isinstance(m, types.FunctionType)]


def _parsed(text: str) -> ast.AST:
    """The tree of a function's source; a lambda stands in the middle of a statement."""
    text = textwrap.dedent(text)
    try:
        return ast.parse(text)
    except SyntaxError:
        return ast.parse(f"({text.strip().rstrip(',')})")


def _outside(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    yield from function.__globals__.items()
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not filled yet
            continue


def _decides(parent: ast.AST, child: ast.AST) -> bool:
    if isinstance(parent, ast.If | ast.While | ast.IfExp):
        return child is not parent.test
    if isinstance(parent, ast.For):
        return child is not parent.iter
    if isinstance(parent, ast.BoolOp):
        return child is not parent.values[0]
    return isinstance(parent, ast.ExceptHandler | ast.match_case)


def _left_before(parent: ast.AST, child: ast.AST) -> ast.If | None:
    """The `if` above a statement after which it may not run, because the function returns there."""
    body = getattr(parent, "body", None)
    before = body[: body.index(child)] if isinstance(body, list) and child in body else []
    ends = (ast.Return, ast.Raise, ast.Continue, ast.Break)
    return next((s for s in before if isinstance(s, ast.If) and isinstance(s.body[-1], ends)), None)


def _mentions(node: ast.AST, marks: set[str]) -> bool:
    parts = (n for n in ast.walk(node) if isinstance(n, ast.Name | ast.Attribute | ast.Subscript))
    return any(ast.unparse(part) in marks for part in parts)


def _names_in(target: ast.expr) -> list[ast.expr]:
    return [n for n in ast.walk(target) if isinstance(n, ast.Name)]


def _expression(name: str) -> str:
    try:
        return ast.unparse(ast.parse(name, mode="eval"))
    except SyntaxError:
        return ""


def _root(name: str) -> str:
    return name.partition("[")[0].partition(".")[0]


def left_at(codes: Iterable[Code], name: str, things: Sequence[Any]) -> flow.Place | None:
    """Where the code takes numbers out of the tensors: NumPy, `float`, `x.numpy()`."""
    return next((c.place(call) for c in codes if (call := c.leaving(name, things))), None)


def named_on(codes: Iterable[Code], name: str, things: Sequence[Any]) -> Mention | None:
    """Where the code names a thing that the run never met, and what that means."""
    found = [(code, node) for code in codes for node in code.mentions(name, things)]
    for code in codes:
        stored = code.stored(name)
        if stored is not None and not any(c is code and n.lineno < stored.lineno for c, n in found):
            return Mention(code.place(stored), (flow.Hint.RENAMED,))
    if not found:
        return None
    certain = [(code, node) for code, node in found if code.condition_of(node) is None]
    if certain:
        shapes = all(code.sees_shape(node) for code, node in certain)
        hint = flow.Hint.SHAPE if shapes else flow.Hint.NAMED
        return Mention(certain[0][0].place(certain[0][1]), (hint,))
    code, node = found[0]
    chooses = code.condition_of(node)
    loop = (flow.Hint.LOOP,) if isinstance(chooses, ast.For | ast.While) else ()
    return Mention(code.place(node), (flow.Hint.BRANCH, *loop), code.place(chooses or node))
