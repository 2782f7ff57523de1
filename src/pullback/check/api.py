"""`pb.check`: what the user calls."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pullback._engine import engine_of
from pullback._tree import flatten
from pullback.check.diagnose import diagnose
from pullback.check.domain import parse
from pullback.check.examine import Examination, Problem
from pullback.check.flat import Subject
from pullback.check.probe import Probe
from pullback.check.report import Coverage, Finding, Line, Report
from pullback.errors import CheckError


def check(
    fn: Any,
    *args: Any,
    kwargs: dict[str, Any] | None = None,
    wrt: str | Sequence[str] | None = None,
    order: int = 2,
    quick: bool = False,
    modes: str | Sequence[str] | None = None,
    against: Any = None,
    domain: Any = None,
    seed: int = 0,
    explain: bool = True,
) -> Report:
    """A verdict on the gradient of `fn` at `args`: is it the derivative of what `fn` computes?

    `fn` is a function, a layer, a loss, anything callable that has a gradient, or an op's type as
    a string; an override comes first, with the function after it. `against` names the function
    whose derivative the rule is meant to be, where that is not `fn` itself. `wrt` limits the check
    to inputs by name; `domain` says where the function may be tried (`"positive"`, `(low, high)`,
    `"symmetric"`, `"definite"`, or a dict of these by input); `order=1` leaves out second
    derivatives; `quick` keeps to two points and first derivatives; `modes` is "all", "none" or
    names of ways to run.

    >>> import pullback as pb, tensorflow as tf
    >>> print(pb.check(tf.sin, tf.constant([0.3, 0.7])).ok)
    True
    """
    began = time.perf_counter()
    if type(fn).__name__ == "Override" and args:
        fn, args = fn(args[0]), args[1:]
    _require_order(order)
    names = [wrt] if isinstance(wrt, str) else wrt
    rule = _probe(fn, args, kwargs or {}, names, seed)
    truth = rule if against is None else _probe(against, args, kwargs or {}, names, seed)
    try:
        with np.errstate(all="ignore"):
            exam = _examination(rule, truth, domain, 1 if quick else order, seed)
            problem = next(_course(exam, quick, modes), None)
            found = () if problem is None else (diagnose(exam, problem, explain=explain),)
    finally:
        rule.close()
        truth.close()
    return _report(exam, found, seed, time.perf_counter() - began)


def _require_order(order: int) -> None:
    if order not in (1, 2):
        raise CheckError(f"order is 1 or 2, got {order!r}.")


def _probe(
    fn: Any, args: Sequence[Any], kwargs: dict[str, Any], wrt: Sequence[str] | None, seed: int
) -> Probe:
    engine = engine_of([*flatten((args, kwargs))[0], fn])
    return engine.probes.make_probe(fn, args, kwargs, wrt, seed)


def _examination(rule: Probe, truth: Probe, domain: Any, order: int, seed: int) -> Examination:
    _require_same_shapes(rule, truth)
    subject = Subject(rule, truth)
    return Examination(
        subject, parse(domain, subject.inputs, subject.start()), order=order, seed=seed
    )


def _require_same_shapes(rule: Probe, truth: Probe) -> None:
    for what in ("inputs", "outputs"):
        ours = [leaf.shape for leaf in getattr(rule, what)]
        theirs = [leaf.shape for leaf in getattr(truth, what)]
        if ours != theirs:
            raise CheckError(
                f"{rule.name} and against={truth.name} differ in their {what}: "
                f"{ours} and {theirs}. They must agree to be compared."
            )


def _course(exam: Examination, quick: bool, modes: str | Sequence[str] | None) -> Iterator[Problem]:
    yield from exam.quick()
    if quick and modes is None:
        return
    if not quick:
        yield from exam.full()
    yield from exam.in_modes(_wanted(exam.subject.rule.modes(), modes))


def _wanted(known: Sequence[str], modes: str | Sequence[str] | None) -> Sequence[str]:
    if modes is None:
        return known[:2]
    if modes in ("all", "none"):
        return known if modes == "all" else ()
    wanted = [modes] if isinstance(modes, str) else list(modes)
    for mode in wanted:
        if mode not in known:
            raise CheckError(f"no mode {mode!r}. There are: {', '.join(known)}, 'all', 'none'.")
    return wanted


def _report(exam: Examination, findings: tuple[Finding, ...], seed: int, seconds: float) -> Report:
    subject = exam.subject
    blamed = {f.path for f in findings} | {f.output for f in findings}
    name = subject.rule.name
    return Report(
        name=name,
        seed=seed,
        calls=subject.calls,
        findings=findings,
        inputs=tuple(_line(leaf, blamed) for leaf in subject.inputs.leaves),
        outputs=tuple(_line(leaf, blamed) for leaf in subject.outputs.leaves),
        coverage=_coverage(exam),
        reproduce=f"import pullback as pb\nprint(pb.check({_as_code(name)}, *args, seed={seed}))",
        seconds=seconds,
    )


def _as_code(name: str) -> str:
    return name if name.isidentifier() else "fn"


def _line(leaf: Any, blamed: set[str]) -> Line:
    wrong = any(path == leaf.path or path.startswith(leaf.path + "[") for path in blamed)
    return Line(leaf, ok=not wrong)


def _coverage(exam: Examination) -> Coverage:
    dead = int(np.count_nonzero(~exam.reached))
    return Coverage(
        points=tuple(exam.points),
        left_out=tuple(exam.left_out),
        kinks=exam.kinks,
        undecided=exam.undecided,
        never_reached=dead,
        entries=exam.reached.size,
        modes=tuple(exam.modes),
        constants=exam.constants,
        order=exam.orders,
        notes=(*exam.subject.rule.notes, *exam.notes),
    )
