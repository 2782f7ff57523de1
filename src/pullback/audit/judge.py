"""One function of a catalogue: its calls checked, what is found confirmed, and the worst of it."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from pullback.audit import results as r
from pullback.audit.catalogue import Case, Catalogue, NotCallable
from pullback.audit.confirm import opinion
from pullback.check import Report, check, progress
from pullback.check.budget import quick_checks_within
from pullback.check.report.data import Finding
from pullback.errors import PullbackError

_ENOUGH = 3  # faults of one function that are told apart by what is blamed and how
_BUDGET = 3.0  # seconds of CPU time for one function; what is left of its inputs is counted
_CALLS = 300  # of one check: ties and kinks, at which many inputs lie, take more than a quick look
_RANDOM = "random: it gives other numbers each time, and is not judged"


def judged(catalogue: Catalogue, name: str, *, careful: bool = False) -> r.Result:
    """What comes of one function; careful, without inputs that may end the process."""
    began = time.perf_counter()
    try:
        cases = catalogue.cases(name, careful=careful)
    except NotCallable as error:
        return r.Result(name, r.NOT_CALLED, str(error))
    trial = _Trial(catalogue)
    start, run = time.process_time(), 0
    for case in cases:
        if time.process_time() - start > _BUDGET:
            break
        trial.run(case)
        run += 1
    faults = sorted(trial.faults.values(), key=lambda f: list(r.MEANING).index(f.status))
    status = _overall(catalogue, name, faults, trial)
    reason = _reason(catalogue, name, status, trial.reasons)
    seconds = round(time.perf_counter() - began, 2)
    return r.Result(
        name=name,
        status=status,
        reason=reason,
        cases=run,
        left_out=len(cases) - run,
        calls=trial.calls,
        seconds=seconds,
        faults=tuple(faults),
        operations=trial.operations,
        aliases=tuple(catalogue.aliases(name)),
        mended=_mended(catalogue, name, faults),
    )


class _Trial:
    """The calls of one function, and what they brought to light."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self.faults: dict[tuple[str, str], r.Fault] = {}
        self.calls = self.decided = 0
        self.is_random = False
        self.reasons: list[str] = []
        self.operations: tuple[str, ...] = ()

    def run(self, case: Case) -> None:
        """Check one call, and the gradient of the gradient where that was asked for."""
        first = self._judge(case, second=False)
        if case.second and first:
            self._judge(case, second=True)

    def _judge(self, case: Case, *, second: bool) -> bool:
        """Whether the gradient is right, as far as can be told."""
        options: dict[str, Any] = {"quick": not case.thorough or second, "order": 1}
        report = self._report(case, second, {**options, "explain": False})
        if report is None:
            return False
        if not second:
            self.calls += report.calls
            self.decided += report.verdict != "undecided"
            self.reasons += report.coverage.reasons[:1]
        if report.verdict == "undecided" and not second:
            return self._is_a_number(case)
        if report.verdict != "wrong":
            return True
        finding = report.findings[0]
        key = (r.SECOND if second else _status(finding), finding.path)
        is_news = key not in self.faults or self.faults[key].status == r.UNCONFIRMED
        if is_news and len(self.faults) < _ENOUGH:
            wanted = case.explain and not self.faults
            explained = self._report(case, second, options) if wanted else None
            found = report.findings if explained is None else explained.findings
            fault = _fault(self._catalogue, case, found[0] if found else finding, second=second)
            if fault is None:
                self.decided -= not second
                self.is_random = True
                self.reasons.insert(0, _RANDOM)
                return False
            self.faults[key] = fault
            self.operations = self.operations or tuple(self._catalogue.operations(case))
        return False

    def _is_a_number(self, case: Case) -> bool:
        """Where slopes are infinite or do not exist, an infinite gradient may be right; NaN is not."""
        if not all(np.isfinite(x).all() for x in case.inputs.values()):
            return True
        fn, args = self._catalogue.function(case, second=True)
        try:
            found = [np.asarray(g) for g in fn(*args)]
        except Exception:
            return False
        if len(found) != len(case.inputs):
            return True
        bad = [name for name, g in zip(case.inputs, found, strict=True) if np.isnan(g).any()]
        if bad and not self.faults:
            self.faults[r.SINGULAR, bad[0]] = _not_a_number(self._catalogue, case, bad[0])
            self.operations = tuple(self._catalogue.operations(case))
        return not bad

    def _report(self, case: Case, second: bool, options: dict[str, Any]) -> Report | None:
        fn, args = self._catalogue.function(case, second=second)
        try:
            with progress.hidden(), quick_checks_within(_CALLS):
                return check(fn, *args, modes="none", **options)
        except PullbackError as error:
            self.reasons.append(str(error).splitlines()[0])
            return None


