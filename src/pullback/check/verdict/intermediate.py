"""What the values inside the function's program tell: what they may be rounded by, and iterations that do not settle.

A rule for the limit of an iteration, as by the implicit function theorem, is right wherever the iteration settles. That
it is not the derivative of so many steps elsewhere says nothing of the rule.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from pullback.check import numbers as n
from pullback.check.probe import Array, Step
from pullback.check.programs.steps import At
from pullback.check.subject import Subject


def is_unsettled(subject: Subject, start: Array, x: Array, w: Array) -> bool:
    """Whether a line of the program that runs many times comes to rest at the given arguments, but not at `x`."""
    at_start = _resting(subject, start, w)
    if not any(at_start.values()):
        return False
    here = _resting(subject, x, w)
    return any(rests and not here[line] for line, rests in at_start.items())


def rounding_inside(subject: Subject, x: Array, w: Array) -> float:
    """The rounding of the largest value inside, which an output may have in it however small it is itself."""
    outputs = [array for _, results in _results(subject, x, w) for array in results]
    largest = max((float(np.max(np.abs(a), initial=0.0)) for a in outputs), default=0.0)
    return subject.epsilon * largest if np.isfinite(largest) else 0.0


def rounding_passed_on(subject: Subject, x: Array, w: Array) -> float:
    """What rounding inside makes of an output at most: the rounding of a value, times what depends on it.

    A large value of which little is left in the output, as one beside which another cancels, leaves its rounding there.
    """
    found = _found(subject, x, w)
    pairs = zip(found.outputs, found.cotangents, strict=True) if found else ()
    with np.errstate(all="ignore"):
        products = [
            np.abs(value * cotangent)
            for values, cotangents in pairs
            for value, cotangent in zip(values, cotangents, strict=True)
        ]
    largest = max(
        (float(np.max(p, initial=0.0, where=np.isfinite(p))) for p in products), default=0.0
    )
    return subject.epsilon * largest


def _resting(subject: Subject, x: Array, w: Array) -> dict[tuple[str, str], bool]:
    """For each operation of a line that runs many times: whether its last two results are the same but for rounding."""
    runs: defaultdict[tuple[str, str], list[Array]] = defaultdict(list)
    for step, results in _results(subject, x, w):
        runs[step.place, step.op] += results if step.place else []
    many = {line: results for line, results in runs.items() if len(results) >= n.ITERATIONS}
    return {line: _is_at_rest(subject, results) for line, results in many.items()}


def _is_at_rest(subject: Subject, results: list[Array]) -> bool:
    first, before, last = results[0], *results[-2:]
    if before.shape != last.shape or np.array_equal(first, last):
        return False
    size = float(np.max(np.abs(last), initial=0.0))
    return bool(np.max(np.abs(last - before), initial=0.0) <= n.ROUNDINGS * subject.epsilon * size)


def _results(subject: Subject, x: Array, w: Array) -> Iterable[tuple[Step, Sequence[Array]]]:
    """What the operations of the program give; nothing where there is no program to be had."""
    found = _found(subject, x, w)
    steps = subject.steps() if found else None
    return zip(steps.steps, found.outputs, strict=True) if steps and found else ()


def _found(subject: Subject, x: Array, w: Array) -> At | None:
    steps = subject.steps() if subject.own_vjp(x, w) is not None else None
    if steps is None:
        return None
    return steps.at(subject.inputs.split(x), subject.upstream(w))
