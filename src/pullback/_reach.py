"""What a function can get at without being given it: one walk for everybody who asks, and a way to change it.

A function refers to what its code names (cells, globals, attributes of modules), to its defaults and to its
attributes; a container, a partial, a method or an object refers to what it holds. Nothing is called, nothing is
written to, and a function of another package is not entered: there is no end to what a framework refers to.
"""

from __future__ import annotations

import contextlib
import copy
import dis
import functools
import itertools
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

DEPTH = 6
# Long containers hold numbers; what refers to something further is in short ones.
MOST_ITEMS = 1000
LEAVES = (types.NoneType, types.ModuleType, type, str, bytes, int, float, complex, np.ndarray)
_WRAPPED_IN = ("python_function", "__wrapped__", "func", "__func__")


def walk(
    *things: Any,
    stop: Callable[[Any], bool] | None = None,
    depth: int = DEPTH,
    inside: Callable[[Any], Iterable[Any]] | None = None,
) -> Iterator[Any]:
    """The things and what can be got at from them, each once, the nearest first.

    What `stop` says yes to is given, but not entered; `inside` says what a thing leads to.
    """
    inside = inside or referred
    seen: dict[int, Any] = {}  # holds on to what is made on the way, so that no two have one id
    level: list[Any] = list(things)
    for _ in range(depth + 1):
        further: list[Any] = []
        for thing in level:
            if id(thing) in seen:
                continue
            seen[id(thing)] = thing
            yield thing
            if not isinstance(thing, LEAVES) and not (stop and stop(thing)):
                further.extend(inside(thing))
        if not further:
            return
        level = further


def referred(thing: Any) -> Iterator[Any]:
    """What a thing refers to directly."""
    if isinstance(thing, list | tuple | set | frozenset):
        yield from itertools.islice(thing, MOST_ITEMS)
    elif isinstance(thing, dict):
        yield from itertools.islice(thing.values(), MOST_ITEMS)
    elif isinstance(thing, functools.partial):
        yield from (thing.func, *thing.args, *thing.keywords.values())
    elif isinstance(thing, types.MethodType):
        yield from (thing.__func__, thing.__self__)
    else:
        yield from (_wrapped_in(thing), getattr(thing, "__self__", None))
        yield from attributes(thing)
        if isinstance(thing, types.FunctionType):
            yield from _of_function(thing)


def _of_function(function: types.FunctionType) -> Iterator[Any]:
    yield from cells_of(function)
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    here = function.__globals__.get("__name__") or ""
    for value in globals_of(function):
        elsewhere = isinstance(value, types.FunctionType | types.BuiltinFunctionType)
        if not elsewhere or package_of(value) == here.partition(".")[0]:
            yield value


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code of a function and of the functions written inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_in(constant)


@functools.lru_cache(1024)
def names_in(code: types.CodeType) -> tuple[str, ...]:
    """The global names and attributes that code uses, in the functions written inside it too, each once."""
    return tuple(dict.fromkeys(name for each in codes_in(code) for name in each.co_names))


def cells_of(function: types.FunctionType) -> list[Any]:
    """What the names from around a function hold, as far as they hold something yet."""
    return [held for cell in function.__closure__ or () for held in _held_by(cell)]


