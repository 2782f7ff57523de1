"""A function that is right, checked once more: with other settings than its defaults, and with one more axis.

A factor that is forgotten does not show where it is 1, nor an axis that is always the last where it is the last.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pullback._engine import only_engine
from pullback.check.budget import quick_checks_within
from pullback.check.numbers import LOOK_CALLS
from pullback.cli.checking.calling import callables_in, called, signature_holder
from pullback.cli.checking.caveats import Check, caveat_of
from pullback.cli.checking.elsewhere import (
    goes_by_rows,
    of_other_sizes,
    says_more_axes,
    with_more_axes,
)
from pullback.cli.checking.reach import Found
from pullback.cli.checking.recorder import codes_of
from pullback.cli.guess.calls import Guess, described, spec
from pullback.cli.guess.docstrings import choices_of as choices_said
from pullback.cli.guess.names import number_for
from pullback.cli.guess.reading import choices_of, doc_of, parameters_of, source_of
from pullback.cli.guess.wanted import TRIED, ReachedBy, numbers
from pullback.cli.guess.words import means
from pullback.errors import CheckError


@dataclass(frozen=True)
class Variant:
    """A function with something changed, and what that is; `counts` says that the rule is to blame where it is wrong.

    Where a `fault` counts it is to blame as well where it raises; it need not take shapes that nobody has spoken of.
    """

    words: str
    found: Found
    counts: bool = True
    fault_counts: bool = True


@dataclass(frozen=True)
class Slip:
    """With what a function is wrong that is right at its inputs."""

    text: str
    found: Found
    counts: bool


_MOST = 8
_LARGER, _BETWEEN = 1.5, 0.7  # far enough from a default, and from 0 and 1, for a factor to show
_SMALL = 0.01  # numbers below only guard against zero
_FLAT, _DEEPER = (3, 4), (3, 2, 4)
_AXIS = "axis axes *_axis dim"
_MASKS = {"mask *_mask": "flags", "weights weight sample_weight* class_weight*": "positive"}


def slip_of(found: Found, options: Mapping[str, Any], check: Check) -> Slip | None:
    """With what a function is wrong that is right at its inputs; nothing where none is found."""
    for variant in itertools.islice(_variants(found), _MOST):
        one = variant.found
        ran = only_engine().probes.trial(one.function, one.guess.args, one.guess.kwargs)
        if ran.refused or ran.not_finite:
            continue
        if ran.fault and not ran.is_misshapen:
            counts = variant.counts and variant.fault_counts
            return Slip(f"with {variant.words}, the rule raises {ran.fault}", one, counts)
        try:
            with quick_checks_within(LOOK_CALLS):
                report = check(one, {**options, "quick": True})
        except CheckError:
            continue
        if report.verdict == "wrong" and not caveat_of(report, one, options, check):
            return Slip(f"with {variant.words}, {report.diagnosis}", one, variant.counts)
    return None


def _variants(found: Found) -> Iterator[Variant]:
    yield from _deeper(found)
    yield from _with_own_settings(found)
    yield from _made_with_others(found)
    yield from _called_with_others(found)
    yield from _of_other_shapes(found)


def _of_other_shapes(found: Found) -> Iterator[Variant]:
    """Other sizes, and batches of what was right alone."""
    for one in of_other_sizes(found):
        if not one.fault:
            yield Variant(_inputs_of(one), one, fault_counts=False)
    for one in with_more_axes(found):
        is_said = says_more_axes(found)
        if goes_by_rows(one) and (is_said or not one.fault or _is_vector(found)):
            counts = is_said or _is_vector(found)
            yield Variant(_inputs_of(one), one, counts=counts, fault_counts=is_said)


def _is_vector(found: Found) -> bool:
    """Whether no tensor has more than one axis: what takes rows as well is hardly meant for one alone."""
    return all(len(value.shape) < 2 for value in found.guess.args if hasattr(value, "dtype"))


def _inputs_of(found: Found) -> str:
    return described(found.guess, found.function)


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
        one = replace(found, guess=guess)
        yield Variant(_inputs_of(one), one, fault_counts=False)


def _with_own_settings(found: Found) -> Iterator[Variant]:
    """Other values for parameters of its own; by name, which `tf.custom_gradient` asks no gradient for."""
    for p, value in _other_settings(found.function, found, found.guess):
        guess = _with_setting(found.guess, p.name, value)
        yield Variant(spec(p.name, value), replace(found, guess=guess))


def _made_with_others(found: Found) -> Iterator[Variant]:
    """What its factory returns for other values of its own."""
    if found.factory is None:
        return
    factory, given = found.factory
    for p, value in _other_settings(factory, found, given):
        guess = _with_setting(given, p.name, value)
        try:
            made = factory(*guess.args, **guess.kwargs)
        except Exception:  # a value that the factory refuses
            continue
        alike = [one for one in callables_in(made) if _is_same_code(codes_of(one), found)]
        yield from (Variant(spec(p.name, value), replace(found, function=one)) for one in alike[:1])


def _called_with_others(found: Found) -> Iterator[Variant]:
    """What is reached where the function around it gets other values of its own."""
    if found.outer is None:
        return
    outer, given = found.outer
    for p, value in _other_settings(outer, found, given):
        _, reached, _ = called(outer, _with_setting(given, p.name, value))
        alike = [hit for hit in reached if _is_same_code(iter(hit.codes), found)]
        for hit in alike[:1]:
            guess = replace(found.guess, args=hit.args, kwargs=hit.kwargs)
            yield Variant(spec(p.name, value), replace(found, function=hit.function, guess=guess))


def _is_same_code(codes: Iterator[Any], found: Found) -> bool:
    return not set(codes).isdisjoint(codes_of(found.function))


def _with_setting(guess: Guess, name: str, value: Any) -> Guess:
    """The same call with another setting: in the place that it has, else by name."""
    known = [p.name for p in guess.recipe.parameters] if guess.recipe else []
    if guess.recipe is None or name not in known:
        return replace(guess, kwargs={**guess.kwargs, name: value})
    chosen = list(guess.recipe.chosen)
    chosen[known.index(name)] = replace(chosen[known.index(name)], plain=value)
    changed = replace(guess.recipe, chosen=tuple(chosen)).guess()
    return replace(changed, kwargs={**guess.kwargs, **changed.kwargs})


def _other_settings(
    function: Any, found: Found, given: Guess
) -> Iterator[tuple[inspect.Parameter, Any]]:
    """Parameters with other values that they may have: of those that keep their defaults, and of choices and flags."""
    if getattr(function, "__name__", "") == "<lambda>":
        return  # `lambda x, k=k: ...` has no settings, but holds what k is now
    names = [n for n in given.sources if n not in given.kwargs]
    values = {**dict(zip(names, given.args, strict=False)), **given.kwargs}
    text = source_of(function)
    for p in parameters_of(signature_holder(function)):
        now = values.get(p.name, p.default)
        is_kept = p.name not in values and now is not inspect.Parameter.empty
        if is_kept or isinstance(now, bool | str) or _is_axis(p.name, now):
            said = choices_said(doc_of(function), p.name) if isinstance(now, str) else []
            others = _others(p.name, now, text, found)
            others += [choice for choice in said if choice not in (now, *others)]
            yield from ((p, value) for value in others)


def _is_axis(name: str, value: Any) -> bool:
    return isinstance(value, int) and means(_AXIS, name)


def _others(name: str, default: Any, text: str, found: Found) -> list[Any]:
    if isinstance(default, bool):
        return [not default]
    if isinstance(default, str):
        return [choice for choice in choices_of(name, text) if choice != default]
    if default is None:
        return _masks(name, found)
    if _is_axis(name, default):
        return [axis for axis in (0, -1) if axis != default][:1]
    if not isinstance(default, int | float) or 0 < abs(default) < _SMALL:
        return []
    if isinstance(default, int) and default not in (0, 1):
        is_power = default & (default - 1) == 0
        return [
            2 * default if is_power else default + 2
        ]  # as odd, even, or a power of two, as it was
    if default not in (0, 1):
        return [_LARGER * default]
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
    return source == TRIED or isinstance(source, ReachedBy)
