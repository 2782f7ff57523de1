"""The checks that one function is given: at its inputs, then with others, as long as there is time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pullback.check import Report, progress
from pullback.check import check as check_gradient
from pullback.cli.checking.outcome import Outcome
from pullback.cli.checking.reach import Found
from pullback.cli.guess.names import is_data, is_setting
from pullback.errors import CheckError

ABSENT = ("none", "detached")  # kinds of findings: the rule gives nothing for an input
_SECONDS = 9.0  # of CPU time, in which all checks of one function are to be done


class Checks:
    """Other inputs and settings than the first are tried where one more check, as long as the others, still fits."""

    def __init__(self) -> None:
        self._began = time.process_time()
        self._costs: list[float] = []
        self._was_short = False

    def has_time(self) -> bool:
        """Whether there is time for one more, which is remembered where there is none."""
        one_more = max(self._costs[1:] or self._costs, default=0.0)  # the first has a diagnosis
        is_short = time.process_time() - self._began + one_more > _SECONDS
        self._was_short = self._was_short or is_short
        return not is_short

    def checked(self, found: Found, options: Mapping[str, Any]) -> tuple[Report, list[str]]:
        """A report, and the inputs that it leaves out."""
        before = time.process_time()
        try:
            return _checked(found, dict(options))
        finally:
            self._costs.append(time.process_time() - before)

    def report(self, found: Found, options: dict[str, Any]) -> Report:
        """A report for other inputs or settings, or an error where there is no time."""
        if not self.has_time():
            raise CheckError("there is no time for one more check")
        return self.checked(found, options)[0]

    def told(self, outcome: Outcome) -> Outcome:
        """An outcome, with a word on what was not tried."""
        if not self._was_short:
            return outcome
        short = f"not all other inputs and settings were tried within {_SECONDS:g} s of CPU time"
        return replace(outcome, notes=(*outcome.notes, short))


def _checked(found: Found, options: dict[str, Any]) -> tuple[Report, list[str]]:
    """The report, and the inputs for which a rule says that nothing flows, as it may for labels and settings."""
    guess, held = found.guess, list[str]()
    with progress.hidden():  # the command shows its own
        while True:
            report = check_gradient(found.function, *guess.args, kwargs=guess.kwargs, **options)
            finding = report.findings[0] if report.findings else None
            if finding is None or finding.kind not in ABSENT or ("wrt" in options and not held):
                return report, held
            names = {line.leaf.path: line.leaf.name for line in report.inputs}
            name = names.get(finding.path, "")
            rest = [other for other in names.values() if other != name]
            if not name or not rest or not may_be_held(name):
                return report, held
            held.append(name)
            options["wrt"] = rest


def may_be_held(name: str) -> bool:
    """Whether a rule may give no gradient for an input: labels, masks, settings."""
    return is_data(first_name(name)) or is_setting(first_name(name))


def first_name(name: str) -> str:
    """The parameter of `params["w"]`."""
    return name.partition("[")[0]
