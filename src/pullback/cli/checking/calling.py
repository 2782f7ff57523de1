"""Calls of what a custom gradient is made in, and what is to be known of a callable for that."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from pullback._engine import only_engine
from pullback.check.probe import Reached
from pullback.cli.checking.recorder import codes_of, recorded
from pullback.cli.guess import Guess
from pullback.cli.guess.reading import parameters_of


def called(outer: Callable[..., Any], guess: Guess) -> tuple[Any, list[Reached], str]:
    """Run forward and backward: a rule may have a custom gradient of its own."""
    with recorded() as reached:
        ran = only_engine().probes.trial(outer, guess.args, guess.kwargs)
    return ran.result, reached, ran.refused if ran.result is None else ""


def methods_of(instance: Any, name: str) -> Iterator[Any]:
    """The method of a name, or what runs it as it should be: a layer is called, not its `call`."""
    if callable(instance) and name in ("call", "__call__", "build", "__init__"):
        yield instance
    method = getattr(instance, name, None)
    if callable(method) and not name.startswith("__"):
        yield method
    own = [n for n in vars(type(instance)) if not n.startswith("_") and n != name]
    yield from (m for m in (getattr(instance, n, None) for n in own) if inspect.ismethod(m))


def signature_holder(outer: Any) -> Any:
    """Where the parameters of a callable are told: a layer's are those of its `call`."""
    call = getattr(outer, "call", None)
    return call if callable(call) and not inspect.isfunction(outer) else outer


def callables_in(result: Any) -> list[Any]:
    """What is returned and can be called."""
    if isinstance(result, dict):
        result = list(result.values())
    several = result if isinstance(result, list | tuple) else [result]
    return [one for one in several if callable(one) and not hasattr(one, "dtype")][:8]


def names_in(value: Any) -> set[str]:
    """The global names that a function, or the methods of a class, use."""
    parts = vars(value).values() if isinstance(value, type) else [value]
    codes = [code for part in parts for code in codes_of(part)]
    inner = [c for code in codes for c in code.co_consts if hasattr(c, "co_names")]
    return {name for code in (*codes, *inner) for name in code.co_names}


def names_of(hit: Reached) -> list[str]:
    try:
        return list(inspect.signature(hit.function).bind(*hit.args, **hit.kwargs).arguments)
    except (TypeError, ValueError):
        return []


def takes_several(function: Any) -> bool:
    """Whether a call may have more or fewer arguments, or ones that hold several tensors: `*args`, lists."""
    known = parameters_of(function)
    return any(
        p.kind is inspect.Parameter.VAR_POSITIONAL or p.default is not inspect.Parameter.empty
        for p in known
    )
