"""A verdict on one custom gradient at the arguments that were found or given for it."""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pullback._engine import only_engine
from pullback.check import Report, numbers, progress
from pullback.check import check as check_gradient
from pullback.check.budget import Calls, quick_checks_within
from pullback.check.diagnosis.meant import meaning
from pullback.cli.checking.caveats import Check, caveat_of
from pullback.cli.checking.checks import ABSENT, Checks, first_name, may_be_held
from pullback.cli.checking.elsewhere import right_elsewhere, symmetric_instead
from pullback.cli.checking.intent import intention_of
from pullback.cli.checking.outcome import RIGHT, UNKNOWN, WRONG, Item, Outcome
from pullback.cli.checking.reach import Found
from pullback.cli.checking.variants import Slip, slip_of
from pullback.cli.guess.calls import described
from pullback.cli.guess.docstrings import says_tensor
from pullback.cli.guess.names import may_be_learnt
from pullback.cli.guess.wanted import DEFAULT, OF_MATRICES
from pullback.errors import CheckError

_HOW_TO_SAY = "If it is meant, say so: @pb.inputs(against=…) or @pb.inputs(ignore='why')"
_LOST = (*ABSENT, "mode")  # the same in graphs, while eager code has a gradient by accident


def judged(item: Item, found: Found, options: Mapping[str, Any], origin: str = "") -> Outcome:
    """Check a function, and say in one sentence what came of it; `origin` is who gave the arguments, if anybody did."""
    inputs = described(found.guess, found.function)
    found = _with_tensors_by_position(found)
    try:
        is_said = "against" in options or "tolerance" in options
        meant = "" if is_said or found.fault else _meaning(found)
        if meant:
            notes = (f"with {found.caveat}",) if found.caveat else ()
            return Outcome(item, UNKNOWN, f"{meant}. {_HOW_TO_SAY}", inputs, notes=notes)
        found = _as_taken_by(options.get("against"), found)
        checks = Checks()
        report, held = checks.checked(found, options)
        notes = tuple[str, ...]()
        if report.verdict == "wrong" and not origin and "domain" not in options:
            inside = _inside(found, options, checks)
            if inside is not None:
                found, options, report, held, words = inside
                notes = (f"tested for {words}",)
    except CheckError as error:
        ran = only_engine().probes.trial(found.function, found.guess.args, found.guess.kwargs)
        if ran.never_fits:
            return Outcome(item, WRONG, f"the framework raises at every call: {ran.fault}", inputs)
        blamed = f"with what {origin} gives: " if origin else ""
        return Outcome(item, UNKNOWN, f"{blamed}{error}", inputs)
    again = f"pullback check {item.file}:{item.name} --report --seed {report.seed}"
    report = replace(report, name=item.name, reproduce=again)
    if report.verdict == "right" and not notes:
        notes = tuple(f"tested for {kind} matrices" for kind in _kinds_of_matrix(found))
    notes += tuple(f"no gradient for {name}, taken as a constant" for name in held)
    outcome = Outcome(item, RIGHT, "", inputs, report=report, notes=notes)
    if report.verdict == "wrong":
        return checks.told(
            _wrong(outcome, report, found, options, checks.report, is_given=bool(origin))
        )
    if report.verdict == "undecided":
        reason = next(iter(report.coverage.reasons), "it could not be told")
        return replace(
            outcome,
            status=UNKNOWN,
            text=f"undecided: {reason.removesuffix('.')}. --report says what to write",
        )
    return checks.told(
        _right(outcome, report, found, held, options, checks.report, is_given=bool(origin))
    )


def _inside(
    found: Found, options: Mapping[str, Any], checks: Checks
) -> tuple[Found, dict[str, Any], Report, list[str], str] | None:
    """A report for the inputs that are meant, in words too, unless it is wrong for them as well."""
    for one, more, words in _meant_inputs(found):
        if not checks.has_time():
            break
        within = {**options, **more}
        report, held = checks.checked(one, {**within, "explain": False})
        if any(f.kind == "second" for f in report.findings[:1]):
            return one, within, *checks.checked(one, within), words
        if report.verdict == "right":
            return one, within, report, held, words
    return None


