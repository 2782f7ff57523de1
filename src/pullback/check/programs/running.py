"""The program of a function run for a check, which counts as a run of the function."""

from pullback.check.probe import Arrays, Traced
from pullback.program.data import NodeKind
from pullback.program.run import CALLS, Run, run_program


def run_traced(
    traced: Traced, xs: Arrays, ws: Arrays = (), *, entered: frozenset[NodeKind] = CALLS
) -> Run:
    """A traced program run at a point, with the operations of what is entered."""
    traced.calls.spend()
    return run_program(traced.engine, traced.program, traced.feed(xs, ws), entered=entered)


def taken_up(traced: Traced, made: Run) -> Run:
    """A run whose operations are all differentiated once more, which is the work of a run."""
    traced.calls.spend()
    return made
