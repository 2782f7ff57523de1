"""`pb.check`: what the user calls."""

import contextlib
import sys
import time
import traceback
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pullback._engine import engine_of
from pullback._overriding import Override
from pullback._tree import flatten, unflatten
from pullback.check import budget, progress
from pullback.check.budget import Calls
from pullback.check.diagnosis.diagnose import diagnose
from pullback.check.diagnosis.sizes import doubled_by
from pullback.check.options import Options, as_code
from pullback.check.probe import Array, Leaf, OutsideDomain, Probe, Probes
from pullback.check.report import Coverage, Finding, Line, Report
from pullback.check.reproduce import script
from pullback.check.search.domain import parse
from pullback.check.subject import Subject
from pullback.check.verdict.course import Course
from pullback.check.verdict.modes import in_modes
from pullback.check.verdict.record import Problem
from pullback.check.verdict.reference import compare, reference_of
from pullback.errors import CheckError


@contextlib.contextmanager
def _exits_are_errors() -> Generator[None]:
    """A function that ends the program when it is checked must not end the program that checks it, in silence."""
    try:
        yield
    except SystemExit as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise CheckError(
            f"sys.exit({error.code!r}) was called at {last.filename}:{last.lineno} while the gradient was checked: "
            "nothing can be said of it."
        ) from error


@_exits_are_errors()
def check(
    fn: Any,
    *args: Any,
    kwargs: dict[str, Any] | None = None,
    wrt: str | Sequence[str] | None = None,
    order: int | None = None,
    quick: bool = False,
    modes: str | Sequence[str] | None = None,
    against: Any = None,
    domain: Any = None,
    tolerance: float = 0.0,
    seed: int = 0,
    explain: bool = True,
) -> Report:
    """A verdict on the gradient of `fn` at `args`: is it the derivative of what `fn` computes?

    `fn` is a function, a layer, a loss, anything callable that has a gradient, or an op's type as
    a string; an override comes first, with the function after it. `against` names the function
    whose derivative the rule is meant to be, where that is not `fn` itself. `wrt` limits the check
    to inputs by name; `domain` says where the function may be tried (`"positive"`, `(low, high)`,
    `"symmetric"`, `"definite"`, or a dict of these by input). `order=1` leaves out second
    derivatives, `order=2` asks for those of the engine's own operations too, which are else a note.
    `tolerance` is the share by which a rule that is an approximation may be off. `quick` keeps to
    two points and first derivatives; `modes` is "all", "none" or names of ways to run.

    >>> import pullback as pb, tensorflow as tf
    >>> print(pb.check(tf.sin, tf.constant([0.3, 0.7])).ok)
    True
    """
    began = time.perf_counter()
    options = Options(kwargs, wrt, order, quick, modes, against, domain, tolerance, seed, explain)
    plain, under = fn, ["override"] * isinstance(fn, Override)
    if isinstance(fn, Override):
        if not args:
            raise CheckError(
                "an override comes first, the function after it: pb.check(override, fn, x)."
            )
        fn, plain, args = fn(args[0]), args[0], args[1:]
    calls = Calls()
    with contextlib.ExitStack() as at_end:
        with _in_few_calls(calls) if quick else contextlib.nullcontext():
            rule = _probe(fn, args, options, calls)
            at_end.callback(rule.close)
            ways = _wanted(rule, options)
            truth, reference = _compared_with(plain, rule, args, options, calls)
            for probe in filter(None, (reference, truth)):
                at_end.callback(probe.close)
        try:
            with progress.shown(rule.name), doubled_by(partial(_doubled, fn, args, options, calls)):
                exam, found = _examined(Subject(rule, truth, reference), options, ways)
        except OutsideDomain as error:
            raise CheckError(
                f"{rule.name} ran with the given arguments at first, and later did not: {error}"
            ) from error
    probes = _probes(fn, args, options)
    run = script(probes, plain, args, options, _other_arguments(exam, found), under)
    return _report(exam, found, options, run, time.perf_counter() - began)


def _probes(fn: Any, args: Sequence[Any], options: Options) -> Probes:
    return engine_of([*flatten((args, dict(options.kwargs or {})))[0], fn]).probes


def _probe(fn: Any, args: Sequence[Any], options: Options, calls: Calls) -> Probe:
    make = _probes(fn, args, options).make_probe
    return make(fn, args, dict(options.kwargs or {}), options.names, options.seed, calls)


