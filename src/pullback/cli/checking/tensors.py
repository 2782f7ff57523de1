"""Plain numbers in a call for which the rule returns a gradient: they are tensors, whatever their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pullback._engine import only_engine
from pullback.check.probe import Ran
from pullback.cli.guess import Guess
from pullback.cli.guess.sizes import Shape
from pullback.cli.guess.wanted import TRIED, numbers

_DIFFERENT = 11  # numbers for these, apart from those of what is made up before


def numbers_as_tensors(function: Any, guess: Guess) -> Iterator[tuple[Guess, Ran]]:
    """Calls with tensors in their place, first of no axes, then of the shapes of the other tensors."""
    which = [k for k, value in enumerate(guess.args) if _is_number(value)]
    flowing = [k for k in which if _has_gradient(function, guess, k)]
    for shape in _shapes(guess.args) if flowing else ():
        changed = _with(guess, flowing, shape)
        ran = only_engine().probes.trial(function, changed.args, changed.kwargs)
        if not ran.refused:
            yield changed, ran


def _has_gradient(function: Any, guess: Guess, k: int) -> bool:
    """Whether the rule returns something for an argument where it is a tensor."""
    changed = _with(guess, [k], ())
    ran = only_engine().probes.trial(function, changed.args, changed.kwargs)
    before = sum(map(_is_real, guess.args[:k]))
    return before < len(ran.gradients) and ran.gradients[before] is not None


def _with(guess: Guess, which: Sequence[int], shape: Shape) -> Guess:
    args = list(guess.args)
    for k in which:
        values = numbers(shape, "", "float32", (_DIFFERENT, k)) if shape else float(args[k])
        args[k] = only_engine().probes.tensor(values, "float32")
    names = list(guess.sources)
    sources = guess.sources | {names[k]: TRIED for k in which if k < len(names)}
    return replace(guess, args=tuple(args), sources=sources, hinted=False, recipe=None)


def _shapes(args: Sequence[Any]) -> list[Shape]:
    own = [tuple(value.shape) for value in args if _is_real(value)]
    return list(
        dict.fromkeys([(), *own, *(shape[-1:] for shape in own), *(shape[:1] for shape in own)])
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_real(value: Any) -> bool:
    return getattr(getattr(value, "dtype", None), "name", "").startswith(
        ("float", "complex", "bfloat")
    )
