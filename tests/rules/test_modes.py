"""Ready-made rules in every mode, against numbers from mathematics; and what `pb.check` says of them."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import NotLinearError, UnsupportedError
from tests.modes import BACKWARD, FORWARD, MODES, assert_in_mode
from tests.rules.cases import CASES, NOT_LINEAR, Case, W, X, step

IN_XLA = [mode for mode in MODES if "XLA" in mode]


@pytest.mark.parametrize("mode", BACKWARD)
def test_same_gradient_in_every_mode(mode: str) -> None:
    """All rules as one function of as many rows: one program per mode says as much as one for each."""
    cases = [*CASES, *NOT_LINEAR]

    def together(rows: Any) -> list[Any]:
        return [
            case.weighted(x) for case, x in zip(cases, tf.unstack(rows, len(cases)), strict=True)
        ]

    wanted = np.array([case.gradient for case in cases])
    assert_in_mode(MODES[mode], together, [tf.constant([X] * len(cases))], [wanted])


@pytest.mark.parametrize("mode", FORWARD)
def test_forward_mode(mode: str) -> None:
    """All at one point: each has a factor of its own, so that what is wrong in two of them does not cancel."""
    factors = np.sqrt(np.arange(2, 2 + len(CASES)))

    def together(x: Any) -> Any:
        return sum(k * case.weighted(x) for k, case in zip(factors, CASES, strict=True))

    wanted = factors @ np.array([case.gradient for case in CASES])
    assert_in_mode(MODES[mode], together, [tf.constant(X)], [wanted])


@pytest.mark.parametrize("case", NOT_LINEAR, ids=lambda c: c.name)
def test_what_is_not_linear_has_no_forward_mode(case: Case) -> None:
    with pytest.raises((NotLinearError, tf.errors.InvalidArgumentError), match="not linear"):
        MODES["forward mode"](case.weighted, [tf.constant(X)])


@pytest.mark.parametrize("case", [c for c in CASES if c.against], ids=lambda c: c.name)
def test_check_finds_the_derivative_that_is_meant(case: Case) -> None:
    options = {"order": 1, "modes": "none", "explain": False}
    assert pb.check(case.fn, tf.constant(X), against=case.against, **options)


@pytest.mark.parametrize(
    "fn", [pb.with_gradient(step, pb.rules.surrogate("atan", 3.0)), pb.rules.scale(0.51)]
)
def test_check_finds_another_slope(fn: Any) -> None:
    half = pb.rules.surrogate("atan") if "step" in fn.__name__ else None
    meant = (lambda x: tf.atan(np.pi * x) / np.pi) if half else (lambda x: 0.5 * x)
    assert not pb.check(fn, tf.constant(X), against=meant, quick=True)


# Python cannot be called, and nothing raised, by a program that XLA has compiled.


@pytest.mark.parametrize("mode", IN_XLA)
@pytest.mark.parametrize("name", ["tap", "raise_on_nan"])
def test_what_xla_cannot_do_says_what_to_do_instead(name: str, mode: str) -> None:
    rule = pb.rules.tap([].append) if name == "tap" else pb.rules.raise_on_nan
    with pytest.raises((UnsupportedError, tf.errors.OpError), match=f"pb.rules.{name} cannot"):
        MODES[mode](Case(name, rule, W).weighted, [tf.constant(X)])


VECTORISED = ("vectorized_map", "vectorized_map in tf.function", "jacobian")


@pytest.mark.parametrize("mode", BACKWARD)
def test_what_flows_is_seen_and_let_through(mode: str) -> None:
    """By a variable, and where Python can be called by a list and by what raises; all of them in one program."""
    seen: list[Any] = []
    length = tf.Variable(0.0, trainable=False)
    in_python = () if mode in IN_XLA else (pb.rules.raise_on_nan, pb.rules.tap(seen))
    by_rows = mode in VECTORISED  # where many are seen at once, or twice
    rules = in_python[:1] if by_rows else (*in_python, pb.rules.tap(length, of="norm"))

    def through(x: Any) -> Any:
        for rule in rules:
            x = rule(x)
        return tf.reduce_sum(x * tf.constant(W))

    assert_in_mode(MODES[mode], through, [tf.constant(X)], [np.array(W)])
    assert bool(seen) is (len(rules) == 3)
    for _, value in seen:
        np.testing.assert_allclose(value, W)
    np.testing.assert_allclose(length, 0.0 if by_rows else np.linalg.norm(W), rtol=1e-6)
