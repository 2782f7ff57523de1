"""Every function in every mode, at ordinary points: value, gradient, second order, and what `pb.check` says."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.errors import UnsupportedError
from tests.functions.cases import CASES, Case
from tests.modes import (
    BACKWARD,
    BY_TAPES,
    FORWARD,
    MODES,
    SECOND_ORDER,
    assert_gradients,
    assert_in_mode,
)

CASE = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)


@CASE
def test_the_value_is_that_of_the_formula(case: Case) -> None:
    found = np.asarray(case.function(*case.tensors()))
    assert found.shape == case.value().shape
    np.testing.assert_allclose(found, case.value(), rtol=2e-6, atol=1e-7)


@dataclass(frozen=True)
class Together:
    """Cases as one function of all of their arguments: one program per mode says as much as one for each."""

    cases: list[Case]

    def function(self, *xs: Any) -> list[Any]:
        left = list(xs)
        return [case.function(*[left.pop(0) for _ in case.at]) for case in self.cases]

    def tensors(self) -> list[Any]:
        return [x for case in self.cases for x in case.tensors()]


GROUPS = pytest.mark.parametrize("start", range(0, len(CASES), 9))


@GROUPS
@pytest.mark.parametrize("mode", BACKWARD)
def test_same_gradient_in_every_mode(start: int, mode: str) -> None:
    group = Together(CASES[start : start + 9])
    wanted = [g for case in group.cases for g in case.gradient()]
    assert_in_mode(MODES[mode], group.function, group.tensors(), wanted)


@CASE
@pytest.mark.parametrize("mode", FORWARD)
def test_forward_mode(case: Case, mode: str) -> None:
    if mode in case.refused_in:
        with pytest.raises(UnsupportedError, match="eigenvalues are equal"):
            MODES[mode](case.function, case.tensors())
    else:
        assert_in_mode(MODES[mode], case.function, case.tensors(), case.gradient())


@GROUPS
@pytest.mark.parametrize("mode", BY_TAPES)
def test_second_order(start: int, mode: str) -> None:
    group = Together([case for case in CASES[start : start + 9] if case.second_order])
    wanted = [g for case in group.cases for g in case.second()]
    assert_gradients(SECOND_ORDER[mode](group.function, group.tensors()), wanted, rtol=1e-4)


@CASE
def test_check_says_right(case: Case) -> None:
    report = pb.check(case.function, *case.tensors(), domain=case.domain)
    assert report.verdict == "right", str(report)
