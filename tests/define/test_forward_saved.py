"""Forward mode over functions loaded from files: the gradient that a file holds is checked as its rule would be."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from tests.define.orders import (
    FORWARD,
    LIMIT,
    NOT_LINEAR,
    REFUSED,
    REVERSE,
    Function,
    X,
    by_function,
    clipped,
    gradient,
    linear,
    square,
    tangent,
)


def saved(function: Function, folder: Path) -> str:
    module = tf.Module()
    module.run = tf.function(function, input_signature=[tf.TensorSpec([2])])
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
    tf.saved_model.save(module, str(folder), options=options)
    return str(folder)


def exported(rules: Any, function: Function, folder: Path) -> str:
    signed = tf.function(function, input_signature=[tf.TensorSpec([2])])
    pb.export(pb.override(rules)(signed), folder)
    return str(folder)


MADE: dict[str, Any] = {
    "defined": lambda rule, to: saved(pb.with_gradient(square, rule), to),
    "overridden op": lambda rule, to: exported({"Square": rule}, square, to),
    "overridden region": lambda rule, to: exported({square: rule}, by_function, to),
}
made = pytest.mark.parametrize("kind", MADE)


def loaded(folder: str) -> Function:
    module = tf.saved_model.load(folder)
    found = module.run if hasattr(module, "run") else module
    return lambda x: found(x)


@pytest.mark.parametrize("before", [None, "tape outside", "tape inside"])
@pytest.mark.parametrize("forward", FORWARD)
@made
def test_a_rule_that_is_not_linear_is_refused(
    kind: str, forward: str, before: str | None, tmp_path: Path
) -> None:
    function, x = loaded(MADE[kind](clipped, tmp_path)), tf.constant(X)
    if before:
        np.testing.assert_allclose(REVERSE[before](function, x), [4.0, LIMIT])
    with pytest.raises(REFUSED, match=NOT_LINEAR):
        FORWARD[forward](function, x)
    np.testing.assert_allclose(gradient(function, x), [4.0, LIMIT])


@pytest.mark.parametrize("forward", FORWARD)
@made
def test_a_linear_rule_is_transposed(kind: str, forward: str, tmp_path: Path) -> None:
    function = loaded(MADE[kind](linear, tmp_path))
    np.testing.assert_allclose(FORWARD[forward](function, tf.constant(X)), 2 * X)


def test_custom_gradients_of_others_are_left_alone(tmp_path: Path) -> None:
    @tf.custom_gradient
    def stranger(x):
        return x**2, lambda dy: tf.clip_by_value(dy * 2.0 * x, -LIMIT, LIMIT)

    np.testing.assert_allclose(tangent(loaded(saved(stranger, tmp_path)), tf.constant(X)), [4, 0])


LOADED_BEFORE = """
import sys
import tensorflow as tf
found = tf.saved_model.load(sys.argv[1])
import pullback as pb
pb.with_gradient(tf.square, tf.negative)
x = tf.constant([2.0, 3.0])
with tf.autodiff.ForwardAccumulator(x, tf.ones([2])) as accumulator:
    found.run(x)
"""


def test_files_loaded_before_pullback_are_checked_too(tmp_path: Path) -> None:
    folder = saved(pb.with_gradient(square, clipped), tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LOADED_BEFORE, folder], capture_output=True, text=True, check=False
    )
    assert NOT_LINEAR in done.stderr