def _with_tensors_by_position(found: Found) -> Found:
    """The same call: who names inputs by keyword does not mean that they are passed so, where no rule would run."""
    args, kwargs = found.guess.args, dict(found.guess.kwargs)
    known = inspect.signature(found.function).parameters.values() if kwargs else ()
    names = [p.name for p in known if p.kind is p.POSITIONAL_OR_KEYWORD][len(args) :]
    tensors = itertools.takewhile(lambda name: hasattr(kwargs.get(name), "dtype"), names)
    args = (*args, *[kwargs.pop(name) for name in list(tensors)])
    return replace(found, guess=replace(found.guess, args=args, kwargs=kwargs))


def _as_taken_by(reference: Any, found: Found) -> Found:
    """The same call without names where a reference calls its parameters otherwise: `tf.identity(input)`."""
    args, kwargs = found.guess.args, found.guess.kwargs
    if not callable(reference) or not kwargs or _binds(reference, args, kwargs) is not None:
        return found
    bound = _binds(found.function, args, kwargs)
    if bound is None:
        return found
    return replace(found, guess=replace(found.guess, args=bound.args, kwargs=bound.kwargs))


def _binds(function: Any, args: Any, kwargs: Any) -> inspect.BoundArguments | None:
    try:
        return inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None


def _meant_inputs(found: Found) -> Iterator[tuple[Found, dict[str, Any], str]]:
    """Where the docstring says that numbers lie, and symmetric matrices if one half alone is read, in words too."""
    domain = found.guess.domain
    if domain:
        yield found, {"domain": domain}, f"{_words_of_domain(domain)}, as its docstring says"
    for one in symmetric_instead(found):
        yield one, {"domain": "symmetric"}, "symmetric matrices, of which it reads one half"


def _kinds_of_matrix(found: Found) -> list[str]:
    """The kinds of the matrices that were made up, as names and docstrings say: others were not tested."""
    recipe = (found.outer[1] if found.outer else found.guess).recipe
    known = [one.values for one in recipe.leaves if one.dims] if recipe else []
    return [kind for kind in OF_MATRICES if kind in known]


def _words_of_domain(domain: Mapping[str, Any]) -> str:
    pairs = [
        (n, f"between {w[0]:g} and {w[1]:g}" if isinstance(w, tuple) else w)
        for n, w in domain.items()
    ]
    return ", ".join(f"{name} {where}" for name, where in pairs)


def _meaning(found: Found) -> str:
    """What a rule does that nobody can have meant to be the derivative."""
    guess = found.guess
    make = only_engine().probes.make_probe
    probe = make(found.function, guess.args, guess.kwargs, None, 0, Calls())
    with contextlib.closing(probe):
        return meaning(probe)


def _right(
    outcome: Outcome,
    report: Report,
    found: Found,
    held: list[str],
    options: Mapping[str, Any],
    check: Check,
    *,
    is_given: bool,
) -> Outcome:
    text = f"{report.calls} calls"
    open_ = [name for name in held if _may_be_missed(first_name(name), found)]
    if open_:
        text = (
            f"right, but there is no gradient for {_quoted(open_)}, on which it depends. "
            f"If that is meant: @pb.inputs(wrt={[line.leaf.name for line in report.inputs]})"
        )
        return replace(outcome, status=UNKNOWN, text=text)
    slip = None if is_given else slip_of(found, options, check)
    if slip and slip.counts:
        return _with_slip(outcome, slip, found)
    caveat = (found.caveat and f"with {found.caveat}") or (slip.text if slip else "")
    if caveat:
        text = f"right at these inputs; {caveat.removesuffix('.')}. @pb.inputs(...) says which are meant"
        return replace(outcome, status=UNKNOWN, text=text)
    if not options.get("wrt") and (lost := _lost_outside(found)):
        return replace(outcome, status=UNKNOWN, text=lost)
    return replace(outcome, text=text)


def _with_slip(outcome: Outcome, slip: Slip, found: Found) -> Outcome:
    """Right at its inputs and wrong with others that it takes as well, unless that is meant."""
    meant = _meaning(slip.found) or _intention(found)
    text = f"right at these inputs; {slip.text.removesuffix('.')}"
    if meant:
        return replace(outcome, status=UNKNOWN, text=f"{text}: {meant}. {_HOW_TO_SAY}")
    return replace(outcome, status=WRONG, text=text)


