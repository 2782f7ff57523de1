"""The custom gradients of a target, and what comes of checking each."""

from typing import Any, NamedTuple

from pullback.check import Report, progress
from pullback.check import check as check_gradient
from pullback.cli.discover import Candidate, bound, candidates
from pullback.cli.inputs import NAME, Call, given, tried
from pullback.cli.target import load, why_not
from pullback.errors import CheckError


class Outcome(NamedTuple):
    """A report, and whether its arguments were guessed; without a report, the reason."""

    report: Report | None
    guessed: bool = False
    reason: str = ""


class NotLoaded(Exception):
    """A target cannot be loaded, or holds nothing to check; the text says why."""


class Here:
    """Checks in this process."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._found: list[Candidate] = []

    def names(self) -> list[str]:
        """Load the target; the names of what is to be checked."""
        try:
            self._module, only = load(self._target)
            self._found = candidates(self._module, only)
        except (Exception, SystemExit) as error:
            raise NotLoaded(f"cannot be loaded: {why_not(error, self._target)}") from error
        return [one.name for one in self._found]

    def outcome(self, index: int, options: dict[str, Any]) -> Outcome:
        """The report for the first arguments with which the function runs, or what it needs."""
        one = self._found[index]
        if one.function is None:
            missing = f"{NAME} names it, but {self._module.__name__} has no such function"
            return Outcome(None, reason=missing)
        origin = f"with what {NAME} gives: "
        try:
            call = given(self._module, one.name)
            if call is not None:
                return Outcome(_report(one, call, options))
            origin = ""
            return _by_trying(bound(one), options)
        except CheckError as error:
            return Outcome(None, reason=f"{origin}{error}")
        except (Exception, SystemExit) as error:
            reason = f"could not be checked: {type(error).__name__}: {error}"
            return Outcome(None, reason=reason)

    def close(self) -> None:
        """Nothing to close."""


def _report(one: Candidate, call: Call, options: dict[str, Any]) -> Report:
    """A method gets its instance from the inputs, or from its class."""
    args, kwargs = call
    if one.owner is not None and not (args and isinstance(args[0], one.owner)):
        one = bound(one)
    with progress.hidden():  # the command shows its own
        return check_gradient(one.function, *args, kwargs=kwargs, **options)


def _by_trying(one: Candidate, options: dict[str, Any]) -> Outcome:
    reason = None
    for call in tried(one.function):
        try:
            return Outcome(_report(one, call, options), guessed=True)
        except CheckError as error:
            if isinstance(error.__cause__, SystemExit):
                raise  # no arguments will do
            reason = reason or str(error)
    needs = f"needs inputs: write {NAME} = {{{one.name!r}: (...)}} beside it. First try: {reason}"
    return Outcome(None, reason=needs)
