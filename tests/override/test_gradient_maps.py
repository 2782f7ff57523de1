"""Overrides and `tf.Graph.gradient_override_map`: the innermost decides, and what it calls `original` is the next."""

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import UnreachableOverride
from tests.override.helpers import X, gradient, tenfold, times_seven

Function = Callable[[Any], Any]


@tf.RegisterGradient("TestsMinus")
def minus(op: Any, dy: Any) -> Any:
    del op
    return -dy


def mapped(function: Function) -> Function:
    def run(x: Any) -> Any:
        graph = tf.compat.v1.get_default_graph()
        with graph.gradient_override_map({"Relu": "TestsMinus"}):
            return function(x)

    return run


def blocked(target: Any, rule: Any, function: Function, *, strict: bool = True) -> Function:
    def run(x: Any) -> Any:
        with pb.override({target: rule}, strict=strict):
            return function(x)

    return run


def in_version_1(function: Function) -> Any:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.constant(X)
        return session.run(tf.gradients(function(x), x)[0]).tolist()


def by_gradients(function: Function) -> Any:
    return tf.function(lambda x: tf.gradients(function(x), x)[0])(tf.constant(X)).numpy().tolist()


def tape_outside(function: Function) -> Any:
    return gradient(tf.function(function))


def tape_inside(function: Function) -> Any:
    def run(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x)

    return tf.function(run)(tf.constant(X)).numpy().tolist()


OBEYING = [in_version_1, by_gradients, tape_outside]
targets = pytest.mark.parametrize("target", ["Relu", tf.nn.relu])
modes = pytest.mark.parametrize("mode", OBEYING)


@modes
@targets
def test_the_original_of_a_block_inside_a_map_is_the_gradient_of_the_map(
    target: Any, mode: Any
) -> None:
    assert mode(mapped(blocked(target, tenfold, tf.nn.relu))) == [-10.0] * 3
    twice = blocked(target, tenfold, blocked(target, tenfold, tf.nn.relu))
    assert mode(mapped(twice)) == [-100.0] * 3


@modes
@targets
def test_a_map_inside_a_block_wins(target: Any, mode: Any) -> None:
    with pytest.raises(UnreachableOverride, match=r"given to it inside.*gradient_override_map"):
        mode(blocked(target, tenfold, mapped(tf.nn.relu)))
    with pytest.warns(UserWarning, match="gradient_override_map"):
        found = mode(blocked(target, tenfold, mapped(tf.nn.relu), strict=False))
    assert found == [-1.0] * 3
    with pytest.warns(UserWarning, match="gradient_override_map"):
        found = mode(mapped(blocked(target, tenfold, mapped(tf.nn.relu), strict=False)))
    assert found == [-1.0] * 3


@modes
@targets
def test_a_block_inside_a_map_inside_a_block(target: Any, mode: Any) -> None:
    inner = mapped(blocked(target, tenfold, tf.nn.relu))
    with pytest.warns(UserWarning, match="gradient_override_map"):
        found = mode(blocked(target, times_seven, inner, strict=False))
    assert found == [-10.0] * 3


@targets
def test_tapes_know_no_maps_so_the_next_rule_is_the_original_there(target: Any) -> None:
    plain = tape_inside(mapped(tf.nn.relu))
    assert plain == [1.0, 0.0, 1.0]  # TensorFlow's own: the map has no effect
    assert tape_inside(mapped(blocked(target, tenfold, tf.nn.relu))) == [10.0, 0.0, 10.0]
    assert tape_inside(blocked(target, tenfold, mapped(tf.nn.relu))) == [10.0, 0.0, 10.0]
    nested = blocked(target, times_seven, mapped(blocked(target, tenfold, tf.nn.relu)))
    assert tape_inside(nested) == [-70.0] * 3


def test_the_map_is_part_of_a_region() -> None:
    def function(x: Any) -> Any:
        return tf.nn.relu(x) * 2.0

    assert tape_outside(blocked(function, tenfold, mapped(lambda x: function(x)))) == [-20.0] * 3


def test_other_ops_are_not_concerned() -> None:
    def function(x: Any) -> Any:
        return mapped(tf.nn.relu)(x) + tf.nn.relu(x)

    with pytest.warns(UserWarning, match="no effect in one place"):
        assert tape_outside(blocked("Relu", tenfold, function)) == [9.0, -1.0, 9.0]


def test_a_concrete_function_with_a_map_inside() -> None:
    concrete = tf.function(mapped(tf.nn.relu)).get_concrete_function(tf.constant(X))
    with pytest.raises(UnreachableOverride, match=r"given to it inside.*gradient_override_map"):
        pb.override({"Relu": tenfold})(concrete)(tf.constant(X))
    assert gradient(concrete) == [-1.0] * 3
