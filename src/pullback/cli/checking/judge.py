"""A verdict on one custom gradient at the arguments that were found or given for it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pullback.check import Report, progress
from pullback.check import check as check_gradient
from pullback.cli.checking.caveats import caveat_of
from pullback.cli.checking.meant import HOW_TO_SAY, meaning
from pullback.cli.checking.outcome import RIGHT, UNKNOWN, WRONG, Item, Outcome
from pullback.cli.checking.reach import Found
from pullback.cli.checking.variants import caveat_of_variants
from pullback.cli.guess.calls import described
from pullback.cli.guess.docstrings import says_tensor
from pullback.cli.guess.names import is_data, is_setting, may_be_learnt
from pullback.cli.guess.wanted import DEFAULT
from pullback.errors import CheckError

_ABSENT = ("none", "detached")  # kinds of findings: the rule gives nothing for an input
_LOST = (*_ABSENT, "mode")  # the same in graphs, while eager code has a gradient by accident


def judged(item: Item, found: Found, options: Mapping[str, Any], origin: str = "") -> Outcome:
    """Check a function, and say in one sentence what came of it; `origin` is who gave the arguments, if anybody did."""
    guess = found.guess
    inputs = described(guess, found.function)
    try:
        is_said = "against" in options or "tolerance" in options
        meant = "" if is_said or found.fault else meaning(found.function, guess.args, guess.kwargs)
        if meant:
            notes = (f"with {found.caveat}",) if found.caveat else ()
            return Outcome(item, UNKNOWN, f"{meant}. {HOW_TO_SAY}", inputs, notes=notes)
        report, held = _checked(found, dict(options))
    except CheckError as error:
        blamed = f"with what {origin} gives: " if origin else ""
        return Outcome(item, UNKNOWN, f"{blamed}{error}", inputs)
    again = f"pullback check {item.file}:{item.name} --report --seed {report.seed}"
    report = replace(report, name=item.name, reproduce=again)
    notes = tuple(f"no gradient for {name}, taken as a constant" for name in held)
    outcome = Outcome(item, RIGHT, "", inputs, report=report, notes=notes)
    if report.verdict == "wrong":
        return _wrong(outcome, report, found, options, is_given=bool(origin))
    if report.verdict == "undecided":
        reason = next(iter(report.coverage.reasons), "it could not be told")
        return replace(
            outcome,
            status=UNKNOWN,
            text=f"undecided: {reason.removesuffix('.')}. --report says what to write",
        )
    return _right(outcome, report, found, held, options, is_given=bool(origin))


def _right(
    outcome: Outcome,
    report: Report,
    found: Found,
    held: list[str],
    options: Mapping[str, Any],
    *,
    is_given: bool,
) -> Outcome:
    text = f"{report.calls} calls"
    open_ = [name for name in held if _may_be_missed(_first(name), found)]
    if open_:
        text = (
            f"right, but there is no gradient for {_quoted(open_)}, on which it depends. "
            f"If that is meant: @pb.inputs(wrt={[line.leaf.name for line in report.inputs]})"
        )
        return replace(outcome, status=UNKNOWN, text=text)
    caveat = found.caveat
    if not (caveat or is_given):
        caveat = caveat_of_variants(found, options, lambda *call: _checked(*call)[0])
    if caveat:
        text = f"right at these inputs; with {caveat.removesuffix('.')}. @pb.inputs(...) says which are meant"
        return replace(outcome, status=UNKNOWN, text=text)
    if not options.get("wrt") and (lost := _lost_outside(found)):
        return replace(outcome, status=UNKNOWN, text=lost)
    return replace(outcome, text=text)


def _wrong(
    outcome: Outcome, report: Report, found: Found, options: Mapping[str, Any], *, is_given: bool
) -> Outcome:
    """Wrong, unless the inputs that were made up may be to blame, or the rule is an approximation."""
    finding = report.findings[0]
    outcome = replace(outcome, status=WRONG, text=report.diagnosis, source=finding.source or "")
    if is_given:
        return outcome
    names = {line.leaf.path: line.leaf.name for line in report.inputs}
    wrt = [name for name in names.values() if not _may_be_held(name)]  # labels have no gradient
    if names.get(finding.path) not in wrt:
        wrt = list(
            names.values()
        )  # a gradient of labels that is there, and wrong, is no other input's affair
    caveat = caveat_of(report, found, {"wrt": wrt, **options}, lambda *call: _checked(*call)[0])
    return replace(outcome, status=UNKNOWN, text=caveat) if caveat else outcome


def _checked(found: Found, options: dict[str, Any]) -> tuple[Report, list[str]]:
    """The report, and the inputs for which a rule says that nothing flows, as it may for labels and settings."""
    guess, held = found.guess, list[str]()
    with progress.hidden():  # the command shows its own
        while True:
            report = check_gradient(found.function, *guess.args, kwargs=guess.kwargs, **options)
            finding = report.findings[0] if report.findings else None
            if finding is None or finding.kind not in _ABSENT or ("wrt" in options and not held):
                return report, held
            names = {line.leaf.path: line.leaf.name for line in report.inputs}
            name = names.get(finding.path, "")
            rest = [other for other in names.values() if other != name]
            if not name or not rest or not _may_be_held(name):
                return report, held
            held.append(name)
            options["wrt"] = rest


def _may_be_missed(name: str, found: Found) -> bool:
    """Whether a setting that has no gradient may well be meant to have one."""
    if found.guess.sources.get(name) == DEFAULT:
        return False
    return may_be_learnt(name) or says_tensor(inspect.getdoc(found.function) or "", name)


def _may_be_held(name: str) -> bool:
    return is_data(_first(name)) or is_setting(_first(name))


def _first(name: str) -> str:
    return name.partition("[")[0]


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
        and not any(value is arg for arg in found.guess.args) and not _may_be_held(name)
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
