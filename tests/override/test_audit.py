"""The audit: what matched, where, how it was reached, what had no effect."""

import functools
from typing import Any

import keras
import pytest
import tensorflow as tf

import pullback as pb
from tests.override.helpers import SEVEN, X, gradient, tenfold, times_seven


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
    row = changed.audit.rows[0]
    assert (row.reachable, row.effective, row.ran) == (1, 0, 0)
    tape.gradient(y, x)
    row = changed.audit.rows[0]
    assert (row.reachable, row.effective, row.ran) == (1, 1, 1)


def test_what_is_stopped_later_never_runs() -> None:
    with pb.override({"Relu": times_seven}) as changed:
        assert gradient(lambda x: tf.stop_gradient(tf.nn.relu(x)) + x) == [1.0] * 3
    assert (changed.audit.rows[0].matched, changed.audit.rows[0].ran) == (1, 0)


def test_no_effect_in_some_places_is_a_warning() -> None:
    @tf.custom_gradient
    def hides(x: Any) -> Any:
        return tf.sigmoid(x), lambda dy: dy

    words = "no effect in one place: it runs inside hides"
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


def counted(rule: Any) -> tuple[Any, list[int]]:
    """The rule, and a list that grows by one each time it runs."""
    runs: list[int] = []

    @functools.wraps(rule)
    def counting(*args: Any, **kwargs: Any) -> Any:
        runs.append(1)
        return rule(*args, **kwargs)

    return counting, runs


def by_inputs(dy: Any, *, inputs: Any) -> Any:
    return dy * inputs[0]


def own(x: Any) -> Any:
    return tf.sin(x) * tf.cos(x)


DENSE = keras.layers.Dense(3, activation="relu")
DENSE.build((None, 3))
THRICE = {
    "op": ("Relu", tf.nn.relu),
    "one op": (tf.nn.relu, tf.nn.relu),
    "region": (tf.nn.gelu, tf.nn.gelu),
    "own": (own, own),
    "layer": (DENSE, lambda x: DENSE(x[None])[0]),
}


def thrice(function: Any) -> Any:
    return lambda x: function(function(function(x)))


@pytest.mark.parametrize("rule", [times_seven, tenfold, by_inputs])
@pytest.mark.parametrize("kind", THRICE)
def test_what_a_rule_ran_is_what_is_counted(kind: str, rule: Any) -> None:
    target, function = THRICE[kind]
    counting, runs = counted(rule)
    with pb.override({target: counting}) as changed:
        gradient(thrice(function))
        gradient(thrice(function))
    (row,) = changed.audit.rows
    assert (row.matched, row.ran, row.traced, len(runs)) == (6, 6, 0, 6)


@pytest.mark.parametrize("kind", THRICE)
def test_in_a_trace_a_rule_is_traced_and_does_not_run(kind: str) -> None:
    target, function = THRICE[kind]
    counting, runs = counted(times_seven)
    traced = tf.function(thrice(function))
    with pb.override({target: counting}) as changed:
        gradient(traced)
        gradient(traced)
    (row,) = changed.audit.rows
    assert (row.matched, row.ran, row.traced, len(runs)) == (6, 0, 3, 3)


def test_a_rule_in_a_branch_that_is_not_differentiated_is_not_counted() -> None:
    @tf.function
    def branching(x: Any) -> Any:
        y = tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.nn.relu(x), lambda: x)
        return tf.stop_gradient(y) + x

    with pb.override({"Relu": times_seven}) as changed:
        assert gradient(branching) == [1.0] * 3
    assert (changed.audit.rows[0].ran, changed.audit.rows[0].traced) == (0, 0)


class Narrow(keras.layers.Layer):
    def call(self, x: Any) -> Any:
        return tf.nn.softmax(tf.nn.gelu(x))


def test_labels_are_names_that_exist() -> None:
    targets = [tf.nn.softmax, tf.nn.gelu, keras.activations.relu, keras.ops.softplus, tf.stack]
    for target in targets:
        label = repr(pb.override({target: times_seven})).removeprefix("<override of ")
        assert eval(label.partition(":")[0], {"tf": tf, "keras": keras}) is target
    layer = Narrow()
    with pb.override({pb.inside(Narrow, tf.nn.softmax): times_seven}) as changed:
        gradient(layer)
    text = str(changed.audit)
    assert text.startswith("tf.nn.softmax inside ")
    assert "1 x eager tf.nn.softmax (function) in layer narrow" in text


def test_a_class_and_its_call_are_told_apart() -> None:
    layer = Narrow()
    with pb.override({Narrow.call: times_seven}):
        assert gradient(layer) == SEVEN
    with pb.override({Narrow: times_seven}):
        assert gradient(layer) == SEVEN


def test_the_audit_of_a_large_model_is_short() -> None:
    model = keras.Sequential([keras.Input((3,))])
    for i in range(40):
        model.add(keras.layers.Dense(3, activation="relu", name=f"block{i // 4}_dense{i % 4}"))
    with pb.override({tf.nn.relu: times_seven, "MatMul": tenfold}, strict=False) as changed:
        model(tf.constant([X]))
    assert len(str(changed.audit).splitlines()) == 4
    assert [len(row.matches) for row in changed.audit.rows] == [40, 40]
