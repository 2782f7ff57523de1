"""The table of modes: what each does with plain TensorFlow, and what `pb.check` may ask for."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.engines.tensorflow.modes import MODES, SECOND_ORDER, Mode, total
from tests.modes import assert_gradients

X, Y = np.array([[0.5, -1.5, 2.0]]), np.array([3.0, 0.25, -2.0])
XS = [tf.constant(X, tf.float32), tf.constant(Y, tf.float32)]
EVERY = {**MODES, **SECOND_ORDER}


def product(x: Any, y: Any) -> Any:
    return x * y, {"count": tf.size(x), "sum": tf.reduce_sum(x)}


def half_stopped(x: Any, y: Any) -> Any:
    return x**2 * tf.stop_gradient(y)


@pytest.mark.parametrize("mode", MODES)
def test_the_gradient_of_the_sum_of_all_float_outputs(mode: str) -> None:
    assert_gradients(MODES[mode](product, XS), [Y[None] + 1.0, X[0]])


@pytest.mark.parametrize("mode", SECOND_ORDER)
def test_the_gradient_of_the_squared_gradient(mode: str) -> None:
    # The gradient is (y + 1, x); the sum of its squares has the gradient (2 x, 2 (y + 1)).
    assert_gradients(SECOND_ORDER[mode](product, XS), [2.0 * X, 2.0 * (Y + 1.0)])


@pytest.mark.parametrize("mode", EVERY)
def test_a_mode_says_whether_it_gives_none(mode: str) -> None:
    found = EVERY[mode](half_stopped, XS)[1]
    assert_gradients([found], [None if EVERY[mode].gives_none else 0.0 * Y])


@pytest.mark.parametrize("mode", [name for name, mode in MODES.items() if mode.takes_variables])
def test_variables_have_gradients_too(mode: str) -> None:
    variable = tf.Variable([2.0, 3.0, 4.0])
    found = MODES[mode].gradients(lambda x: x * variable, XS[:1], [variable])
    np.testing.assert_allclose(tf.convert_to_tensor(found[0]), [[2.0, 3.0, 4.0]])
    np.testing.assert_allclose(tf.convert_to_tensor(found[1]), X[0])


def test_a_check_takes_the_names_of_the_table() -> None:
    offered = {name for name, mode in MODES.items() if mode.check != "never"}
    usual = {name for name, mode in MODES.items() if mode.check == "by default"}
    assert set(pb.check(tf.sin, XS[0], modes="all").coverage.modes) == offered
    assert set(pb.check(tf.sin, XS[0]).coverage.modes) == usual
    for name in offered:
        assert pb.check(tf.sin, XS[0], modes=name, quick=True).coverage.modes == (name,)


def test_an_argument_that_is_a_variable_is_compared_in_modes() -> None:
    report = pb.check(
        lambda x, w: tf.sin(x) * w, XS[0], tf.Variable(Y, dtype=tf.float32), modes="all"
    )
    assert report.ok
    assert "vectorized_map: not run (it reads variables)" in report.coverage.notes


def test_integers_are_left_out_of_the_sum() -> None:
    assert float(total([tf.constant([1.0, 2.0]), tf.constant([7])])) == 3.0


def test_a_mode_is_data() -> None:
    assert isinstance(MODES["eager"], Mode)
    assert [name for name, mode in MODES.items() if mode.name != name] == []
