"""Calls to try, the likeliest first: what is known of parameters, and shapes, numbers and dtypes for what is not."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pullback.cli.guess.reading import parameters_of, readings
from pullback.cli.guess.shapes import tried
from pullback.cli.guess.wanted import DEFAULT, TRIED, Shape, Wanted, made, shape_of, sizes

NOT_FINITE, DOUBTFUL = "not finite", "doubtful"
_VALUES = ("", "positive", "negative", "unit", "above one", "definite")
_MOST_COMBINATIONS = 12  # of readings of the parameters
_MOST_READINGS = 4096  # that are looked through for the likeliest


@dataclass(frozen=True)
class Guess:
    """Arguments for one call, with where each came from.

    They are `hinted` where no shape was merely tried, and `soft` where a name may well mean something else.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    sources: dict[str, str]
    hinted: bool = False
    soft: bool = False


def guesses(function: Any, *, direct: bool = True) -> Generator[Guess, str | None]:
    """Calls of a function, the likeliest first; `direct` says that it has the custom gradient itself.

    Who tries them may send what came of one: `NOT_FINITE` asks for other numbers of the same shapes, `DOUBTFUL` for
    another reading of the parameters.
    """
    read = readings(function, direct=direct)
    parameters = [p for p, _ in read]
    combinations = list(_combinations([wanted for _, wanted in read]))
    kinds = list(_kinds(len(read)))
    for values, dtypes in kinds:
        for chosen in combinations:
            may_vary = any(one.is_real if "float64" in dtypes else one.may_vary for one in chosen)
            if (values or any(dtypes)) and not may_vary:
                continue
            for shapes in _shapes(chosen):
                made_up = functools.partial(_made, chosen, shapes, dtypes)
                answer = yield _guess(parameters, chosen, made_up(values))
                others = [v for v in _VALUES if v != values] if answer == NOT_FINITE else []
                for other in others:
                    if answer == NOT_FINITE:
                        answer = yield _guess(parameters, chosen, made_up(other))
                if answer == DOUBTFUL:
                    break


def _made(
    chosen: Sequence[Wanted], shapes: Sequence[Shape], dtypes: Sequence[str], values: str
) -> list[Any]:
    several = enumerate(zip(chosen, shapes, dtypes, strict=True))
    return [made(one, shape, k, values, dtype) for k, (one, shape, dtype) in several]


def _guess(
    parameters: Sequence[inspect.Parameter],
    chosen: Sequence[Wanted],
    values: Sequence[Any],
) -> Guess:
    by_name = inspect.Parameter.KEYWORD_ONLY
    pairs = list(zip(parameters, values, strict=True))
    return Guess(
        tuple(value for p, value in pairs if p.kind is not by_name),
        {p.name: value for p, value in pairs if p.kind is by_name},
        {p.name: one.source for p, one in zip(parameters, chosen, strict=True)},
        hinted=not any(one.is_open or one.soft for one in chosen),
        soft=any(one.soft for one in chosen),
    )


def with_defaults(guess: Guess, function: Any) -> Iterator[Guess]:
    """The same call with one default after another given as well, real numbers as tensors."""
    for p in parameters_of(function):
        if p.name in guess.sources or p.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            continue
        is_real = isinstance(p.default, float)
        value = made(Wanted(dims=(), values=f"={p.default}"), (), 0) if is_real else p.default
        sources = {**guess.sources, p.name: DEFAULT}
        guess = replace(guess, args=(*guess.args, value), sources=sources)
        yield guess


def _combinations(wanted: list[list[Wanted]]) -> Iterator[tuple[Wanted, ...]]:
    """One of each, the first ones first."""
    places = itertools.product(*(range(len(one)) for one in wanted))
    for chosen in sorted(itertools.islice(places, _MOST_READINGS), key=sum)[:_MOST_COMBINATIONS]:
        yield tuple(one[k] for one, k in zip(wanted, chosen, strict=True))


def _kinds(count: int) -> Iterator[tuple[str, list[str]]]:
    """Kinds of numbers and dtypes by parameter."""
    yield from ((values, [""] * count) for values in _VALUES)
    for whole in reversed(range(count if count > 1 else 0)):
        yield "", ["int32" if k == whole else "" for k in range(count)]
    yield from (("", [dtype] * count) for dtype in ("float64", "complex64"))


def _shapes(chosen: Sequence[Wanted]) -> Iterator[list[Shape]]:
    """A shape for each: as its dimensions say, or tried."""
    known = sizes([one.dims for one in chosen if one.dims is not None])
    fixed = [None if one.is_open else shape_of(one.dims or (), known) for one in chosen]
    for several in tried(sum(shape is None for shape in fixed)):
        rest = iter(several)
        yield [next(rest) if shape is None else shape for shape in fixed]


def described(guess: Guess, function: Any) -> str:
    """`x float32[3, 4] (tried), axis=-1 (name)`, as a line of the output has it.

    Flags and choices that nobody gave are told too: what was checked is the branch that their defaults choose.
    """
    names = list(guess.sources)
    values = [*guess.args, *guess.kwargs.values()]
    pairs = zip([*(n for n in names if n not in guess.kwargs), *guess.kwargs], values, strict=False)
    told = [f"{spec(name, value)} ({guess.sources.get(name, TRIED)})" for name, value in pairs]
    kept = [
        f"{spec(p.name, p.default)} ({DEFAULT})"
        for p in parameters_of(function)
        if isinstance(p.default, bool | str) and p.name not in {*guess.sources, *guess.kwargs}
    ]
    return ", ".join([*told, *kept])


def spec(name: str, value: Any) -> str:
    """A tensor by dtype and shape, something else by its value."""
    if isinstance(value, list | tuple) and any(hasattr(v, "dtype") for v in value):
        return f"{name} [{', '.join(spec('', v).strip() for v in value)}]"
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        shown = getattr(value, "__name__", None) if callable(value) else repr(value)
        return f"{name}={(shown or type(value).__name__)[:60]}"
    return f"{name} {getattr(dtype, 'name', dtype)}{[int(d) for d in shape]}"
