"""What else than the rule may be to blame where a check at made-up inputs says wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pullback._engine import only_engine
from pullback.check import Report
from pullback.cli.checking.reach import Found
from pullback.cli.guess.names import is_setting
from pullback.cli.guess.reading import source_of
from pullback.cli.guess.wanted import NAME, TRIED, ReachedBy, numbers
from pullback.errors import CheckError

Check = Callable[[Found, dict[str, Any]], Report]
_NEARLY = 0.01  # share of the gradient by which an approximation may be off; mistakes are larger
_IGNORE = "@pb.inputs(ignore='why')"
_POSITIVE = (0.05, 20.0)
_INSIDE = (0.05, 0.95)  # away from the ends, at which guards against zero set in
# What a function does that is meant for some numbers only.
_HAS_A_DOMAIN = re.compile(
    r"log|sqrt|pow|\*\* ?(?:0?\.|-)|/|eps|1e-\d|atanh|acos|asin|erfinv|gamma", re.I
)


def caveat_of(report: Report, found: Found, options: Mapping[str, Any], check: Check) -> str:
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
    if finding.made_up and any(map(_is_definite, found.guess.args)):
        return f"right at these inputs, which are positive definite, but else {said}. If others never come: {_IGNORE}"
    if _is_right(found, {**options, "tolerance": _NEARLY}, check):
        told = f"right to {_NEARLY:.0%}, but {said}"
        return f"{told}. If it is an approximation: @pb.inputs(tolerance=…)"
    return _below_zero(found, options, check, said) or _outside_domain(found, options, check, said)


def _is_definite(value: Any) -> bool:
    """Whether an argument is a matrix that was made positive definite."""
    shape = tuple(getattr(value, "shape", ()))
    if len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] < 2:
        return False
    matrix = np.asarray(value)
    is_real = np.issubdtype(matrix.dtype, np.floating)
    symmetric = is_real and np.allclose(matrix, np.swapaxes(matrix, -1, -2))
    return bool(symmetric and np.linalg.eigvalsh(matrix).min() > 0)


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


def _free(found: Found) -> Iterator[tuple[int, Any]]:
    """Tensors of which nothing but the shape matters, each with one of numbers between 0 and 1 in its place."""
    probes, plain = only_engine().probes, _with_plain_numbers(found)
    for k, (name, value) in enumerate(zip(found.guess.sources, found.guess.args, strict=False)):
        dtype = getattr(getattr(value, "dtype", None), "name", "")
        if dtype in ("float32", "float64") and name in plain:
            inside = numbers(tuple(value.shape), "unit", dtype, (k, 0))
            yield id(value), probes.tensor(inside, dtype)


def _with_plain_numbers(found: Found) -> set[str]:
    """The parameters whose numbers nobody has said anything about."""
    recipe = found.guess.recipe
    said = (
        {p.name: w.values for p, w in zip(recipe.parameters, recipe.chosen, strict=True)}
        if recipe
        else {}
    )
    sources = found.guess.sources.items()
    return {
        n
        for n, s in sources
        if not said.get(n, "" if s == TRIED or isinstance(s, ReachedBy) else s)
    }


def _is_right(found: Found, options: dict[str, Any], check: Check) -> bool:
    try:
        return check(found, {**options, "explain": False}).ok
    except CheckError:
        return False
