"""Every function in every mode, at ordinary points: value, gradient, second order, and what `pb.check` says."""

import numpy as np
import pytest

import pullback as pb
from tests.functions.cases import CASES, Case
from tests.modes import MODES, SECOND_ORDER, assert_gradients, assert_in_mode

CASE = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)


@CASE
def test_the_value_is_that_of_the_formula(case: Case) -> None:
    found = np.asarray(case.function(*case.tensors()))
    assert found.shape == case.value().shape
    np.testing.assert_allclose(found, case.value(), rtol=2e-6, atol=1e-7)


@CASE
@pytest.mark.parametrize("mode", MODES)
def test_same_gradient_in_every_mode(case: Case, mode: str) -> None:
    assert_in_mode(MODES[mode], case.function, case.tensors(), case.gradient())


@pytest.mark.parametrize("case", [c for c in CASES if c.second_order], ids=lambda c: c.name)
@pytest.mark.parametrize("mode", SECOND_ORDER)
def test_second_order(case: Case, mode: str) -> None:
    assert_gradients(SECOND_ORDER[mode](case.function, case.tensors()), case.second(), rtol=1e-4)


@CASE
def test_check_says_right(case: Case) -> None:
    report = pb.check(case.function, *case.tensors())
    assert report.verdict == "right", str(report)
