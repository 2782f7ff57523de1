"""Tensors in places where a rule has no say: inside of objects that nothing can take apart.

A tensor that a body uses without being given it keeps its ordinary gradient, beside what the rule says of the
arguments. Where no argument carries a gradient, the rule has nothing to speak of: that is an error. So is a tensor that
a body hides in what it returns: the rule would not get its upstream.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterator, Sequence
from types import FunctionType, MethodType, ModuleType
from typing import Any, NoReturn

import keras
import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.attach.closed_over import tensors_of
from pullback.engines.tensorflow.attach.recorded import Given
from pullback.errors import UnreachableOverride, UnsupportedError
from pullback.extend import (
    ForwardResult,
    Kind,
    describe,
    forget_leaf,
    leaf_path,
    named_attributes,
)

_SIMPLE = (type(None), bool, str, bytes, type, ModuleType)
_DEPTH = 4  # an object, what it holds, a container in that, its items
_MOST_NAMED = 4
_ADVICE = (
    "in a list, tuple, dict, namedtuple, dataclass or attrs class, or register their class with "
    'optree.register_pytree_node(..., namespace="pullback")'
)


def refuse_unseen(given: Given, rule: Any, used: Sequence[Any] = ()) -> NoReturn:
    """The error for a call without an argument to which gradients flow, which used tensors from which they do."""
    call = given.call
    for kind in {type(leaf) for leaf in given.leaves}:
        forget_leaf(kind)  # by the next call it may be registered
    named = ", ".join(_names_of(given, used)) or "tensors that it reaches by itself"
    error = UnsupportedError if call.definition.owner is not None else UnreachableOverride
    raise error(
        f"{call.title} was given no tensor that a gradient can flow into, but uses {named}, so that its rule {rule} "
        f"would have no effect. Pass tensors as arguments, by themselves or {_ADVICE}."
    )


def refuse_in_outputs(given: Given, result: ForwardResult) -> None:
    """Refuse outputs that hide tensors which the body has made."""
    suspects = [leaf for leaf in result.leaves if _may_hide(leaf)]
    if not suspects:
        return
    known = {id(t) for t in tensors_of(given.call.definition.function, given.leaves)}
    for leaf in suspects:
        found = [name for name, t in _inside(type(leaf).__name__, leaf) if id(t) not in known]
        if found or isinstance(leaf, Iterator):
            what = ", ".join(found[:_MOST_NAMED]) or "what it will give"
            forget_leaf(type(leaf))
            raise UnsupportedError(
                f"{given.call.title} returned {describe(leaf)}, which hides {what} from its rule. Return tensors, by "
                f"themselves or {_ADVICE}."
            )


def _may_hide(leaf: Any) -> bool:
    if isinstance(leaf, np.ndarray):
        return leaf.dtype == object
    return values.kind(leaf) is Kind.STATIC and not isinstance(leaf, _SIMPLE)


def _names_of(given: Given, wanted: Sequence[Any]) -> list[str]:
    """Where a call has these tensors from: its arguments, the object or partial that is called, names around it.

    Where it is not known which, all that have gradients.
    """
    call, own = given.call, {id(tensor) for tensor in wanted}
    roots = [
        (leaf_path(call.names, call.structure, i).partition(" (")[0], leaf)
        for i, leaf in enumerate(given.leaves)
    ]
    roots += _parts_of_callable(call.definition.function) or [("self", call.definition.function)]
    found = [(way, t) for name, thing in roots for way, t in _inside(name, thing)]
    chosen = [way for way, t in found if (id(t) in own if own else _has_gradient(t))]
    return [f"`{way}`" for way in dict.fromkeys(chosen)][:_MOST_NAMED]


def _has_gradient(tensor: Any) -> bool:
    symbolic = not isinstance(tensor, private.EagerTensor)
    return symbolic or private.possible_gradient_types([tensor]) > 0


def _parts_of_callable(function: Any) -> list[tuple[str, Any]]:
    """What a function, method or partial was made with."""
    if isinstance(function, functools.partial):
        given = [*enumerate(function.args), *function.keywords.items()]
        return [(f"partial[{key!r}]", v) for key, v in given] + _parts_of_callable(function.func)
    if isinstance(function, MethodType):
        return [("self", function.__self__), *_parts_of_callable(function.__func__)]
    if isinstance(function, FunctionType):
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        return [(name, cell.cell_contents) for name, cell in cells if _is_filled(cell)]
    return []


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _inside(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """The tensors that carry gradients inside of a thing, with the way to each."""
    todo, seen = collections.deque([(name, thing, _DEPTH)]), set[int]()
    while todo:
        name, thing, depth = todo.popleft()
        if id(thing) in seen or isinstance(thing, (*_SIMPLE, tf.Variable, keras.Variable)):
            continue
        seen.add(id(thing))
        if isinstance(thing, tf.Tensor | keras.KerasTensor):
            if values.flows(thing):
                yield name, thing
        elif depth:
            todo.extend((way, part, depth - 1) for way, part in _parts(name, thing))


def _parts(name: str, thing: Any) -> list[tuple[str, Any]]:
    if isinstance(thing, functools.partial | MethodType | FunctionType):
        return [(f"{name}: {part}", value) for part, value in _parts_of_callable(thing)]
    if isinstance(thing, dict):
        return [(f"{name}[{key!r}]", value) for key, value in thing.items()]
    if isinstance(thing, np.ndarray):
        items = thing.flat if thing.dtype == object else ()
        return [(f"{name}[{i}]", value) for i, value in enumerate(items)]
    if isinstance(thing, list | tuple | set | frozenset):
        return [(f"{name}[{i}]", value) for i, value in enumerate(thing)]
    return [(f"{name}.{key}", value) for key, value in named_attributes(thing).items()]
