"""A function that is right, checked once more: with other settings than its defaults, and with one more axis.

A factor that is forgotten does not show where it is 1, nor an axis that is always the last where it is the last.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pullback._engine import only_engine
from pullback.cli.checking.caveats import Check, caveat_of
from pullback.cli.checking.reach import Found, callables_in, called, signature_holder
from pullback.cli.checking.recorder import codes_of
from pullback.cli.guess.calls import described, spec
from pullback.cli.guess.names import number_for
from pullback.cli.guess.reading import choices_of, parameters_of, source_of
from pullback.cli.guess.wanted import TRIED, numbers
from pullback.cli.guess.words import means
from pullback.errors import CheckError

Variant = tuple[str, Found]
_MOST = 6
_LARGER, _BETWEEN = 1.5, 0.7  # far enough from a default, and from 0 and 1, for a factor to show
_SMALL = 0.01  # numbers below only guard against zero
_FLAT, _DEEPER = (3, 4), (3, 2, 4)
_AXIS = "axis axes *_axis dim"
_MASKS = {"mask *_mask": "flags", "weights weight sample_weight* class_weight*": "positive"}


def caveat_of_variants(found: Found, options: Mapping[str, Any], check: Check) -> str:
    """With what a function is wrong that is right at its inputs; nothing where none is found."""
    for words, one in itertools.islice(_variants(found), _MOST):
        ran = only_engine().probes.trial(one.function, one.guess.args, one.guess.kwargs)
        if ran.refused or ran.not_finite:
            continue
        try:
            report = check(one, {**options, "quick": True})
        except CheckError:
            continue
        if report.verdict == "wrong" and not caveat_of(report, one, options, check):
            return f"{words}, {report.diagnosis}"
    return ""


def _variants(found: Found) -> Iterator[Variant]:
    yield from _deeper(found)
    yield from _with_own_settings(found)
    yield from _made_with_others(found)
    yield from _called_with_others(found)


def _deeper(found: Found) -> Iterator[Variant]:
    """Tensors of one more axis, where an axis can be chosen: of two axes, number 1 is the last."""
    if not _chooses_axis(found.function):
        return
    args = tuple(
        _tensor(_DEEPER, "", k) if _is_flat(value) and _is_tried(source) else value
        for k, (value, source) in enumerate(
            zip(found.guess.args, found.guess.sources.values(), strict=False)
        )
    )
    if any(a is not b for a, b in zip(args, found.guess.args, strict=True)):
        guess = replace(found.guess, args=args)
        yield described(guess, found.function), replace(found, guess=guess)


def _with_own_settings(found: Found) -> Iterator[Variant]:
    """Other values for parameters of its own; by name, which `tf.custom_gradient` asks no gradient for."""
    for p, value in _other_settings(found.function, found):
        guess = replace(found.guess, kwargs={**found.guess.kwargs, p.name: value})
        yield spec(p.name, value), replace(found, guess=guess)


def _made_with_others(found: Found) -> Iterator[Variant]:
    """What its factory returns for other values of its own."""
    if found.factory is None:
        return
    factory, given = found.factory
    for p, value in _other_settings(factory, found, given.kwargs):
        try:
            made = factory(*given.args, **{**given.kwargs, p.name: value})
        except Exception:  # a value that the factory refuses
            continue
        alike = [one for one in callables_in(made) if _is_same_code(codes_of(one), found)]
        yield from ((spec(p.name, value), replace(found, function=one)) for one in alike[:1])


def _called_with_others(found: Found) -> Iterator[Variant]:
    """What is reached where the function around it gets other values of its own."""
    if found.outer is None:
        return
    outer, given = found.outer
    for p, value in _other_settings(outer, found, given.kwargs):
        _, reached, _ = called(outer, replace(given, kwargs={**given.kwargs, p.name: value}))
        alike = [hit for hit in reached if _is_same_code(iter(hit.codes), found)]
        for hit in alike[:1]:
            guess = replace(found.guess, args=hit.args, kwargs=hit.kwargs)
            yield spec(p.name, value), replace(found, function=hit.function, guess=guess)


def _is_same_code(codes: Iterator[Any], found: Found) -> bool:
    return not set(codes).isdisjoint(codes_of(found.function))


def _other_settings(
    function: Any, found: Found, given: Mapping[str, Any] | None = None
) -> Iterator[tuple[inspect.Parameter, Any]]:
    """Parameters that keep their defaults, each with values that it may have as well."""
    if getattr(function, "__name__", "") == "<lambda>":
        return  # `lambda x, k=k: ...` has no settings, but holds what k is now
    own = found.guess
    taken = {*(own.kwargs if given is None else given), *(own.sources if given is None else ())}
    text = source_of(function)
    for p in parameters_of(signature_holder(function)):
        if p.default is not inspect.Parameter.empty and p.name not in taken:
            yield from ((p, value) for value in _others(p.name, p.default, text, found))


def _others(name: str, default: Any, text: str, found: Found) -> list[Any]:
    if isinstance(default, bool):
        return [not default]
    if isinstance(default, str):
        return [choice for choice in choices_of(name, text) if choice != default]
    if default is None:
        return _masks(name, found)
    if isinstance(default, int) and means(_AXIS, name):
        return [axis for axis in (0, -1) if axis != default][:1]
    if not isinstance(default, int | float) or 0 < abs(default) < _SMALL:
        return []
    if default not in (0, 1):
        return [default + 1 if isinstance(default, int) else _LARGER * default]
    # a whole number may be a count, unless its name says otherwise
    number = number_for(name) or (_BETWEEN if isinstance(default, float) else None)
    return [] if number is None else [number]


def _masks(name: str, found: Found) -> list[Any]:
    """A mask or weights for each entry of the first tensor, or for each row."""
    kind = next((values for words, values in _MASKS.items() if means(words, name)), "")
    shapes = [tuple(v.shape) for v in found.guess.args if hasattr(v, "dtype")][:1]
    rows = [shape[:-1] for shape in shapes if shape]
    return [_tensor(shape, kind, 7) for shape in [*shapes, *rows]] if kind else []


def _tensor(shape: tuple[int, ...], values: str, which: int) -> Any:
    made = numbers(shape, values, "float32", (which, 0))
    return only_engine().probes.tensor(made, "float32")


def _chooses_axis(function: Any) -> bool:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return False
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return any(means(_AXIS, name) for name in (*own, *code.co_freevars))


def _is_flat(value: Any) -> bool:
    dtype = getattr(getattr(value, "dtype", None), "name", "")
    return dtype == "float32" and tuple(value.shape) == _FLAT


def _is_tried(source: str) -> bool:
    return source == TRIED or source.startswith("by ")
