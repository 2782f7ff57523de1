"""Ready-made rules in every mode, against numbers from mathematics; and what `pb.check` says of them."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import NotLinearError, UnsupportedError
from tests.modes import BACKWARD, FORWARD, MODES, assert_in_mode
from tests.rules.cases import CASES, NOT_LINEAR, Case, W, X, step

CASE = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
IN_XLA = [mode for mode in MODES if "XLA" in mode]


@pytest.mark.parametrize("mode", BACKWARD)
def test_same_gradient_in_every_mode(mode: str) -> None:
    """All rules as one function of as many arguments: one program per mode says as much as one for each."""
    cases = [*CASES, *NOT_LINEAR]

    def together(*xs: Any) -> list[Any]:
        return [case.weighted(x) for case, x in zip(cases, xs, strict=True)]

    xs = [tf.constant(X) for _ in cases]
    assert_in_mode(MODES[mode], together, xs, [np.array(case.gradient) for case in cases])


@CASE
@pytest.mark.parametrize("mode", FORWARD)
def test_forward_mode(case: Case, mode: str) -> None:
    assert_in_mode(MODES[mode], case.weighted, [tf.constant(X)], [np.array(case.gradient)])


@pytest.mark.parametrize("case", NOT_LINEAR, ids=lambda c: c.name)
def test_what_is_not_linear_has_no_forward_mode(case: Case) -> None:
    with pytest.raises((NotLinearError, tf.errors.InvalidArgumentError), match="not linear"):
        MODES["forward mode"](case.weighted, [tf.constant(X)])


@pytest.mark.parametrize("case", [c for c in CASES if c.against], ids=lambda c: c.name)
def test_check_finds_the_derivative_that_is_meant(case: Case) -> None:
    assert pb.check(case.fn, tf.constant(X), against=case.against, quick=True)


@pytest.mark.parametrize(
    "fn", [pb.with_gradient(step, pb.rules.surrogate("atan", 3.0)), pb.rules.scale(0.51)]
)
def test_check_finds_another_slope(fn: Any) -> None:
    half = pb.rules.surrogate("atan") if "step" in fn.__name__ else None
    meant = (lambda x: tf.atan(np.pi * x) / np.pi) if half else (lambda x: 0.5 * x)
    assert not pb.check(fn, tf.constant(X), against=meant, quick=True)


# Python cannot be called, and nothing raised, by a program that XLA has compiled.


@pytest.mark.parametrize("mode", [mode for mode in BACKWARD if mode not in IN_XLA])
def test_raise_on_nan_lets_numbers_through(mode: str) -> None:
    case = Case("raise on NaN", pb.rules.raise_on_nan, W)
    assert_in_mode(MODES[mode], case.weighted, [tf.constant(X)], [np.array(W)])


@pytest.mark.parametrize("mode", IN_XLA)
@pytest.mark.parametrize("name", ["tap", "raise_on_nan"])
def test_what_xla_cannot_do_says_what_to_do_instead(name: str, mode: str) -> None:
    rule = pb.rules.tap([].append) if name == "tap" else pb.rules.raise_on_nan
    with pytest.raises((UnsupportedError, tf.errors.OpError), match=f"pb.rules.{name} cannot"):
        MODES[mode](Case(name, rule, W).weighted, [tf.constant(X)])


VECTORISED = ("vectorized_map", "vectorized_map in tf.function", "jacobian")


@pytest.mark.parametrize("mode", [m for m in BACKWARD if m not in (*IN_XLA, *VECTORISED)])
def test_a_list_sees_what_flows(mode: str) -> None:
    seen: list[Any] = []
    case = Case("tap", pb.rules.tap(seen), W)
    assert_in_mode(MODES[mode], case.weighted, [tf.constant(X)], [np.array(W)])
    assert seen
    for _, value in seen:
        np.testing.assert_allclose(value, W)


@pytest.mark.parametrize("mode", [mode for mode in BACKWARD if mode not in VECTORISED])
def test_a_variable_keeps_the_length_of_what_flows(mode: str) -> None:
    length = tf.Variable(0.0, trainable=False)
    case = Case("tap", pb.rules.tap(length, of="norm"), W)
    assert_in_mode(MODES[mode], case.weighted, [tf.constant(X)], [np.array(W)])
    np.testing.assert_allclose(length, np.linalg.norm(W), rtol=1e-6)
