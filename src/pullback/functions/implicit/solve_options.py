"""How equations are to be solved, and how it went."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

from pullback.errors import ArgumentError
from pullback.functions.implicit.linear_solvers import SOLVERS

OnFailure = Literal["raise", "nan", "accept"]


class Solve(NamedTuple):
    """One solve: which pass it belongs to, how well it went, and how many steps it took."""

    kind: str
    residual: float
    steps: int
    converged: bool


class SolveLog(list[Solve]):
    """Collects how the solves of `fixed_point`, `root` and `argmin` went, forward and backward, as they run."""

    @property
    def forward(self) -> list[Solve]:
        """The solves of the equations themselves."""
        return [solve for solve in self if solve.kind == "forward"]

    @property
    def backward(self) -> list[Solve]:
        """The linear solves of backward passes."""
        return [solve for solve in self if solve.kind == "backward"]


class Options(NamedTuple):
    """How equations are solved, as the user said it."""

    name: str
    tolerance: float | Literal["auto"] | None
    max_steps: int
    solver: str
    solver_tolerance: float | Literal["auto"] | None
    solver_steps: int
    batch_dims: int
    on_failure: OnFailure
    log: SolveLog | None

    @property
    def unknown(self) -> str:
        """The name of the solution in messages; that of the start has a 0 more."""
        return "y" if self.name == "odeint" else "x"

    def check(self) -> None:
        """Complain of what makes no sense."""
        for name in ("tolerance", "solver_tolerance"):
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not (value is None or value == "auto" or (number and 0 < value < math.inf)):
                self.refuse(
                    name,
                    "a positive number, 'auto' (by the dtype), or None (a fixed number of steps)",
                )
        for name, low in (("max_steps", 1), ("solver_steps", 1), ("batch_dims", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < low:
                self.refuse(name, f"a whole number from {low} on")
        for name, known in (
            ("solver", ["auto", *SOLVERS]),
            ("on_failure", ["raise", "nan", "accept"]),
        ):
            if getattr(self, name) not in known:
                self.refuse(name, " or ".join(map(repr, known)))
        log: Any = self.log
        if log is not None and not isinstance(log, SolveLog):
            self.refuse("log", "a pb.functions.SolveLog() or None")

    def refuse(self, name: str, wanted: str) -> None:
        """Say what was wanted."""
        raise ArgumentError(
            f"pb.functions.{self.name} got {name}={getattr(self, name)!r}; wanted {wanted}."
        )


_COUNTS = 1e7  # above any number of steps that somebody waits for
_ELSE = {
    "fixed_point": "another x0, damping or method",
    "root": "another x0, or a step of your own",
    "argmin": "another x0, or a step of your own",
}


def not_converged(
    options: Options, kind: str, residual: Any, taken: Any, tolerance: float | None
) -> str:
    """What to say of a solve that did not reach its tolerance, and what may help; numbers may be placeholders."""
    wanted = "a finite one" if tolerance is None else f"at most {tolerance:.2g}"
    steps, which, other = options.max_steps, "", _ELSE[options.name]
    if kind == "backward":
        steps, which, other = options.solver_steps, "solver_", "another solver"
        if options.batch_dims:
            # Products then have terms of other systems, and the solution is none of theirs.
            other += (
                f", fewer batch_dims than {options.batch_dims} where one system depends on another"
            )
    return (
        f"pb.functions.{options.name}: the {kind} solve ended after {_short(taken)} steps of {steps} with a residual "
        f"of {_short(residual)}; wanted {wanted}. Give more {which or 'max_'}steps, a larger {which}tolerance, "
        f"{other}; on_failure='accept' takes it as it is."
    )


def not_a_minimum(name: str, curvature: Any) -> str:
    """What to say of a point at which a gradient vanishes, and that is a maximum or a saddle."""
    return (
        f"pb.functions.{name}: the solve ended at a stationary point that is no minimum: the lowest curvature is "
        f"{_short(curvature)} of the largest; wanted none below zero. Give another x0, or a function that is convex "
        "near it; on_failure='accept' takes it as it is."
    )


def ended_early(taken: Any, most: int, time: Any, wanted: Any) -> str:
    """What to say of steps in time that do not go all the way."""
    return (
        f"pb.functions.odeint: the steps ended at t = {_short(time)}, after {_short(taken)} of at most {most}; wanted "
        f"to reach t = {_short(wanted)}. Give more max_steps or a larger tolerance. If there were steps left, they had "
        "become too short to change the time: the solution grows without bounds there, or f returned no numbers; then "
        "let t end before. on_failure='accept' takes the last state for all times that are not reached."
    )


def _short(number: Any) -> Any:
    """A number with three digits, or all those of a count."""
    if not isinstance(number, float):
        return number
    return f"{number:.0f}" if number.is_integer() and number < _COUNTS else f"{number:.3g}"
