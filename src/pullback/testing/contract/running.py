"""Every case in every mode: what is run, and how the outcome is judged."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from pullback.errors import PullbackError
from pullback.testing.contract.adapter import CAPABILITIES, Adapter, AnyMode
from pullback.testing.contract.case import TABLE, Case, Refusal, Trial, Wanted

# Cases run in float32, and their numbers are near one.
TOLERANCE: Final = 1e-4


@dataclasses.dataclass(frozen=True)
class NamedMode:
    """A mode under its name, and which of the numbers of a case it gives."""

    name: str
    mode: AnyMode
    capability: str | None  # "second order", "forward mode" or none in particular

    def __str__(self) -> str:
        return self.name

    def wanted(self, case: Case) -> Wanted:
        """What the case says of this mode."""
        if self.capability == "second order":
            return case.second
        return case.forward if self.mode.is_forward else case.gradient


def cases(adapter: Adapter) -> list[tuple[Case, NamedMode]]:
    """All pairs to run, for `pytest.mark.parametrize("case, mode", cases(adapter), ids=str)`."""
    unknown = set(adapter.cannot) - set(CAPABILITIES)
    assert not unknown, f"`cannot` names {sorted(unknown)}; known are {', '.join(CAPABILITIES)}"
    assert "eager" in adapter.modes, "one of the modes must be called 'eager'"
    named = [
        NamedMode(name, mode, "forward mode" if mode.is_forward else None)
        for name, mode in adapter.modes.items()
    ]
    named += [
        NamedMode(name, mode, "second order") for name, mode in adapter.second_order.items()
    ]
    return [(case, mode) for case in TABLE for mode in named if _concerns(case, mode)]


def _concerns(case: Case, mode: NamedMode) -> bool:
    return (
        mode.wanted(case) is not None
        and (mode.name == "eager" or not case.eager_only)
        and (mode.mode.takes_variables or "variables" not in case.needs)
    )


def run(case: Case, mode: NamedMode, adapter: Adapter) -> None:
    """Run a case in a mode; an AssertionError says what came and what was wanted."""
    where, wanted = f"{case} [{mode}]", mode.wanted(case)
    lacking = sorted({*case.needs, mode.capability} & set(adapter.cannot))
    if lacking:
        wanted = Refusal(PullbackError, "|".join(re.escape(adapter.cannot[name]) for name in lacking))
    if isinstance(wanted, Refusal):
        _assert_refused(where, wanted, lambda: _run(case, mode.mode, adapter), adapter.late_errors)
        return
    found = _run(case, mode.mode, adapter)
    assert len(found) == len(wanted or ()), f"{where}: came {len(found)} gradients; wanted {wanted}"
    for i, (g, w) in enumerate(zip(found, wanted or (), strict=True)):
        said = f"{where}: for argument {i} came the gradient {g}; wanted {w}"
        assert _agree(g, w, mode.mode.gives_none), said


def _run(case: Case, mode: AnyMode, adapter: Adapter) -> list[Any]:
    built = case.build(adapter)  # afresh, so that nothing is left of earlier runs
    trial = built if isinstance(built, Trial) else Trial(built)
    xs = [adapter.array(x) for x in case.args]
    found = mode.gradients(trial.fn, xs, trial.variables)
    if trial.after is not None:
        trial.after()
    return [None if g is None else adapter.to_numpy(g) for g in found]


def _agree(found: Any, wanted: Any, gives_none: bool) -> bool:
    if wanted is None:
        return found is None or (not gives_none and not np.any(found))
    same_shape = found is not None and np.shape(found) == np.shape(wanted)
    return same_shape and np.allclose(found, wanted, TOLERANCE, TOLERANCE)


def _assert_refused(
    where: str, wanted: Refusal, act: Callable[[], Any], late: Sequence[type[Exception]]
) -> None:
    said = f"{where}: wanted {wanted.error.__name__} matching {wanted.match!r}"
    try:
        found = act()
    except (wanted.error, *late) as error:
        assert re.search(wanted.match, str(error), re.DOTALL), f"{said}; it says: {error}"
    except Exception as error:
        raise AssertionError(f"{said}; came {type(error).__name__}: {error}") from error
    else:
        raise AssertionError(f"{said}; nothing was raised, and {found} came out")
