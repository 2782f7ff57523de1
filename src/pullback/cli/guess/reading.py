"""What is known of each parameter of a function, the best source first."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pullback.cli.guess.annotations import from_annotation, kind_of, of_kind, square
from pullback.cli.guess.docstrings import from_docstring
from pullback.cli.guess.names import from_name
from pullback.cli.guess.wanted import ANNOTATION, SOURCE, Wanted

_SEVERAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
# Functions of matrices that silently take the lower half, or need more than numbers.
_OF_TENSORS = r"(?:shape|dtype|ndim|get_shape|numpy)"  # numbers and lists have none of these
_MATRICES = {r"cholesky|logdet|sqrtm": "definite", r"\beigh\b|self_adjoint|eigvalsh": "symmetric"}


def parameters_of(function: Any) -> list[inspect.Parameter]:
    """The parameters, with annotations resolved where that can be."""
    told, skipped = _constructor(function)
    for resolve in (True, False):
        try:
            known = list(inspect.signature(told, eval_str=resolve).parameters.values())[skipped:]
        except (NameError, AttributeError, SyntaxError):
            continue
        except (TypeError, ValueError):
            return []
        return [p for p in known if not (p.name == "variables" and p.kind in _SEVERAL)]
    return []


def _constructor(function: Any) -> tuple[Any, int]:
    """Where parameters are told, and how many of them nobody gives: `__new__` of a base may hide those of a class."""
    own = isinstance(function, type) and inspect.isfunction(function.__init__)
    return (function.__init__, 1) if own else (function, 0)


def needed(function: Any) -> list[inspect.Parameter]:
    """The parameters that must be given; where there are none, those that can be."""
    known = parameters_of(function)
    asked = [p for p in known if p.kind not in _SEVERAL and p.default is inspect.Parameter.empty]
    if isinstance(function, type):
        return asked  # `*args` of a class go on to another one, which most often needs nothing
    return asked or [p for p in known if p.kind is inspect.Parameter.VAR_POSITIONAL]


def readings(function: Any, *, direct: bool) -> list[tuple[inspect.Parameter, list[Wanted]]]:
    """Each parameter that must be given, with what may suit it."""
    asked = needed(function)
    text = source_of(function)
    doc = "\n".join([inspect.getdoc(function) or "", "", *re.findall(r"# ?(.*)", text)])
    names = [p.name for p in asked]
    return [(p, _of_one(p, names, doc, text, direct)) for p in asked]


def source_of(function: Any) -> str:
    """The source of a function or class, empty where there is none."""
    try:
        return inspect.getsource(inspect.unwrap(function))
    except (OSError, TypeError, ValueError):
        return ""


def _of_one(
    p: inspect.Parameter, names: list[str], doc: str, text: str, direct: bool
) -> list[Wanted]:
    others = [name for name in names if name != p.name]
    annotated, kind = from_annotation(p), kind_of(p)
    described = from_docstring(doc, p.name)
    if annotated and annotated[0].is_tensor and described and described[0].values:
        annotated = [replace(annotated[0], values=described[0].values), *annotated]
    named = from_name(p.name, kind, direct=direct, others=others)
    annotated, described = ([_lying_as(w, named) for w in ws] for ws in (annotated, described))
    if kind is not None:
        named = [replace(w, source=ANNOTATION) for w in named] or [
            Wanted(ANNOTATION, of_kind(kind))
        ]
    if annotated and annotated[0].is_open and annotated[0].items == 0:
        annotated = []
    found = [*_from_source(p.name, text, direct), *annotated, *described, *named]
    if _is_used_as_tensor(p.name, text):
        found = [w for w in found if (w.is_tensor and not w.items) or callable(w.plain)]
    if p.kind is inspect.Parameter.VAR_POSITIONAL:
        return [Wanted()]
    if any(w.items and w.source == SOURCE for w in found):
        found.append(Wanted())  # one can go through a tensor as well
    return found or _matrix(text, len(names)) or [Wanted()]


def _lying_as(wanted: Wanted, named: list[Wanted]) -> Wanted:
    """A tensor of which only the shape is told, with numbers as its name says that they lie."""
    values = named[0].values if named else ""
    if not wanted.may_vary or not values or values.startswith("="):
        return wanted
    return replace(wanted, values=values)


def _from_source(name: str, text: str, direct: bool) -> list[Wanted]:
    """A parameter that is called is a function, one that is gone through a list; or it is compared with texts."""
    body, word = text.partition("):")[2] or text, rf"(?<![\w.]){re.escape(name)}"
    if re.search(rf"{word}\(", body):
        return [Wanted(SOURCE, square)]
    several = rf"(?:\bin |\blist\(|\blen\(|\benumerate\(|\btuple\(|\breversed\(|\bzip\(){re.escape(name)}\b(?!\.)"
    if re.search(several, body):
        plain = [] if direct else [Wanted(SOURCE, [0.5, -1.2, 0.8])]
        return [*plain, Wanted(SOURCE, items=2)]
    return [Wanted(SOURCE, choice) for choice in choices_of(name, body)]


def _is_used_as_tensor(name: str, text: str) -> bool:
    return bool(re.search(rf"(?<![\w.]){re.escape(name)}\.{_OF_TENSORS}\b", text))


def choices_of(name: str, text: str) -> list[str]:
    """The texts that a parameter is compared with."""
    start = rf"(?<![\w.]){re.escape(name)}(?:\.lower\(\))?\s*(?:==|!=|in)\s*[\[\(\{{]?\s*"
    return list(dict.fromkeys(re.findall(rf"{start}[\"']([^\"']+)[\"']", text)))


def variations(function: Any) -> Iterator[dict[str, Any]]:
    """Other values than their defaults for parameters that have one: branches may depend on them."""
    text = source_of(function)
    for p in parameters_of(function):
        if isinstance(p.default, bool):
            yield {p.name: not p.default}
        elif isinstance(p.default, str) or p.default is None:
            for choice in [*choices_of(p.name, text), "other"] if p.default != "other" else ():
                yield {p.name: choice} if choice != p.default else {}
            yield {p.name: 0.5} if p.default is None else {p.name: None}
        elif isinstance(p.default, int | float):
            yield from ({p.name: value} for value in (0, 1, 2) if value != p.default)


def _matrix(text: str, count: int) -> list[Wanted]:
    """A function of a matrix that is symmetric or definite, as what it calls shows."""
    kinds = [values for pattern, values in _MATRICES.items() if re.search(pattern, text)]
    return [Wanted(SOURCE, dims=("n", "n"), values=kinds[0])] if kinds and count == 1 else []
