"""The program of a function run for a check, which counts as a run of the function."""

from pullback.check.probe import Arrays, Traced
from pullback.program.run import CALLS, EVERY, Run, run_program


def run_traced(traced: Traced, xs: Arrays, ws: Arrays = (), *, flat: bool = False) -> Run:
    """A traced program run at a point; `flat`: with every step of its loops and branches."""
    traced.calls.spend()
    entered = EVERY if flat else CALLS
    return run_program(traced.engine, traced.program, traced.feed(xs, ws), entered=entered)


def taken_up(traced: Traced, made: Run) -> Run:
    """A run whose operations are all differentiated once more, which is the work of a run."""
    traced.calls.spend()
    return made