def _intention(found: Found) -> str:
    """What the function, or what it is made in, says of a rule that differs from the derivative."""
    around = [call[0] for call in (found.outer, found.factory) if call]
    said = intention_of(inspect.unwrap(found.function), *map(_described, around))
    return f"“{said}”" if said else ""


def _described(outer: Any) -> Any:
    """Where a callable is described: an object by its class."""
    own = inspect.isroutine(outer) or isinstance(outer, type)
    return outer if own else type(outer)


def _wrong(
    outcome: Outcome,
    report: Report,
    found: Found,
    options: Mapping[str, Any],
    check: Check,
    *,
    is_given: bool,
) -> Outcome:
    """Wrong, unless the inputs that were made up may be to blame, or the rule is an approximation."""
    finding = report.findings[0]
    outcome = replace(outcome, status=WRONG, text=report.diagnosis, source=finding.source or "")
    if found.never_fits and not found.unsure:
        return outcome
    if meant := _intention(found):
        text = f"{report.diagnosis.removesuffix('.')}; but it says {meant}. {_HOW_TO_SAY}"
        return replace(outcome, status=UNKNOWN, text=text)
    if is_given:
        return outcome
    names = {line.leaf.path: line.leaf.name for line in report.inputs}
    wrt = [name for name in names.values() if not may_be_held(name)]  # labels have no gradient
    if names.get(finding.path) not in wrt:
        wrt = list(
            names.values()
        )  # a gradient of labels that is there, and wrong, is no other input's affair
    options = {"wrt": wrt, **options}
    caveat = caveat_of(report, found, options, check) or _elsewhere(report, found, options, check)
    return replace(outcome, status=UNKNOWN, text=caveat) if caveat else outcome


def _elsewhere(report: Report, found: Found, options: Mapping[str, Any], check: Check) -> str:
    """Other shapes with which it is right: those that were made up first may not be meant."""

    def is_right(one: Found) -> bool:
        with quick_checks_within(numbers.LOOK_CALLS):
            return check(one, {**options, "quick": True, "explain": False}).ok

    # what is wrong at special points alone is not wrong for its shape
    right = None if report.findings[0].made_up else right_elsewhere(found, is_right)
    if right is None:
        return ""
    inputs = described(right.guess, right.function)
    said = report.diagnosis.removesuffix(".")
    return (
        f"right with {inputs}, but with these inputs {said}. @pb.inputs(...) says which are meant"
    )


def _may_be_missed(name: str, found: Found) -> bool:
    """Whether a setting that has no gradient may well be meant to have one."""
    if found.guess.sources.get(name) == DEFAULT:
        return False
    return may_be_learnt(name) or says_tensor(inspect.getdoc(found.function) or "", name)


def _quoted(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _lost_outside(found: Found) -> str:
    """A tensor that the outer function was given and the inner one closes over: its gradient is lost."""
    if found.outer is None:
        return ""
    outer, guess = found.outer
    inner = inspect.unwrap(found.function)
    cells = [c.cell_contents for c in getattr(inner, "__closure__", None) or () if _is_filled(c)]
    names = [n for n in guess.sources if n not in guess.kwargs]
    passed = {**dict(zip(names, guess.args, strict=False)), **guess.kwargs}
    closed_over = [
        name
        for name, value in passed.items()
        if hasattr(value, "dtype") and any(value is cell for cell in cells)
        and not any(value is arg for arg in found.guess.args) and not may_be_held(name)
    ]  # fmt: skip
    if not closed_over:
        return ""
    try:
        with progress.hidden():
            report = check_gradient(
                outer, *guess.args, kwargs=guess.kwargs, wrt=closed_over, order=1
            )
    except CheckError:
        return ""
    if report.verdict != "wrong" or report.findings[0].kind not in _LOST:
        return ""
    lost = _quoted(closed_over)
    where = "which it closes over, in a tf.function"
    return f"right, but no gradient flows to {lost}, {where}. If it should: make it an argument"


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # an empty one raises
    except ValueError:
        return False
    return True
