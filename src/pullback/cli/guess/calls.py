"""Calls to try, the likeliest first: what is known of parameters, and shapes, numbers and dtypes for what is not."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pullback.cli.guess.reading import doc_of, parameters_of, readings, whole_numbers_in
from pullback.cli.guess.shapes import tried
from pullback.cli.guess.sizes import Shape, SizeRule, shape_of, size_rules, sizes
from pullback.cli.guess.wanted import DEFAULT, DOCSTRING, TRIED, Wanted, domain_of, made

NOT_FINITE, DOUBTFUL = "not finite", "doubtful"
_VALUES = ("", "positive", "negative", "unit", "above one", "definite")
_BY_NAME = inspect.Parameter.KEYWORD_ONLY
_MOST_COMBINATIONS = 12  # of readings of the parameters
_MOST_READINGS = 4096  # that are looked through for the likeliest


@dataclass(frozen=True)
class Recipe:
    """How a call was made up: what was wanted of each parameter, and what was chosen where that left it open."""

    parameters: tuple[inspect.Parameter, ...]
    chosen: tuple[Wanted, ...]
    shapes: tuple[Shape, ...]
    values: str = ""
    dtypes: tuple[str, ...] = ()
    given: Mapping[str, int] = field(
        default_factory=dict[str, int]
    )  # sizes that are numbers of the call

    @property
    def leaves(self) -> tuple[Wanted, ...]:
        """What is wanted of each tensor, those in dicts one by one."""
        return tuple(leaf for one in self.chosen for leaf in one.leaves)

    def guess(self) -> Guess:
        """The call."""
        dtypes = self.dtypes or ("",) * len(self.leaves)
        several = enumerate(zip(self.leaves, self.shapes, dtypes, strict=True))
        flat = iter([made(one, shape, k, self.values, dtype) for k, (one, shape, dtype) in several])
        values = [_together(one, flat) for one in self.chosen]
        pairs = list(zip(self.parameters, values, strict=True))
        return Guess(
            tuple(value for p, value in pairs if p.kind is not _BY_NAME),
            {p.name: value for p, value in pairs if p.kind is _BY_NAME},
            {p.name: one.source for p, one in zip(self.parameters, self.chosen, strict=True)},
            hinted=not any(one.is_made_up or one.soft for one in self.leaves),
            soft=any(one.soft for one in self.chosen),
            recipe=self,
        )


def _together(wanted: Wanted, flat: Iterator[Any]) -> Any:
    if not wanted.parts:
        return next(flat)
    return {key: next(flat) for key, _ in wanted.parts}


@dataclass(frozen=True)
class Guess:
    """Arguments for one call, with where each came from.

    They are `hinted` where somebody has said which shapes are meant, and `soft` where a name may well mean something
    else.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    sources: dict[str, str]
    hinted: bool = False
    soft: bool = False
    recipe: Recipe | None = None

    @property
    def domain(self) -> dict[str, Any]:
        """Where the docstring says that numbers lie, as `domain=` has it."""
        if self.recipe is None:
            return {}
        pairs = zip(self.recipe.parameters, self.recipe.chosen, strict=True)
        said = {p.name: domain_of(one.values) for p, one in pairs if one.source == DOCSTRING}
        return {name: where for name, where in said.items() if where is not None}