def _held_by(cell: types.CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # not filled yet
        return []


def globals_of(function: types.FunctionType) -> list[Any]:
    """The globals that a function's code names, and what it names of the modules it knows."""
    names = names_in(function.__code__)
    known = [function.__globals__[name] for name in names if name in function.__globals__]
    modules = [vars(m) for m in (*known, *cells_of(function)) if isinstance(m, types.ModuleType)]
    return known + [scope[name] for scope in modules for name in names if name in scope]


def attributes(thing: Any) -> list[Any]:
    """The values of an object's own attributes."""
    return list(named_attributes(thing).values())


def named_attributes(thing: Any) -> dict[str, Any]:
    """What an object holds by name, in its dict and in slots; no property is asked."""
    held = getattr(thing, "__dict__", None)
    named = dict(held) if isinstance(held, dict) else {}
    for kind in type(thing).__mro__:
        for name, slot in vars(kind).items() if "__slots__" in vars(kind) else ():
            if isinstance(slot, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):  # not filled yet
                    named[name] = slot.__get__(thing)
    return named


def unwrapped(value: Any) -> Iterator[Any]:
    """A callable and what it is wrapped around, from the outside in."""
    seen: list[Any] = []
    while callable(value) and not any(value is one for one in seen):
        yield value
        seen.append(value)
        value = _wrapped_in(value)


def _wrapped_in(value: Any) -> Any:
    found = (getattr(value, name, None) for name in _WRAPPED_IN)
    return next((one for one in found if one is not None), None)


def function_behind(value: Any) -> types.FunctionType | None:
    """The Python function that runs when a partial, a method or an object is called, if there is one."""
    while isinstance(value, functools.partial):
        value = value.func
    if not isinstance(value, types.FunctionType | types.MethodType):
        value = type(value).__call__
    value = getattr(value, "__func__", value)
    return value if isinstance(value, types.FunctionType) else None


def package_of(thing: Any) -> str:
    """The package that a function, or the class of an object, is written in."""
    module = getattr(thing, "__module__", None) or type(thing).__module__
    return str(module).partition(".")[0]


class WritesOutside(Exception):
    """A function assigns to names that others read, so that a copy of it would mean something else."""


class Substitution:
    """A function with other values in the places of those that it can get at; nothing is written to.

    Functions, containers and objects on the way to what is replaced are made again, all else is shared. `replace`
    gives the value to use for a thing, or `None` where the thing is to be entered; `parts` says of what else, and
    how, a thing can be made again.
    """

    def __init__(
        self,
        replace: Callable[[Any], Any],
        parts: Callable[[Any], tuple[Callable[..., Any], Iterable[Any]] | None],
    ) -> None:
        self._replace, self._parts = replace, parts
        self._made: dict[int, tuple[Any, Any]] = {}  # by identity, with the originals kept alive

    def of(self, thing: Any, depth: int = DEPTH) -> Any:
        """The thing, or another one if anything in it had to change."""
        if id(thing) in self._made:
            return self._made[id(thing)][1]
        if depth == 0 or isinstance(thing, LEAVES):
            return thing
        self._made[id(thing)] = (thing, thing)  # for what leads back to itself
        new = self._replace(thing)
        new = self._entered(thing, depth) if new is None else new
        self._made[id(thing)] = (thing, new)
        return new

    def _entered(self, thing: Any, depth: int) -> Any:
        if isinstance(thing, types.FunctionType) and self._parts(thing) is None:
            return self._function(thing, depth - 1)
        depth += isinstance(thing, types.CellType)  # a cell is part of its function
        make, parts = self._parts(thing) or _parts_of(thing)
        old = list(parts)
        new = [self.of(part, depth - 1) for part in old[:MOST_ITEMS]] + old[MOST_ITEMS:]
        return thing if _same(old, new) else make(*new)

    def _function(self, function: types.FunctionType, depth: int) -> types.FunctionType:
        cells, scope = function.__closure__ or (), function.__globals__
        new_cells = tuple(self.of(cell, depth) for cell in cells)
        names = sorted(set(names_in(function.__code__)) & scope.keys())
        changed = {n: v for n in names if (v := self.of(scope[n], depth)) is not scope[n]}
        if not changed and _same(cells, new_cells):
            return function
        if _writes_outside(function.__code__):
            raise WritesOutside(function.__qualname__)
        made = types.FunctionType(
            function.__code__,
            {**scope, **changed} if changed else scope,
            function.__name__,
            function.__defaults__,
            new_cells or None,
        )
        made.__kwdefaults__ = function.__kwdefaults__
        made.__dict__.update({k: v for k, v in vars(function).items() if k != "__wrapped__"})
        return made


def _parts_of(thing: Any) -> tuple[Callable[..., Any], Iterable[Any]]:
    """How a thing is made of its parts, and the parts."""
    if isinstance(thing, types.MethodType):
        return types.MethodType, (thing.__func__, thing.__self__)
    if isinstance(thing, functools.partial):
        return _partial, (thing.func, thing.args, thing.keywords)
    if isinstance(thing, dict):
        return lambda *new: dict[Any, Any](zip(thing, new, strict=True)), thing.values()
    if isinstance(thing, list | tuple):
        kind: Any = type(thing)
        return kind if hasattr(kind, "_fields") else lambda *new: kind(new), thing
    if isinstance(thing, types.CellType):
        return types.CellType, _held_by(thing)
    return functools.partial(_object, thing), attributes(thing)


def _partial(function: Any, args: Any, keywords: Any) -> Any:
    return functools.partial(function, *args, **keywords)


def _object(thing: Any, *new: Any) -> Any:
    made = copy.copy(thing)
    own: dict[str, Any] = getattr(made, "__dict__", {})
    for name, value in zip(named_attributes(thing), new, strict=True):
        if name in own:
            own[name] = value  # past what a class does when it is set
        else:
            object.__setattr__(made, name, value)
    return made


def _same(some: Iterable[Any], others: Iterable[Any]) -> bool:
    return all(a is b for a, b in zip(some, others, strict=True))


def _writes_outside(code: types.CodeType) -> bool:
    """Whether a function, or one inside it, assigns to names that others may read."""
    steps = ((step, each) for each in codes_in(code) for step in dis.get_instructions(each))
    return any(
        step.opname == "STORE_GLOBAL"
        or (step.opname == "STORE_DEREF" and step.argval in each.co_freevars)
        for step, each in steps
    )
