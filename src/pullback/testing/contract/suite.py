"""What a case is, the table of cases, and how each is run and judged."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

import pullback as pb
from pullback.testing.contract.adapter import ABSENT, CAPABILITIES, Adapter, Function

# Cases run in float32, and their numbers are near one.
TOLERANCE: Final = 1e-4


class Refusal(NamedTuple):
    """An error that must come, and what its message must match."""

    error: type[Exception]
    match: str


class Trial(NamedTuple):
    """A function to differentiate, the variables that it reads, and what must hold afterwards."""

    function: Function
    variables: Sequence[Any] = ()
    after: Callable[[], None] | None = None


Build: TypeAlias = "Callable[[Adapter], Function | Trial]"
Wanted: TypeAlias = "list[Any] | Refusal | None"


@dataclasses.dataclass(frozen=True)
class Case:
    """One line of the contract: a function with a rule, and the numbers that mathematics says.

    `gradient` is that of the sum of the outputs, for each argument and variable, with `None` where nothing flows;
    `second` that of the sum of the squares of all gradients; `forward` is `gradient` as tangents show it, where that
    differs. A case without `second` says nothing of second order.
    """

    name: str
    args: Sequence[np.ndarray]
    gradient: Wanted
    build: Build
    second: Wanted = None
    forward: Wanted = None
    needs: Sequence[str] = ()
    eager_only: bool = False

    def __str__(self) -> str:
        return self.name


TABLE: Final[list[Case]] = []


class NamedMode(NamedTuple):
    """A mode under its name, and what it gives: "gradients", or what the engine must be able to do for it."""

    name: str
    mode: Any
    capability: str

    def __str__(self) -> str:
        return self.name

    def wanted(self, case: Case) -> Wanted:
        """What the case says of this mode."""
        if self.capability == "second order":
            return case.second
        return case.forward or case.gradient if self.mode.is_forward else case.gradient

    def runs(self, case: Case) -> bool:
        """Whether the case says something of this mode."""
        here = self.name == "eager" or not case.eager_only
        fits = self.mode.takes_variables or "variables" not in case.needs
        return here and fits and self.wanted(case) is not None


def cases(adapter: Adapter) -> list[tuple[Case, NamedMode]]:
    """What to run: pairs for `pytest.mark.parametrize`, with `ids=str`."""
    unknown = set(adapter.cannot) - set(CAPABILITIES)
    assert not unknown, f"`cannot` names {sorted(unknown)}; known are {', '.join(CAPABILITIES)}"
    assert "eager" in adapter.modes, "one of the modes must be called 'eager'"
    modes = [
        NamedMode(name, mode, "forward mode" if mode.is_forward else "gradients")
        for name, mode in adapter.modes.items()
    ]
    modes += [NamedMode(name, mode, "second order") for name, mode in adapter.second_order.items()]
    return [(case, mode) for case in TABLE for mode in modes if mode.runs(case)]


def run(case: Case, mode: NamedMode, adapter: Adapter) -> None:
    """Run a case in a mode; an AssertionError says what came and what was wanted."""
    where, wanted = f"{case} [{mode}]", mode.wanted(case) or []
    reasons = [adapter.cannot[c] for c in (*case.needs, mode.capability) if c in adapter.cannot]
    if reasons:
        wanted = Refusal(pb.PullbackError, "|".join(map(re.escape, [*reasons, ABSENT])))
    if isinstance(wanted, Refusal):
        late = () if mode.name == "eager" else adapter.late_errors
        _assert_refused(where, wanted, lambda: _run(case, mode, adapter), late)
        return
    found = _run(case, mode, adapter)
    assert len(found) == len(wanted), f"{where}: came {len(found)} gradients; wanted {wanted}"
    for i, (g, w) in enumerate(zip(found, wanted, strict=True)):
        said = f"{where}: for argument {i} came the gradient {g}; wanted {w}"
        assert _agree(g, w, mode.mode.gives_none), said


def _run(case: Case, mode: NamedMode, adapter: Adapter) -> list[Any]:
    built = case.build(adapter)  # afresh, so that nothing is left of earlier runs
    trial = built if isinstance(built, Trial) else Trial(built)
    xs = [adapter.array(x, "float32") for x in case.args]
    found = mode.mode.gradients(trial.function, xs, trial.variables)
    if trial.after is not None:
        trial.after()
    return [None if g is None else adapter.to_numpy(g) for g in found]


def _agree(found: Any, wanted: Any, gives_none: bool) -> bool:
    if found is None or wanted is None:
        return found is wanted or not (gives_none or found is None or np.any(found))
    same_shape = np.shape(found) == np.shape(wanted)
    return same_shape and np.allclose(found, wanted, TOLERANCE, TOLERANCE)


def _assert_refused(
    where: str, wanted: Refusal, act: Callable[[], Any], late: Sequence[type[Exception]]
) -> None:
    said = f"{where}: wanted {wanted.error.__name__} matching {wanted.match!r}"
    try:
        found = act()
    except Exception as error:
        matches = re.search(wanted.match, str(error), re.DOTALL)
        if not (isinstance(error, (wanted.error, *late)) and matches):
            raise AssertionError(f"{said}; came {type(error).__name__}: {error}") from error
    else:
        raise AssertionError(f"{said}; nothing was raised, and {found} came out")
