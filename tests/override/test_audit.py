"""The audit: what matched, where, how it was reached, what had no effect."""

from typing import Any

import pytest
import tensorflow as tf

import pullback as pb
from tests.override.helpers import X, gradient, times_seven


def test_places_and_modes_of_a_run() -> None:
    function = tf.function(tf.nn.relu)
    changed = pb.override({"Relu": times_seven})
    with changed:
        gradient(tf.nn.relu)
        gradient(function)
        gradient(function)
        tf.nn.relu(tf.constant(X))
    (row,) = changed.audit.rows
    assert {m.mode: m.count for m in row.matches if m.recorded} == {
        "eager": 1,
        "traced": 1,
        "cached": 1,
    }
    assert (row.matched, row.effective) == (4, 3)
    assert all(
        "helpers.py" in (m.place.source or "") or "test_audit.py" in (m.place.source or "")
        for m in row.matches
    )


def test_a_rule_that_ran_is_counted_when_the_gradient_is_taken() -> None:
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with pb.override({"Relu": times_seven}) as changed:
            y = tf.nn.relu(x)
    assert (changed.audit.rows[0].effective, changed.audit.rows[0].ran) == (1, 0)
    tape.gradient(y, x)
    assert changed.audit.rows[0].ran == 1


def test_what_is_stopped_later_never_runs() -> None:
    with pb.override({"Relu": times_seven}) as changed:
        assert gradient(lambda x: tf.stop_gradient(tf.nn.relu(x)) + x) == [1.0] * 3
    assert (changed.audit.rows[0].matched, changed.audit.rows[0].ran) == (1, 0)


def test_no_effect_in_some_places_is_a_warning() -> None:
    @tf.custom_gradient
    def hides(x: Any) -> Any:
        return tf.sigmoid(x), lambda dy: dy

    words = "no effect in 1 places: it runs inside hides"
    with pytest.warns(UserWarning, match=words), pb.override({"Sigmoid": times_seven}) as changed:
        gradient(lambda x: hides(x) + tf.sigmoid(x))
    assert (changed.audit.rows[0].effective, changed.audit.rows[0].hidden) == (1, 1)


def test_many_matches_are_counted_without_places() -> None:
    with pb.override({"Relu": times_seven}) as changed:
        for _ in range(300):
            tf.nn.relu(tf.constant(X))
    (row,) = changed.audit.rows
    assert row.matched == 300
    assert len(row.matches) == 2


def test_an_audit_of_an_applied_override() -> None:
    changed = pb.override({"Relu": times_seven})
    function = changed(tf.nn.relu)
    gradient(function)
    assert changed.audit.rows[0].effective == 1
    assert "relu" in repr(function)
    assert repr(changed) == "<override of 'Relu': times_seven>"
