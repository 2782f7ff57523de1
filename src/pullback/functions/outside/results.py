"""What external code returns: shapes and dtypes, as users give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.errors import ArgumentError


class Out(NamedTuple):
    """Shape and dtype of one result; a dtype of `None` is that of the first input."""

    shape: tuple[int | None, ...]
    dtype: Any = None


def outs_of(out: Any) -> list[Out] | None:
    """What the user said of the results, one entry for each."""
    if out is None:
        return None
    several = isinstance(out, list)
    found = [_one_out(each) for each in (out if several else [out])]
    if any(each is None for each in found) or not found:
        raise ArgumentError(
            f"pb.functions.external got out={out!r}; wanted a shape, such as (3, None), or (shape, dtype), or a list "
            "of these for several results."
        )
    return [each for each in found if each is not None]


def _one_out(out: Any) -> Out | None:
    if isinstance(out, Out):
        return out
    if _is_shape(out):
        return Out(tuple(out))
    pair = isinstance(out, tuple) and len(out) == 2 and _is_shape(out[0])
    return Out(tuple(out[0]), out[1]) if pair else None


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and all(
        n is None or (isinstance(n, int) and not isinstance(n, bool)) for n in value
    )


def specs_of(xp: Any, outs: list[Out] | None, batch: str, inputs: Sequence[Any]) -> list[Any]:
    """Shape and dtype of each result, with the axis of examples in front."""
    if outs is None:
        return [xp.spec_like(inputs[0])]
    front = () if batch == "whole" else tuple(inputs[0].shape[:1])
    return [xp.spec_of(front + o.shape, o.dtype or inputs[0].dtype) for o in outs]


def no_rows(outs: list[Out] | None, first: Any) -> list[Any]:
    """The results of no examples, of a dtype that can be cast into any other."""
    shapes = [first.shape[1:]] if outs is None else [out.shape for out in outs]
    return [np.zeros([0, *(n or 0 for n in shape)], bool) for shape in shapes]
