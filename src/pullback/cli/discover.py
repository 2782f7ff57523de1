"""Custom gradients in a module: which there are, and under which names."""

import ast
import contextlib
import inspect
import itertools
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from pullback._engine import only_engine
from pullback._function import GradientFunction
from pullback._reach import MOST_ITEMS, unwrapped
from pullback.cli.inputs import NAME, names_given
from pullback.errors import CheckError, EngineError

_DEPTH = 2  # of dicts in dicts
LAZY = "a call of it gives a {}, which has no gradient: write it with def and return, and without yield"


@dataclass(frozen=True)
class Candidate:
    """A function with a gradient of its own, under the name it has in its module.

    There is no function where inputs are given for a name that the module does not have; `owner` is
    the class of a method.
    """

    name: str
    function: Any
    owner: type | None = None


def candidates(
    module: ModuleType, only: str | None = None, own: Collection[str] = ()
) -> list[Candidate]:
    """The custom gradients that a module defines, in the order in which it does.

    What `pullback_inputs` names is taken along, custom gradient or not. Lists and dicts that are its `own` may have a
    name in other modules as well.
    """
    if only is not None:
        return [named(module, only)]
    found = _members(module, own)
    known = {one.name for one in found}
    more = [name for name in names_given(module) if name not in known]
    return found + [_or_nothing(module, name) for name in more]


def named(module: ModuleType, path: str) -> Candidate:
    """The function that a name such as `f`, `Class.method` or `table['f']` means."""
    if path.endswith("]"):
        return Candidate(path, _in_container(module, ast.parse(path, mode="eval").body))
    owner, thing = None, module
    for name in path.split("."):
        if not hasattr(thing, name):
            raise AttributeError(f"{module.__name__} has no {path!r}")
        owner, thing = thing, inspect.getattr_static(thing, name)
        thing = thing if not isinstance(thing, staticmethod | classmethod) else getattr(owner, name)
    return Candidate(path, thing, _owner(owner, thing))


def _in_container(module: ModuleType, node: ast.expr) -> Any:
    """What `table['f'][0]` means in a module."""
    if isinstance(node, ast.Subscript):
        return _in_container(module, node.value)[ast.literal_eval(node.slice)]
    return getattr(module, ast.unparse(node))


def _or_nothing(module: ModuleType, name: str) -> Candidate:
    try:
        return named(module, name)
    except AttributeError:
        return Candidate(name, None)


def bound(one: Candidate) -> Candidate:
    """A method as a function of an instance, where its class can be called without arguments."""
    if one.owner is None:
        return one
    try:
        instance = one.owner()
    except Exception as error:
        raise CheckError(
            f"it is a method, and {one.owner.__name__}() raised {type(error).__name__}: give an "
            "instance as its first input"
        ) from error
    return replace(one, function=getattr(instance, one.name.rpartition(".")[2]), owner=None)


def lazy_result(function: Any) -> str:
    """What a call gives in place of a result: a coroutine, a generator, or nothing of the kind."""
    for one in unwrapped(function):
        if inspect.iscoroutinefunction(one):
            return "coroutine"
        if inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one):
            return "generator"
    return ""


def has_own_gradient(value: Any) -> bool:
    """Made by pullback's `custom_gradient`, `with_gradient`, `with_partials`, `override`, or the framework's."""
    try:
        is_custom = only_engine().probes.is_custom_gradient
    except EngineError:
        return False
    return any(
        isinstance(v, GradientFunction) or is_custom(v) or hasattr(v, "__pullback_override__")
        for v in unwrapped(value)
    )


def _members(module: ModuleType, own: Collection[str]) -> list[Candidate]:
    """What a module defines, and what the classes it defines hold.

    An object that cannot be looked at, such as one that stands for another outside of its context, is left out.
    """
    found: list[Candidate] = []
    for name, value in list(vars(module).items()):
        if name.startswith("__") or name == NAME:
            continue
        with contextlib.suppress(Exception):
            if isinstance(value, type):
                is_here = value.__module__ == module.__name__
                found += _in_class(name, value, module) if is_here else []
            elif callable(value) and _is_from(value, module):
                found += [Candidate(name, value)] if has_own_gradient(value) else []
            elif isinstance(value, dict | list | tuple):
                found += _held(name, value, module, is_own=name in own)
    return found


def _in_class(name: str, owner: type, module: ModuleType) -> Iterator[Candidate]:
    for inner in [n for n in vars(owner) if not n.startswith("__") or n == "__call__"]:
        with contextlib.suppress(Exception):
            one = named(module, f"{name}.{inner}")
            if has_own_gradient(one.function):
                yield one


def _held(name: str, container: Any, module: ModuleType, *, is_own: bool) -> Iterator[Candidate]:
    """The custom gradients in a list or dict of a module that have no name there."""
    found: list[Candidate] = []
    for path, value in itertools.islice(_items(name, container, _DEPTH), MOST_ITEMS):
        with contextlib.suppress(Exception):
            if callable(value) and not isinstance(value, type) and has_own_gradient(value):
                found.append(Candidate(path, value))
    others = [m for m in list(sys.modules.values()) if m is not module] if found else []
    if not is_own and _is_in(container, others):
        return
    yield from (one for one in found if not _is_in(one.function, [module, *others]))


def _items(name: str, container: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """What a list or dict holds, and those in it, by the expression that means it."""
    pairs: Any = container.items() if isinstance(container, dict) else enumerate(container)
    for key, value in pairs:
        if not issubclass(type(key), str | int):
            continue  # nothing that a name could say
        path = f"{name}[{key!r}]"
        if issubclass(type(value), dict | list | tuple) and depth:
            yield from _items(path, value, depth - 1)
        else:
            yield path, value


def _owner(owner: Any, thing: Any) -> type | None:
    """The class of which a function is a method that needs an instance."""
    free = callable(thing) and getattr(thing, "__self__", None) is None
    return owner if isinstance(owner, type) and free and _takes_self(thing) else None


def _takes_self(function: Any) -> bool:
    try:
        return next(iter(inspect.signature(function).parameters), "") == "self"
    except (TypeError, ValueError):
        return False


def _is_from(value: Any, module: ModuleType) -> bool:
    """Whether a module made a value rather than imported it."""
    made_by = {getattr(v, "__module__", None) for v in unwrapped(value)}
    made_by.add(getattr(getattr(value, "rule", None), "__module__", None))
    if module.__name__ in made_by:
        return True
    others = [m for m in list(sys.modules.values()) if m is not module]
    return has_own_gradient(value) and not _is_in(value, others)


def _is_in(value: Any, modules: list[ModuleType]) -> bool:
    """Whether one of the modules has a name for a value."""
    return any(value is held for m in modules for held in list(getattr(m, "__dict__", {}).values()))
