"""Set-up of the tests of the check: what it finds must not depend on how busy the machine is."""

import math

import pytest

from pullback.check import numbers


@pytest.fixture(autouse=True)
def all_the_time_it_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    """No picture or smaller input is left out for want of seconds."""
    monkeypatch.setattr(numbers, "SECONDS", math.inf)
