"""What else than the rule may be to blame where a check at made-up inputs says wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pullback._engine import only_engine
from pullback.check import Report
from pullback.cli.checking.reach import Found
from pullback.cli.guess.reading import source_of
from pullback.cli.guess.wanted import TRIED, numbers
from pullback.errors import CheckError

Check = Callable[[Found, dict[str, Any]], Report]
_NEARLY = 0.01  # share of the gradient by which an approximation may be off; mistakes are larger
_INSIDE = (0.05, 0.95)  # away from the ends, at which guards against zero set in
# What a function does that is meant for some numbers only.
_HAS_A_DOMAIN = re.compile(
    r"log|sqrt|pow|\*\* ?(?:0?\.|-)|/|eps|1e-\d|atanh|acos|asin|erfinv|gamma", re.I
)


def doubt_of(report: Report, found: Found, options: Mapping[str, Any], check: Check) -> str:
    """A sentence on what may be to blame; nothing where it is the rule."""
    finding, said = report.findings[0], report.diagnosis
    if found.unsure:
        return f"wrong at all inputs that were tried: {said}. @pb.inputs(...) says which are meant"
    if finding.kind == "nonfinite" and finding.made_up:
        return f"right, but {said}. If such values never come: @pb.inputs(domain=…)"
    if finding.kind == "mode":
        return f"right in eager code, but {said}"
    if finding.kind == "second":
        return f"right, but {said}. If second derivatives do not matter: @pb.inputs(order=1)"
    if _is_right(found, {**options, "tolerance": _NEARLY}, check):
        told = f"right to {_NEARLY:.0%}, but {said}"
        return f"{told}. If it is an approximation: @pb.inputs(tolerance=…)"
    return _outside_domain(found, options, check, said)


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