@contextlib.contextmanager
def _in_few_calls(calls: Calls) -> Generator[None]:
    """The calls of a quick check must do to find out how a function can be run."""
    most = budget.quick.get()
    try:
        with calls.within(most):
            yield
    except budget.Spent:
        raise CheckError(
            f"a quick check makes no more than {most} calls, and it takes as many to find out how this function can "
            "be run: leave `quick` out."
        ) from None


def _doubled(fn: Any, args: Sequence[Any], options: Options, calls: Calls, size: int) -> Probe:
    """The same with arguments that repeat what they have along axes of a size."""
    probes = _probes(fn, args, options)
    leaves, structure = flatten((tuple(args), dict(options.kwargs or {})))
    longer, kwargs = unflatten(structure, [_repeated(probes, leaf, size) for leaf in leaves])
    return probes.make_probe(fn, longer, kwargs, options.names, options.seed, calls)


def _repeated(probes: Probes, value: Any, size: int) -> Any:
    if not (hasattr(value, "shape") and hasattr(value, "dtype")) or hasattr(value, "assign"):
        return value
    array = np.asarray(value)
    for axis in [k for k, length in enumerate(array.shape) if length == size]:
        array = np.concatenate([array, array], axis)
    return array if isinstance(value, np.ndarray) else probes.tensor(array, array.dtype.name)


def _compared_with(
    fn: Any, rule: Probe, args: Sequence[Any], options: Options, calls: Calls
) -> tuple[Probe, Probe | None]:
    """The function whose derivative is meant, and the reference where a rule is meant instead."""
    if options.against is None:
        return rule, None
    is_custom = _probes(fn, args, options).is_custom_gradient
    try:
        reference = reference_of(options.against, fn, is_custom)
        if reference is not None:
            return rule, _probe(reference, args, options, calls)
        return _probe(options.against, args, options, calls), None
    except CheckError as error:
        raise CheckError(f"against: {error}") from error


def _examined(
    subject: Subject, options: Options, modes: Sequence[str]
) -> tuple[Course, tuple[Finding, ...]]:
    _require_same_shapes(subject.rule, subject.reference or subject.truth)
    order, tolerance = 1 if options.quick else options.order, float(options.tolerance)
    with np.errstate(all="ignore"):
        domain = parse(options.domain, subject.inputs, subject.start())
        course = Course(subject, domain, order=order, tolerance=tolerance, seed=options.seed)
        most = budget.quick.get() if options.quick else sys.maxsize
        with subject.within(most - subject.calls):
            with contextlib.closing(_parts(course, options.quick, modes)) as parts:
                problem = next(parts, None)
            is_the_same = course.finish()
        if not is_the_same or problem is None:  # of another function than this one
            return course, ()
        return course, diagnose(course, problem, explain=options.explain)


def _require_same_shapes(rule: Probe, truth: Probe) -> None:
    for what in ("inputs", "outputs"):
        ours, theirs = (list(map(_shape, getattr(probe, what))) for probe in (rule, truth))
        if ours != theirs:
            raise CheckError(
                f"{rule.name} and against={truth.name} differ in their {what}: "
                f"{', '.join(ours)} and {', '.join(theirs)}. They must agree to be compared."
            )


def _shape(leaf: Leaf) -> str:
    """What must be the same: the shape, and for a variable which it is."""
    return f"{leaf.name if leaf.kind == 'variable' else ''}{list(leaf.shape)}"


def _parts(course: Course, quick: bool, modes: Sequence[str]) -> Generator[Problem]:
    has_reference = course.subject.reference is not None
    first = compare(course, quick=quick) if has_reference else course.quick()
    yield from _within_few_calls(course, first) if quick else first
    if not quick and not has_reference:
        yield from course.full()
    yield from in_modes(course, modes)


def _within_few_calls(course: Course, parts: Iterator[Problem]) -> Iterator[Problem]:
    """A quick check keeps to its calls, whatever it meets; the last one of them is for the end."""
    most = budget.quick.get()
    with (
        course.subject.within(most - 1 - course.subject.calls) as spent,
        contextlib.suppress(budget.Spent),
    ):
        yield from parts
    if spent.is_spent:
        course.has_no_calls_left(most)


