"""The same function with made-up inputs of other sizes, and with more or fewer axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pullback._engine import only_engine
from pullback._tree import flatten
from pullback.cli.checking.calling import called, names_of, signature_holder
from pullback.cli.checking.reach import Found
from pullback.cli.checking.recorder import codes_of
from pullback.cli.guess.calls import Recipe
from pullback.cli.guess.docstrings import allows_more_axes
from pullback.cli.guess.reading import doc_of
from pullback.cli.guess.sizes import Shape, shape_of, size_rules, sizes
from pullback.cli.guess.wanted import Wanted
from pullback.errors import CheckError

Change = Callable[[Recipe], tuple[Shape, ...]]
_MORE = 2  # the size of an axis that is added behind the first
_BATCH = 3
_FACTOR = 3  # what is even stays so, and what is odd; no square comes of what is none
_POWER_OF_TWO = 2
_LARGE = 600  # numbers in all inputs, beyond which larger ones would take long
_ROUNDING = 1e-4


def of_other_sizes(found: Found, power: int = 1) -> list[Found]:
    """Sizes that are not given in numbers several times as large, behind the first axis."""
    rules = size_rules(doc_of(_described(found)))
    factor = _POWER_OF_TWO if any(rule.is_power for rule in rules) else _FACTOR

    def change(recipe: Recipe) -> tuple[Shape, ...]:
        dims = [leaf.dims for leaf in recipe.leaves if leaf.dims is not None]
        known = sizes(dims, rules, recipe.given)
        large = sum(map(math.prod, recipe.shapes)) > _LARGE
        kept = {str(name).lower() for d in dims for name in d[: _kept(len(d), large)]}.union(
            recipe.given
        )
        larger = {n: size * factor**power for n, size in known.items() if n not in kept}
        known |= larger
        return tuple(
            _times(shape, factor**power, large) if leaf.dims is None else shape_of(leaf.dims, known)
            for leaf, shape in _pairs(recipe)
        )

    return _remade(found, change)


def _times(shape: Shape, factor: int, large: bool) -> Shape:
    """A shape with larger sizes, of one that is large with a larger last axis."""
    kept = _kept(len(shape), large)
    return tuple(size if k < kept or size == 1 else size * factor for k, size in enumerate(shape))


def _kept(axes: int, large: bool) -> int:
    """How many axes keep their sizes: the first, which may be a batch, or all but the last."""
    return axes - 1 if large else min(axes - 1, 1)


def with_more_axes(found: Found) -> list[Found]:
    """One axis more for the first tensor whose shape is left open, and for those of the same shape.

    Only where no tensor has more axes, and none that is described as many: what is broadcast against another is no
    batch of its own.
    """
    return _remade(found, _with_more)


def with_fewer_axes(found: Found) -> list[Found]:
    """Without the first axis, where all tensors whose shape is left open have one."""
    return _remade(found, _with_fewer)


def _with_more(recipe: Recipe) -> tuple[Shape, ...]:
    first = next((s for one, s in _pairs(recipe) if _is_open(one) and len(s) in (1, 2)), None)
    if first is None or any(_outranks(one, s, first) for one, s in _pairs(recipe)):
        return recipe.shapes
    longer = (_BATCH, *first) if len(first) == 1 else (first[0], _MORE, first[1])
    return tuple(longer if _is_open(one) and s == first else s for one, s in _pairs(recipe))


def _outranks(wanted: Wanted, shape: Shape, first: Shape) -> bool:
    is_as_long = len(shape) == len(first) and not _is_open(wanted)
    return wanted.is_tensor and (len(shape) > len(first) or is_as_long)


def _with_fewer(recipe: Recipe) -> tuple[Shape, ...]:
    open_ = {s for one, s in _pairs(recipe) if _is_open(one)}
    if len(open_) != 1 or len(next(iter(open_))) < 2:
        return recipe.shapes
    return tuple(s[1:] if _is_open(one) else s for one, s in _pairs(recipe))


def _pairs(recipe: Recipe) -> list[tuple[Wanted, Shape]]:
    return list(zip(recipe.leaves, recipe.shapes, strict=True))


def _is_open(wanted: Wanted) -> bool:
    return (
        wanted.is_tensor and not wanted.axes and (wanted.dims is None or "leading" in wanted.dims)
    )


def _remade(found: Found, change: Change) -> list[Found]:
    """The function with another call, which may be one of what it is made in; nothing where that does not run."""
    guess = found.outer[1] if found.outer else found.guess
    shapes = change(guess.recipe) if guess.recipe else ()
    if guess.recipe is None or shapes == guess.recipe.shapes:
        return []
    guess = replace(guess.recipe, shapes=shapes).guess()
    if found.outer is None:
        return _running(replace(found, guess=guess))
    outer, _ = found.outer
    _, reached, _ = called(outer, guess)
    own = set(codes_of(found.function))
    for hit in (hit for hit in reached if not own.isdisjoint(hit.codes)):
        sources = dict(zip(names_of(hit), found.guess.sources.values(), strict=False))
        call = replace(found.guess, args=hit.args, kwargs=hit.kwargs, sources=sources)
        return _running(replace(found, function=hit.function, guess=call, outer=(outer, guess)))
    return []


def _running(found: Found) -> list[Found]:
    ran = only_engine().probes.trial(found.function, found.guess.args, found.guess.kwargs)
    if ran.refused:
        return []
    return [replace(found, fault=ran.fault, caveat="", unsure=False)]


def _described(found: Found) -> Any:
    return signature_holder(found.outer[0]) if found.outer else found.function


def says_more_axes(found: Found) -> bool:
    """Whether its docstring speaks of batches, or of tensors of any shape."""
    recipe = (found.outer[1] if found.outer else found.guess).recipe
    axes = [len(shape) for one, shape in _pairs(recipe) if _is_open(one)] if recipe else []
    described = (_described(found), found.function)
    return any(allows_more_axes(doc_of(one), max(axes, default=1)) for one in described)


def goes_by_rows(found: Found) -> bool:
    """Whether the function treats the first axis as a batch: every row as it would alone, or the sum or mean of all."""
    args, kwargs = found.guess.args, found.guess.kwargs
    counts = {int(v.shape[0]) for v in args if _has_rows(v)}
    if len(counts) != 1:
        return False
    try:
        whole = _numbers(found.function(*args, **kwargs))
        rows = [
            _numbers(found.function(*(v[k] if _has_rows(v) else v for v in args), **kwargs))
            for k in range(counts.pop())
        ]
    except Exception:  # rows alone are refused
        return False
    return all(
        _is_made_of(one, list(parts))
        for one, parts in zip(whole, zip(*rows, strict=True), strict=True)
    )


def _has_rows(value: Any) -> bool:
    return hasattr(value, "dtype") and len(value.shape) > 1


def _numbers(result: Any) -> list[Any]:
    return [np.asarray(leaf) for leaf in flatten(result)[0]]


def _is_made_of(whole: Any, rows: list[Any]) -> bool:
    stacked = np.stack(rows)
    if whole.shape == stacked.shape:
        return bool(np.allclose(whole, stacked, _ROUNDING, _ROUNDING))
    sums = (stacked.sum(0), stacked.mean(0))
    return any(whole.shape == s.shape and np.allclose(whole, s, _ROUNDING, _ROUNDING) for s in sums)


def right_elsewhere(found: Found, is_right: Callable[[Found], bool]) -> Found | None:
    """Inputs with which a rule is right that is wrong with those that were made up, and these to blame, not the rule.

    They are to blame if other sizes alone make it right, or if the function itself does not take them for a batch.
    """
    candidates = [*of_other_sizes(found), *of_other_sizes(found, 2)]
    if not goes_by_rows(found):
        candidates += with_fewer_axes(found)
    candidates += with_more_axes(found)
    return next((one for one in candidates if not one.fault and _safely(is_right, one)), None)


def _safely(is_right: Callable[[Found], bool], one: Found) -> bool:
    try:
        return is_right(one)
    except CheckError:
        return False


def symmetric_instead(found: Found) -> list[Found]:
    """The same call with symmetric matrices, where the function reads one half of what are general ones only."""
    args = list(found.guess.args)
    which = [k for k, value in enumerate(args) if _is_general_matrix(value)]
    if not which:
        return []
    for half in (np.tril, np.triu):
        halved = [_reflected(v, half) if k in which else v for k, v in enumerate(args)]
        one = replace(found, guess=replace(found.guess, args=tuple(halved)))
        if _running(one) and _is_same(found, one):
            return [one]
    return []


def _is_general_matrix(value: Any) -> bool:
    shape = tuple(getattr(value, "shape", ()))
    if len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] < 2 or not hasattr(value, "dtype"):
        return False
    matrix = np.asarray(value)
    return matrix.dtype.kind in "fc" and not np.allclose(matrix, np.swapaxes(matrix, -1, -2))


def _reflected(value: Any, half: Any) -> Any:
    matrix = half(np.asarray(value))
    both = matrix + np.swapaxes(matrix, -1, -2) * (1 - np.eye(matrix.shape[-1]))
    return only_engine().probes.tensor(both.astype(matrix.dtype), matrix.dtype.name)


def _is_same(some: Found, other: Found) -> bool:
    """Whether two calls come to the same."""
    results = [_numbers(one.function(*one.guess.args, **one.guess.kwargs)) for one in (some, other)]
    return all(np.allclose(a, b, _ROUNDING, _ROUNDING) for a, b in zip(*results, strict=True))
