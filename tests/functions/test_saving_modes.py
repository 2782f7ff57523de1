"""The functions that save memory or time in every mode: value, gradient, second order, and what `pb.check` says."""

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.engines.tensorflow.modes import push_forward
from tests.functions.cases import Case
from tests.functions.saving_cases import CASES
from tests.functions.test_modes import Together
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
    np.testing.assert_allclose(found, case.value(), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("mode", BACKWARD)
def test_same_gradient_in_every_mode(mode: str) -> None:
    group = Together(CASES)
    wanted = [g for case in group.cases for g in case.gradient()]
    assert_in_mode(MODES[mode], group.function, group.tensors(), wanted)


@pytest.mark.parametrize("mode", FORWARD)
def test_forward_mode(mode: str) -> None:
    """Tangents of all arguments at once, in a direction that no entry shares with another."""
    group, random = Together(CASES), np.random.default_rng(0)
    xs = group.tensors()
    along = [tf.constant(random.normal(size=x.shape), x.dtype) for x in xs]
    found = push_forward(MODES[mode].run(group.function), xs, xs, along)
    left = iter(along)
    for case, tangent in zip(CASES, found, strict=True):
        wanted = sum(np.sum(g * next(left).numpy()) for g in case.gradient())
        np.testing.assert_allclose(np.sum(tangent), float(wanted), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("mode", BY_TAPES)
def test_second_order(mode: str) -> None:
    group = Together(CASES)
    wanted = [g for case in group.cases for g in case.second()]
    assert_gradients(SECOND_ORDER[mode](group.function, group.tensors()), wanted, rtol=1e-4)


@CASE
def test_second_order_by_tangents(case: Case) -> None:
    """A tape around an accumulator that is gone by then, and accumulators in each other: along the gradient."""
    xs, along = case.tensors(), [tf.constant(g, tf.float32) for g in case.gradient()]
    wanted = [second / 2 for second in case.second()]
    with tf.GradientTape() as tape:
        tape.watch(xs)
        tangent = push_forward(case.function, xs, xs, along)
    assert_gradients([g.numpy() for g in tape.gradient(tangent, xs)], wanted, rtol=1e-4)
    twice = push_forward(
        lambda *at: push_forward(case.function, at, list(at), along), xs, xs, along
    )
    both = sum(float(np.sum(w * d.numpy())) for w, d in zip(wanted, along, strict=True))
    np.testing.assert_allclose(np.sum(twice), both, rtol=1e-4, atol=1e-5)


@CASE
def test_check_says_right(case: Case) -> None:
    report = pb.check(case.function, *case.tensors())
    assert report.verdict == "right", str(report)
