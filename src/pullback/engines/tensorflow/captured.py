"""Tensors that a function reads without being given them: found by walking what the function can reach by name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

_DEPTH = 4


def closed_over(function: Any) -> list[tf.Tensor]:
    """The tensors in the cells, defaults, globals and own objects of a function, each once."""
    found: dict[int, tf.Tensor] = {}
    for value in _reachable(function, _DEPTH, set()):
        if isinstance(value, tf.Tensor):
            found[id(value)] = value
    return list(found.values())


def _reachable(value: Any, depth: int, seen: set[int]) -> Iterator[Any]:
    if id(value) in seen or depth < 0:
        return
    seen.add(id(value))
    if isinstance(value, tf.Tensor):
        yield value
        return
    for inner in _inside(value):
        yield from _reachable(inner, depth - 1, seen)


def _inside(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple, set)):
        return list(value)
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if inspect.ismethod(value):
        return [value.__func__, *vars_of(value.__self__)]
    if inspect.isfunction(value):
        return _of_function(value)
    return []


def _of_function(function: Any) -> list[Any]:
    names = function.__code__.co_names
    scope = function.__globals__
    inside = [scope[n] for n in names if n in scope and not inspect.ismodule(scope[n])]
    inside += function.__defaults__ or ()
    inside += (function.__kwdefaults__ or {}).values()
    for cell in function.__closure__ or ():
        try:
            inside.append(cell.cell_contents)
        except ValueError:  # a cell that is not filled yet
            continue
    return inside


def vars_of(instance: Any) -> list[Any]:
    """The attributes of an object, as far as it has a dict of them."""
    return list(getattr(instance, "__dict__", {}).values())
