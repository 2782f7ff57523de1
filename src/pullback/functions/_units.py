"""Functions that run as one unit compiled by XLA each way, forward and backward, where a graph has large arrays.

A function is written once, as `parts`: from arrays to its value and its pullback. Where no unit is made, as in code
that runs at once, the pullback uses what the forward pass has computed. Where one is made, the backward pass computes
it again from the arrays, which takes less time than to write it and to read it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Parts = Callable[..., tuple[Any, Callable[..., Any]]]


def in_units(
    xp: Any,
    parts: Parts,
    *arrays: Any,
    apart: tuple[str, ...] = (),
    **options: Any,
) -> tuple[Any, Callable[..., Any]]:
    """The value and the pullback of parts. Gradients named as `apart` are units each.

    What nobody asks for is then left out of the graph: mostly labels need no gradient.
    """
    if not xp.pays_to_compile(arrays):
        return parts(*arrays, **options)
    value = xp.compiled(_value, parts=parts, **options)(*arrays)
    backward = functools.partial(xp.compiled, _gradients, parts=parts, **options)

    def unit_pullback(dy: Any) -> Any:
        if apart:
            return {name: backward(name=name)(dy, *arrays) for name in apart}
        return backward(name=None)(dy, *arrays)

    return value, unit_pullback


def in_one_unit(xp: Any, function: Callable[..., Any], *arrays: Any, **options: Any) -> Any:
    """What a function of arrays gives."""
    make = xp.compiled if xp.pays_to_compile(arrays) else functools.partial
    return make(function, **options)(*arrays)


def _value(*arrays: Any, parts: Parts, **options: Any) -> Any:
    return parts(*arrays, **options)[0]


def _gradients(dy: Any, *arrays: Any, parts: Parts, name: str | None, **options: Any) -> Any:
    found = parts(*arrays, **options)[1](dy)
    return found if name is None else found[name]
