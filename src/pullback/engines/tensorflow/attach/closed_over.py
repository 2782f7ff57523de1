"""Tensors that a function reads without being given them.

Most are found beforehand, by walking what the function can reach by name; the rest show when an op reads them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private

_DEPTH = 5


def closed_over(function: Any, arguments: Sequence[Any]) -> list[tf.Tensor]:
    """The tensors in the cells, defaults, globals and objects of a function, each once."""
    found: dict[int, tf.Tensor] = {}
    objects = [vars_of(a) for a in arguments if not isinstance(a, tf.Tensor)]
    for value in _reachable([function, objects], _DEPTH, set()):
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


class Reads:
    """Open it around a body; it lists the tensors known to tapes that the body reads and nobody expected."""

    def __init__(self, expected: Sequence[Any]) -> None:
        self._known = {id(t) for t in expected}
        self._found: list[Any] = []

    def __enter__(self) -> list[Any]:
        self._start = private.next_number()
        self._before = private.op_callbacks()
        private.set_op_callbacks([*self._before, self._note])
        return self._found

    def __exit__(self, *error: Any) -> None:
        private.set_op_callbacks(self._before)

    def _note(
        self,
        kind: Any,
        inputs: Any,
        attrs: Any,
        outputs: Any,
        op_name: Any = None,
        graph: Any = None,
    ) -> Any:
        del kind, attrs, op_name
        if graph is None:
            for tensor in inputs:
                self._look_at(tensor)
        return outputs

    def _look_at(self, tensor: Any) -> None:
        older = private.number_of(tensor) < self._start
        if older and id(tensor) not in self._known and tensor.dtype != tf.resource:
            self._known.add(id(tensor))
            if private.possible_gradient_types([tensor]):
                self._found.append(tensor)
