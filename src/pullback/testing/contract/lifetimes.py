"""Cases: what a rule does not ask for is not kept alive until the backward pass."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pullback as pb
from pullback.testing.contract.adapter import Adapter, Function
from pullback.testing.contract.case import Trial, case
from pullback.testing.contract.results import ONE, X, triple

Note = Callable[[Any], Any]


def _let_go(make: Callable[[Note], Function]) -> Trial:
    """A function that notes values, and a look, once the backward pass has begun, at which of them live."""
    noted: list[weakref.ref[Any]] = []
    alive: list[Any] = []

    def note(value: Any) -> Any:
        noted.append(weakref.ref(value))
        return value

    def look(dy: Any) -> Any:
        gc.collect()
        alive[:] = [reference() for reference in noted if reference() is not None]
        return dy

    def after() -> None:
        assert noted, "nothing was noted: the function did not run"
        assert not alive, f"kept alive without being asked for: {alive}"

    function, looking = make(note), pb.with_gradient(lambda y: 1.0 * y, look)
    return Trial(lambda x: looking(2.0 * function(x)), after=after)


@case("an input is let go", [X], [6 * ONE], forward=None, eager_only=True)
def _input(a: Adapter) -> Trial:
    function = pb.with_gradient(a.sin, triple)
    return _let_go(lambda note: lambda x: function(note(1.0 * x)))


@case("an output is let go", [X], [6 * ONE], forward=None, eager_only=True)
def _output(a: Adapter) -> Trial:
    function = pb.with_gradient(a.sin, triple)
    return _let_go(lambda note: lambda x: note(function(x)) + 0.0)


@case("what the function computed inside is let go", [X], [6 * ONE], forward=None, eager_only=True)
def _intermediate(a: Adapter) -> Trial:
    return _let_go(lambda note: pb.with_gradient(lambda x: a.sin(note(a.sin(x))), triple))


class _Payload:
    """A static argument."""


@case("a static argument is let go", [X], [6 * ONE], forward=None, eager_only=True)
def _static(a: Adapter) -> Trial:
    function = pb.with_gradient(lambda x, payload: a.sin(x), triple)
    return _let_go(lambda note: lambda x: function(x, note(_Payload())))