def _status(finding: Finding) -> str:
    if finding.kind in ("none", "raises"):
        return r.NONE
    return r.NAN if finding.kind == "nonfinite" else r.WRONG


def _fault(catalogue: Catalogue, case: Case, finding: Finding, *, second: bool) -> r.Fault | None:
    """A finding with the first program that bears it out; nothing of a function that is random."""
    places = {f"args[{k}]": name for k, name in enumerate(case.inputs)}
    words = finding.diagnosis.removesuffix(finding.remark)  # which is for authors of rules
    for place, name in places.items():
        words = words.replace(place, name)
    blamed = places.get(finding.path, "")
    path, ops = blamed or finding.path, finding.blamed
    told = r.Fault(r.UNCONFIRMED, case.what, words, case.call, path, wrong_ops=ops)
    programs = _programs(catalogue, case, finding, blamed, second) if blamed else ()
    for script, moved in programs:
        found = opinion(script, moved)
        if found.random:
            return None
        if found.confirmed:
            status = r.SECOND if second else r.NONE if found.missing else _status(finding)
            if found.missing and not second and finding.kind != "raises":
                told = replace(told, diagnosis=f"there is no gradient for `{blamed}`: None")
            kink = found.kink
            return replace(told, status=status, script=script, shown=found.shown, kink=kink)
        told = told if told.script else replace(told, script=script, shown=found.shown)
    return told


def _programs(
    catalogue: Catalogue, case: Case, finding: Finding, blamed: str, second: bool
) -> Iterator[tuple[str, str]]:
    """Programs, the plainest first, each with the name of what it moves."""
    for inputs in (_smallest(case, finding), case.inputs):
        at = replace(case, inputs=inputs)
        if second:
            yield catalogue.script(at, blamed, weighted=True, second=True), blamed
        else:
            yield catalogue.script(at, blamed), blamed
            yield catalogue.script(at, blamed, weighted=True), blamed
            yield catalogue.script(at, blamed, together=True), "move"


def _not_a_number(catalogue: Catalogue, case: Case, blamed: str) -> r.Fault:
    told = r.Fault(r.SINGULAR, case.what, r.MEANING[r.SINGULAR], case.call, blamed)
    script = catalogue.script(case, blamed)
    return replace(told, script=script, shown=opinion(script, blamed).shown)


def _smallest(case: Case, finding: Finding) -> dict[str, Any]:
    """The inputs of the finding, in the formats of the call."""
    given = case.inputs
    return {
        name: (
            finding.at[name].reshape(value.shape).astype(value.dtype)
            if name in finding.at
            else value
        )
        for name, value in given.items()
    }


def _mended(catalogue: Catalogue, name: str, faults: list[r.Fault]) -> str:
    """What is right where this is wrong; the functions of pullback are of real numbers."""
    real = any(f.status in r.FAULTS and "complex" not in f.what for f in faults)
    return catalogue.mended_by(name) if real else ""


def _overall(catalogue: Catalogue, name: str, faults: list[r.Fault], trial: _Trial) -> str:
    if (faults or trial.is_random) and catalogue.by_design(name):
        return r.DESIGN
    if faults:
        return r.worst(f.status for f in faults)
    return r.RIGHT if trial.decided else r.UNDECIDED


def _reason(catalogue: Catalogue, name: str, status: str, reasons: list[str]) -> str:
    if status == r.DESIGN:
        return catalogue.by_design(name)
    return reasons[0] if status == r.UNDECIDED and reasons else ""
