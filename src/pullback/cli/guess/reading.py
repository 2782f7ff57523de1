"""What is known of each parameter of a function, the best source first."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pullback.cli.guess.annotations import from_annotation, kind_of, of_kind, square
from pullback.cli.guess.docstrings import from_docstring, from_sentence
from pullback.cli.guess.names import from_name
from pullback.cli.guess.syntax import keys_of, unpacked
from pullback.cli.guess.wanted import ANNOTATION, DOCSTRING, NAME, SOURCE, TRIED, Wanted

_SIZES_OF_LAYERS = (4, 5, 2)  # the last axis of what is tried first, and two that differ from it
_PLAIN = (4, 3, 0.5)
_ANY_COUNT = (
    2,
    4,
)  # what a whole number is given of which nothing is known, or that it counts something
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


@dataclass(frozen=True)
class Text:
    """What is written of a function: its docstring and comments, its source, what its parameters are called."""

    doc: str
    source: str
    names: tuple[str, ...]
    direct: bool

    @property
    def alone(self) -> bool:
        """Whether what is said can be about one parameter only."""
        return len(self.names) == 1


def doc_of(function: Any) -> str:
    """The docstring of a function, what its comments say, and those beside its parameters as their text."""
    text = source_of(function)
    head = text.partition("):\n")[0]
    beside = re.findall(r"^[ \t]*\**(\w+)\b[^#\n]*#[ ]?(.*)$", head, re.M)
    lines = [f"{name}: {said}" for name, said in beside]
    return "\n".join([inspect.getdoc(function) or "", "", *lines, *re.findall(r"# ?(.*)", text)])


def readings(function: Any, *, direct: bool) -> list[tuple[inspect.Parameter, list[Wanted]]]:
    """Each parameter that must be given, with what may suit it."""
    asked = needed(function)
    names = tuple(p.name for p in asked)
    text = Text(doc_of(function), source_of(function), names, direct)
    read = [(p, _as_said(_of_one(p, text), p.name, text)) for p in asked]
    return _constructed(read) if isinstance(function, type) else read


def _as_said(wanted: list[Wanted], name: str, text: Text) -> list[Wanted]:
    """What is open is tried with as many axes as words say, and is the kind of matrix that they say."""
    said = from_sentence(text.doc, name, alone=text.alone)
    if said.dims is not None and any(w.is_open or w.source in (NAME, SOURCE) for w in wanted):
        alike = [_lying_as(said, [w]) for w in wanted if w.is_tensor] or [said]
        return [*dict.fromkeys(alike), *wanted]
    kept = [
        replace(w, axes=said.axes, source=DOCSTRING) if said.axes and w.is_open else w
        for w in wanted
    ]
    return [w if w.like in ("", *text.names) else replace(w, like="") for w in kept]


def _constructed(
    read: list[tuple[inspect.Parameter, list[Wanted]]],
) -> list[tuple[inspect.Parameter, list[Wanted]]]:
    """Objects are made of sizes and other numbers far more often than of tensors."""
    sizes = itertools.chain(_SIZES_OF_LAYERS, itertools.repeat(_SIZES_OF_LAYERS[-1]))

    def of(wanted: list[Wanted]) -> list[Wanted]:
        first = wanted[0]
        if first.is_open and first.source == TRIED:
            plain = dict.fromkeys([next(sizes), *_PLAIN])
            return [*(Wanted(plain=value) for value in plain), *wanted]
        is_count = type(first.plain) is int and first.plain in _ANY_COUNT
        return [replace(first, plain=next(sizes)), *wanted] if is_count else wanted

    return [(p, of(wanted)) for p, wanted in read]


def source_of(function: Any) -> str:
    """The source of a function or class, empty where there is none."""
    try:
        return inspect.getsource(inspect.unwrap(function))
    except (OSError, TypeError, ValueError):
        return ""


def whole_numbers_in(function: Any) -> dict[str, int]:
    """The whole numbers that a function closes over, or keeps as defaults, by name."""
    inner = inspect.unwrap(function)
    code, cells = getattr(inner, "__code__", None), getattr(inner, "__closure__", None) or ()
    found = dict(zip(code.co_freevars, map(_content, cells), strict=False)) if code else {}
    found |= {p.name: p.default for p in parameters_of(function)}
    return {name.lower(): value for name, value in found.items() if type(value) is int}


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # an empty one
        return None


def _of_one(p: inspect.Parameter, known: Text) -> list[Wanted]:
    doc, text, direct = known.doc, known.source, known.direct
    others = [name for name in known.names if name != p.name]
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
    several = [_of_parts(p.name, keys, known) for keys in filter(None, [keys_of(p.name, text)])]
    found = [*several, *_from_source(p.name, text, direct), *annotated, *described, *named]
    if _is_used_as_tensor(p.name, text):
        found = [
            w for w in found if (w.is_tensor and not (w.items or w.parts)) or callable(w.plain)
        ]
    if p.kind is inspect.Parameter.VAR_POSITIONAL:
        return [Wanted()]
    if any(w.items and w.source == SOURCE for w in found):
        found.append(Wanted())  # one can go through a tensor as well
    return found or _matrix(text, alone=known.alone) or [Wanted()]


def _of_parts(name: str, keys: tuple[str, ...], known: Text) -> Wanted:
    """A dict with these keys; each is read as if it were a parameter."""
    names = (*(n for n in known.names if n != name), *keys)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    text = replace(known, names=names, source="")
    read = {key: _of_one(inspect.Parameter(key, kind), text) for key in keys if key.isidentifier()}
    tensors = {key: [w for w in several if w.is_tensor] for key, several in read.items()}
    return Wanted(
        SOURCE, parts=tuple((key, next(iter(tensors.get(key, ())), Wanted())) for key in keys)
    )


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
    if count := unpacked(name, text):
        return [Wanted(SOURCE, items=count)]
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


def _matrix(text: str, *, alone: bool) -> list[Wanted]:
    """A function of a square matrix, or of a batch of them: any at first, then of the kind that what it calls needs."""
    kinds = [values for pattern, values in _MATRICES.items() if re.search(pattern, text)]
    if not (kinds and alone):
        return []
    return [
        Wanted(SOURCE, dims=dims, values=values)
        for dims in (("n", "n"), ("batch", "n", "n"))
        for values in ("general", *kinds[:1])
    ]
