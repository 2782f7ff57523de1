"""What else than the rule may be to blame where a check at made-up inputs says wrong."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pullback._engine import only_engine
from pullback.check import Report
from pullback.cli.checking.reach import Found
from pullback.cli.guess.calls import described
from pullback.cli.guess.names import is_setting
from pullback.cli.guess.reading import source_of
from pullback.cli.guess.wanted import NAME, TRIED, numbers
from pullback.cli.guess.words import means
from pullback.errors import CheckError

Check = Callable[[Found, dict[str, Any]], Report]
_NEARLY = 0.01  # share of the gradient by which an approximation may be off; mistakes are larger
_FLAT, _DEEPER = (3, 4), (3, 2, 4)
_POSITIVE = (0.05, 20.0)
_INSIDE = (0.05, 0.95)  # away from the ends, at which guards against zero set in
# What a function does that is meant for some numbers only.
_HAS_A_DOMAIN = re.compile(
    r"log|sqrt|pow|\*\* ?(?:0?\.|-)|/|eps|1e-\d|atanh|acos|asin|erfinv|gamma", re.I
)


def doubt_of(report: Report, found: Found, options: Mapping[str, Any], check: Check) -> str:
    """A sentence on what may be to blame; nothing where it is the rule."""
    finding, said = report.findings[0], report.diagnosis.removesuffix(".")
    if found.unsure:
        return f"wrong at all inputs that were tried: {said}. @pb.inputs(...) says which are meant"
    if finding.kind == "nonfinite":
        where = "right, but" if finding.made_up else "at these inputs, which were made up,"
        return f"{where} {said}. If such values never come: @pb.inputs(domain=…)"
    if finding.kind == "mode":
        return f"right in eager code, but {said}"
    if finding.kind == "second":
        return f"right, but {said}. If second derivatives do not matter: @pb.inputs(order=1)"
    if _is_right(found, {**options, "tolerance": _NEARLY}, check):
        told = f"right to {_NEARLY:.0%}, but {said}"
        return f"{told}. If it is an approximation: @pb.inputs(tolerance=…)"
    return _below_zero(found, options, check, said) or _outside_domain(found, options, check, said)


def _below_zero(found: Found, options: Mapping[str, Any], check: Check, said: str) -> str:
    """A setting such as a slope or a width, which is not meant to be negative."""
    pairs = zip(found.guess.sources.items(), found.guess.args, strict=False)
    settings = {
        name: _POSITIVE
        for (name, source), value in pairs
        if source == NAME and is_setting(name) and _is_positive_number(value)
    }
    if not settings or "domain" in options:
        return ""
    if not _is_right(found, {**options, "domain": settings}, check):
        return ""
    names = ", ".join(f"{name} > 0" for name in settings)
    return f"right for {names}, but else {said}. If others never come: @pb.inputs(domain=…)"


def _is_positive_number(value: Any) -> bool:
    is_float = getattr(getattr(value, "dtype", None), "name", "").startswith("float")
    return is_float and tuple(value.shape) == () and float(value) > 0


def _outside_domain(found: Found, options: Mapping[str, Any], check: Check, said: str) -> str:
    """A function of shares, lengths or rates, which is not meant for the numbers that it was given."""
    names = dict(_free(found))
    if not names or "domain" in options or not _HAS_A_DOMAIN.search(source_of(found.function)):
        return ""
    args = tuple(names.get(id(value), value) for value in found.guess.args)
    inside = replace(found, guess=replace(found.guess, args=args))
    replaced = set(map(id, names.values()))
    pairs = zip(found.guess.sources, args, strict=False)
    domain = {name: _INSIDE for name, value in pairs if id(value) in replaced}
    if not _is_right(inside, {**options, "domain": domain}, check):
        return ""
    return f"right for inputs between 0 and 1, but else {said}. If others never come: @pb.inputs(domain=…)"


def doubt_of_axes(found: Found, options: Mapping[str, Any], check: Check) -> str:
    """What is wrong with tensors of one more axis, where an axis can be chosen: of two axes, number 1 is the last."""
    if not _chooses_axis(found.function):
        return ""
    probes = only_engine().probes
    args = tuple(
        probes.tensor(numbers(_DEEPER, "", "float32", (k, 0)), "float32")
        if _is_flat(value) and (source == TRIED or source.startswith("by "))
        else value
        for k, (value, source) in enumerate(
            zip(found.guess.args, found.guess.sources.values(), strict=False)
        )
    )
    guess = replace(found.guess, args=args)
    if all(a is b for a, b in zip(args, found.guess.args, strict=True)):
        return ""
    ran = probes.trial(found.function, guess.args, guess.kwargs)
    if ran.refused or ran.not_finite:
        return ""
    try:
        report = check(replace(found, guess=guess), dict(options))
    except CheckError:
        return ""
    return (
        f"{described(guess, found.function)}, {report.diagnosis}"
        if report.verdict == "wrong"
        else ""
    )


def _chooses_axis(function: Any) -> bool:
    code = getattr(inspect.unwrap(function), "__code__", None)
    names = (
        (*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], *code.co_freevars)
        if code
        else ()
    )
    return any(means("axis axes *_axis dim", name) for name in names)


def _is_flat(value: Any) -> bool:
    dtype = getattr(getattr(value, "dtype", None), "name", "")
    return dtype == "float32" and tuple(value.shape) == _FLAT


def _free(found: Found) -> Iterator[tuple[int, Any]]:
    """Tensors of which nothing but the shape matters, each with one of numbers between 0 and 1 in its place."""
    probes = only_engine().probes
    for k, (value, source) in enumerate(
        zip(found.guess.args, found.guess.sources.values(), strict=False)
    ):
        dtype = getattr(getattr(value, "dtype", None), "name", "")
        if dtype in ("float32", "float64") and (source == TRIED or source.startswith("by ")):
            yield (
                id(value),
                probes.tensor(numbers(tuple(value.shape), "unit", dtype, (k, 0)), dtype),
            )


def _is_right(found: Found, options: dict[str, Any], check: Check) -> bool:
    try:
        return check(found, {**options, "explain": False}).ok
    except CheckError:
        return False
