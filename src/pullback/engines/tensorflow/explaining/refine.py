"""What a run alone does not tell of a source from which no way leads to the result.

Its name may stand on a line that did not run; its numbers may have left the tensors and come back as others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.explaining.code_reading import codes_of, named_on
from pullback.engines.tensorflow.explaining.lines import Lines
from pullback.extend import flow, graph

Again = Callable[
    [Mapping[int, Any]], Sequence[Any]
]  # the results with other things in place of some, by id
_MOVABLE = (tf.Tensor, tf.Variable, np.ndarray, np.generic)
_FACTOR, _SUMMAND = (
    1.37,
    0.71,
)  # far enough that rounding and thresholds are likely to give something else


def refined(
    found: flow.Flow, fn: Any, lines: Lines, again: Again, things: Sequence[Sequence[Any]]
) -> flow.Flow:
    """The flow with what can be found out about sources that lead nowhere; `things` are those behind each source."""
    ways = graph.Graph(found)
    lost = [k for k, source in enumerate(found.sources) if _is_lost(ways, source)]
    if not lost:
        return found
    codes = codes_of(fn, lines)
    moving = _moving(lost, things, again)
    sources = list(found.sources)
    for k in lost:
        known = {id(thing): thing for thing in things[k]}
        if k in moving:
            exits = [
                (code, call)
                for code in codes
                if (call := code.leaving(sources[k].name, known.values()))
            ]
            place = exits[0][0].place(exits[0][1]) if exits else None
            sources[k] = dataclasses.replace(sources[k], moves=True, place=place)
        elif not ways.downstream(sources[k].values, bool) and (
            named := named_on(codes, sources[k].name, known.values())
        ):
            sources[k] = dataclasses.replace(
                sources[k], moves=False, place=named[0], hints=named[1]
            )
        else:
            sources[k] = dataclasses.replace(sources[k], moves=False)
    return dataclasses.replace(found, sources=tuple(sources))


def _is_lost(ways: graph.Graph, source: flow.Source) -> bool:
    flows = source.dtype.startswith(("float", "bfloat", "complex"))
    return flows and source.gradient is None and source.trainable and not ways.way(source.values)


def _moving(lost: Sequence[int], things: Sequence[Sequence[Any]], again: Again) -> set[int]:
    """The sources with which the result changes. All are moved at once first: mostly none does."""
    try:
        before = [np.array(y) for y in again({})]
    except Exception:  # it ran before: what it does now says nothing about gradients
        return set()

    def changes(some: Sequence[int]) -> bool:
        moved = {id(t): _moved(t) for k in some for t in things[k] if isinstance(t, _MOVABLE)}
        try:
            after = [np.array(y) for y in again(moved)]
        except Exception:  # other numbers are not allowed here
            return False
        return len(after) != len(before) or not all(map(_same, before, after))

    todo, found = [list(lost)], set[int]()
    while todo:
        some = todo.pop()
        if changes(some):
            half = len(some) // 2
            found |= set(some) if not half else set()
            todo += [some[:half], some[half:]] if half else []
    return found


def _moved(thing: Any) -> Any:
    """The same with other numbers."""
    numbers = np.array(tf.convert_to_tensor(thing))
    uneven = np.cos(np.arange(numbers.size)).reshape(
        numbers.shape
    )  # some results only see differences
    moved = (numbers * _FACTOR + _SUMMAND * uneven).astype(numbers.dtype)
    return moved if isinstance(thing, np.ndarray | np.generic) else tf.constant(moved)


def _same(one: Any, other: Any) -> bool:
    return one.shape == other.shape and np.allclose(one, other, rtol=1e-6, atol=0, equal_nan=True)