def _wanted(rule: Probe, options: Options) -> Sequence[str]:
    modes = options.modes
    if modes is None:
        return () if options.quick else rule.default_modes()
    known = rule.modes()
    if modes in ("all", "none"):
        return known if modes == "all" else ()
    wanted = [modes] if isinstance(modes, str) else list(modes)
    unknown = [mode for mode in wanted if mode not in known]
    if unknown:
        offered = ", ".join(map(repr, (*known, "all", "none")))
        raise CheckError(f"no mode {unknown[0]!r}. There are: {offered}.")
    return wanted


def _report(
    exam: Course, findings: tuple[Finding, ...], options: Options, run: str, seconds: float
) -> Report:
    subject = exam.subject
    blamed = {path for f in findings for path in (f.path, f.output, *f.paths)}
    line = subject.rule.source_line() if findings else ""
    seen = _coverage(exam)
    decided = not seen.open_given
    tested = exam.each_input.tested if decided else ()
    against = "" if options.against is None else subject.truth.name
    if subject.reference is not None:
        against = as_code(options.against, "the reference")
    return Report(
        name=subject.rule.name,
        seed=int(options.seed),
        calls=subject.calls,
        findings=tuple(f if f.code else replace(f, code=line) for f in findings),
        inputs=tuple(
            _line(leaf, blamed, k in tested) for k, leaf in enumerate(subject.inputs.leaves)
        ),
        outputs=tuple(_line(leaf, blamed, decided) for leaf in subject.outputs.leaves),
        coverage=seen,
        reproduce=run,
        seconds=seconds,
        against=against,
    )


def _other_arguments(exam: Course, findings: tuple[Finding, ...]) -> dict[str, Array]:
    """The failing input by path, if arguments are all that must change for it."""
    at, layout = findings[0].at if findings else {}, exam.subject.inputs
    both = zip(layout.leaves, layout.split(exam.start), strict=True) if at else ()
    changed = [v for v, x in both if not np.array_equal(at[v.name], x, equal_nan=True)]
    if any(leaf.kind == "variable" for leaf in changed):
        return {}
    return {leaf.path: at[leaf.name] for leaf in layout.leaves if at}


def _line(leaf: Leaf, blamed: set[str], decided: bool) -> Line:
    """Right if nothing was found or left open; after a finding, what it does not name was not judged."""
    if not blamed:
        return Line(
            leaf, ok=True if decided and leaf.size else None
        )  # of nothing there is nothing to tell
    inside = (leaf.path + "[", leaf.path + ".")
    wrong = any(path == leaf.path or path.startswith(inside) for path in blamed)
    return Line(leaf, ok=False if wrong else None)


def _coverage(course: Course) -> Coverage:
    record = course.record
    dead = int(np.count_nonzero(~course.reached)) if record.points[1] else 0
    return Coverage(
        points=tuple(map(str, record.points[1])),
        second=tuple(map(str, record.points[2])),
        left_out=tuple(kind.value for kind in record.left_out),
        kinks=record.kinks,
        undecided=record.open_elsewhere,
        never_reached=dead,
        entries=course.reached.size,
        modes=tuple(record.modes),
        constants=course.facts.constants,
        notes=tuple(_notes(course)),
        open_given=record.open_given,
        reasons=tuple(dict.fromkeys(record.reasons)),
        varies=record.varies,
    )


def _notes(course: Course) -> Iterator[str]:
    layout, share = course.subject.inputs, course.record.tolerated
    yield from course.subject.rule.notes
    for k, leaf in enumerate(layout.leaves):
        count = int(np.count_nonzero(~np.isfinite(course.start[layout.span(k)])))
        is_zero = not course.subject.flows_to_held
        told = (
            "their gradient is zero"
            if is_zero
            else "their gradient, which is not zero, is not tested"
        )
        entries = f"{leaf.name}: {count} of {leaf.size} entries are NaN or infinite as given"
        yield from [f"{entries}: they are not moved; {told}"] if count else []
    kept = course.suggested.describe() if course.has_read else []  # else no points were made up
    if kept:
        yield f"other points keep what the given arguments are: {', '.join(kept)}"
    yield from course.record.notes
    within = f"within tolerance={course.tolerance:g}"
    hidden = "which the rounding of the arguments hides"
    if share:
        yield f"off by up to {share:.2g} of its size, {within if course.tolerance else hidden}"