def guesses(function: Any, *, direct: bool = True) -> Generator[Guess, str | None]:
    """Calls of a function, the likeliest first; `direct` says that it has the custom gradient itself.

    Who tries them may send what came of one: `NOT_FINITE` asks for other numbers of the same shapes, `DOUBTFUL` for
    another reading of the parameters.
    """
    read = readings(function, direct=direct)
    rules, closed_over = size_rules(doc_of(function)), whole_numbers_in(function)
    parameters = tuple(p for p, _ in read)
    combinations = list(_combinations([wanted for _, wanted in read]))
    for values, whole in _kinds(len(read)):
        for chosen in combinations:
            leaves = [leaf for one in chosen for leaf in one.leaves]
            dtypes = _dtypes(whole, chosen)
            may_vary = any(one.is_real if "float64" in dtypes else one.may_vary for one in leaves)
            if (values or any(dtypes)) and not may_vary:
                continue
            given = {**closed_over, **_whole_numbers(parameters, chosen)}
            for shapes in _shapes(parameters, chosen, rules, given):
                recipe = Recipe(parameters, chosen, shapes, values, dtypes, given)
                answer = yield recipe.guess()
                others = [v for v in _VALUES if v != values] if answer == NOT_FINITE else []
                for other in others:
                    if answer == NOT_FINITE:
                        answer = yield replace(recipe, values=other).guess()
                if answer == DOUBTFUL:
                    break


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


def _kinds(count: int) -> Iterator[tuple[str, dict[int, str]]]:
    """Kinds of numbers, and dtypes by the position of a parameter."""
    yield from ((values, {}) for values in _VALUES)
    for whole in reversed(range(count if count > 1 else 0)):
        yield "", {whole: "int32"}
    yield from (("", dict.fromkeys(range(count), dtype)) for dtype in ("float64", "complex64"))


def _whole_numbers(
    parameters: Sequence[inspect.Parameter], chosen: Sequence[Wanted]
) -> dict[str, int]:
    """Plain whole numbers of the call, by the names that dimensions have for them."""
    pairs = zip(parameters, chosen, strict=True)
    return {p.name.lower(): one.plain for p, one in pairs if type(one.plain) is int}


def _dtypes(by_position: dict[int, str], chosen: Sequence[Wanted]) -> tuple[str, ...]:
    """A dtype for each tensor, those in dicts one by one."""
    return tuple(by_position.get(k, "") for k, one in enumerate(chosen) for _ in one.leaves)


def _shapes(
    parameters: Sequence[inspect.Parameter],
    chosen: Sequence[Wanted],
    rules: Sequence[SizeRule],
    given: Mapping[str, int],
) -> Iterator[tuple[Shape, ...]]:
    """A shape for each tensor: as its dimensions say, like another one, or tried."""
    leaves = [leaf for one in chosen for leaf in one.leaves]
    names = [p.name for p, one in zip(parameters, chosen, strict=True) for _ in one.leaves]
    known = sizes([one.dims for one in leaves if one.dims is not None], rules, given)
    fixed = [None if one.is_open else shape_of(one.dims or (), known) for one in leaves]
    count = fixed.count(None)
    beside = _related([shape for shape in fixed if shape is not None]) if 0 < count < 3 else []
    for several in [*tried(count, rules), *itertools.product(beside, repeat=count)]:
        rest = iter(several)
        shapes = [next(rest) if shape is None else shape for shape in fixed]
        if all(one.may_have(s) for one, s in zip(leaves, shapes, strict=True) if one.is_open):
            by_name = dict(zip(names, shapes, strict=True))
            yield tuple(by_name.get(one.like, s) for one, s in zip(leaves, shapes, strict=True))


def _related(shapes: Sequence[Shape]) -> list[Shape]:
    """Shapes of what may stand beside tensors of these: all of their axes, one of them, all but one."""
    parts = [part for s in shapes for part in (s, s[-1:], s[:1], s[:-1], s[1:]) if part]
    return list(dict.fromkeys(parts))


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
    if isinstance(value, dict):
        return f"{name} {{{', '.join(spec(str(key), v) for key, v in value.items())}}}"
    if isinstance(value, list | tuple) and any(hasattr(v, "dtype") for v in value):
        return f"{name} [{', '.join(spec('', v).strip() for v in value)}]"
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        shown = getattr(value, "__name__", None) if callable(value) else repr(value)
        return f"{name}={(shown or type(value).__name__)[:60]}"
    return f"{name} {getattr(dtype, 'name', dtype)}{[int(d) for d in shape]}"
