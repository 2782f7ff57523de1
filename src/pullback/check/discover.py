"""Custom gradients in a module, and arguments for them: given, by default, or found by trying."""

import inspect
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from pullback._engine import only_engine

SHAPES: tuple[tuple[int, ...], ...] = ((5,), (3, 4), (3, 3), (), (2, 3, 4), (1, 6, 6, 2))
NAME = "pullback_inputs"


@dataclass(frozen=True)
class Candidate:
    """A function with a gradient of its own, under the name it has in its module."""

    name: str
    function: Any


def candidates(module: ModuleType, only: str | None = None) -> list[Candidate]:
    """The custom gradients that a module defines, in the order in which it does."""
    if only is not None:
        return [Candidate(only, getattr(module, only))]
    return [
        Candidate(name, value)
        for name, value in vars(module).items()
        if not name.startswith("__") and _defined_in(value, module) and has_own_gradient(value)
    ]


def has_own_gradient(value: Any) -> bool:
    """Made by pullback's `custom_gradient`, `with_gradient`, `with_partials`, or the framework's."""
    if type(value).__name__ == "GradientFunction":
        return True
    return callable(value) and bool(_engine_part().is_custom_gradient(value))


def arguments(
    module: ModuleType, candidate: Candidate
) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments to check with, the surest first."""
    given = _given(module, candidate.name)
    if given is not None:
        yield given
        return
    yield from _tried(candidate.function)


def _defined_in(value: Any, module: ModuleType) -> bool:
    return (
        getattr(inspect.unwrap(value) if callable(value) else value, "__module__", None)
        == module.__name__
    )


def _engine_part() -> Any:
    return only_engine().probes


def _given(module: ModuleType, name: str) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """What `pullback_inputs` beside the function says: a dict by name, or a function of the name."""
    inputs = getattr(module, NAME, None)
    found = inputs(name) if callable(inputs) else (inputs or {}).get(name)
    if callable(found):
        found = found()
    if found is None:
        return None
    if isinstance(found, dict):
        return (), found
    if (
        isinstance(found, tuple)
        and len(found) == 2
        and isinstance(found[1], dict)
        and isinstance(found[0], tuple | list)
    ):
        return tuple(found[0]), found[1]
    return (tuple(found) if isinstance(found, tuple | list) else (found,)), {}


def _tried(function: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Tensors of one shape for all parameters that need a value, then of mixed shapes."""
    needed = _needed(function)
    sample = _engine_part().sample
    alike = [(shape,) * len(needed) for shape in SHAPES]
    mixed = (
        list(itertools.product(((3, 4), (4,), (4, 3), ()), repeat=len(needed)))
        if len(needed) in (2, 3)
        else []
    )
    for positive, dtype in ((False, "float32"), (True, "float32"), (False, "float64")):
        for shapes in alike + mixed:
            made = [sample(shape, dtype, positive=positive) for shape in shapes]
            yield tuple(_constant(p, value) for p, value in zip(needed, made, strict=True)), {}


def _needed(function: Any) -> list[inspect.Parameter]:
    try:
        known = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    found = [p for p in known if p.kind in positional and p.default is inspect.Parameter.empty]
    some = [p for p in known if p.kind is inspect.Parameter.VAR_POSITIONAL]
    return found or some


def _constant(parameter: inspect.Parameter, value: Any) -> Any:
    """What an annotation of a plain type asks for instead of a tensor."""
    plain = {int: 1, bool: True, "int": 1, "bool": True, str: "", "str": ""}
    try:
        return plain.get(parameter.annotation, value)
    except TypeError:
        return value
