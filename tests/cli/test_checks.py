"""What one function may cost: other inputs are tried as long as there is time."""

import pytest

from pullback.cli.checking import checks
from pullback.cli.checking.checks import Checks
from pullback.cli.checking.outcome import Item, Outcome
from pullback.errors import CheckError

WRONG = Outcome(Item("f"), "wrong", "2× too large")


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(checks.time, "process_time", lambda: now[0])
    return now


def spending(monkeypatch, clock, seconds):
    def checked(found, options):
        clock[0] += seconds
        return found, []

    monkeypatch.setattr(checks, "_checked", checked)


def test_one_more_check_is_made_where_it_fits(monkeypatch, clock):
    several = Checks()
    spending(monkeypatch, clock, 4.0)
    several.checked("first", {})
    assert several.report("second", {}) == "second"
    with pytest.raises(CheckError, match="there is no time"):
        several.report("third", {})
    assert several.told(WRONG).notes == (
        "not all other inputs and settings were tried within 9 s of CPU time",
    )


def test_a_first_one_with_a_long_diagnosis_does_not_count_for_those_after_it(monkeypatch, clock):
    several = Checks()
    spending(monkeypatch, clock, 4.0)
    several.checked("first", {})
    spending(monkeypatch, clock, 0.1)
    assert [several.report(k, {}) for k in range(40)] == list(range(40))
    assert several.told(WRONG) is WRONG
