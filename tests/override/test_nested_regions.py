"""Regions inside regions: every rule runs once for each backward pass, and all of them are listed."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

X = tf.constant(np.random.default_rng(0).normal(size=(2, 3)), tf.float32)
KERNEL = tf.Variable(np.random.default_rng(1).normal(size=(3, 3)), dtype=tf.float32)


class Around(keras.Layer):
    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def call(self, x: Any) -> Any:
        return 2.0 * self.inner(x)


def innermost(x: Any) -> Any:
    return tf.matmul(x, KERNEL)


def middle(x: Any) -> Any:
    return 2.0 * innermost(x)


def outermost(x: Any) -> Any:
    return 2.0 * middle(x)


def counting(runs: Counter[str], name: str, reads: bool) -> Callable[..., Any]:
    def plain(dy: Any, *, original: Any) -> Any:
        runs[name] += 1
        return original(dy)

    def with_variables(dy: Any, *, original: Any, variables: Any) -> Any:
        del variables
        runs[name] += 1
        return original(dy)

    return with_variables if reads else plain


def of_functions(runs: Counter[str], reads: bool) -> Any:
    rules = {f: counting(runs, f.__name__, reads) for f in (innermost, middle, outermost)}
    return pb.override(rules)(outermost), KERNEL


def of_layers(runs: Counter[str], reads: bool) -> Any:
    dense = keras.layers.Dense(3, use_bias=False)
    inside = Around(dense)
    around = Around(inside)
    around(X)
    dense.kernel.assign(KERNEL)
    named = {"dense": dense, "inside": inside, "around": around}
    rules = {layer: counting(runs, name, reads) for name, layer in named.items()}
    return pb.override(rules)(around), dense.kernel.value


def of_one_layer(runs: Counter[str], reads: bool) -> Any:
    dense = keras.layers.Dense(3, use_bias=False)
    dense(X)
    dense.kernel.assign(KERNEL)
    changed: Any = dense
    for name in ("innermost", "middle", "outermost"):
        changed = pb.override({dense: counting(runs, name, reads)})(changed)
    return lambda x: 4.0 * changed(x), dense.kernel.value


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("make", [of_functions, of_layers, of_one_layer])
def test_each_rule_runs_once(make: Callable[..., Any], reads: bool, traced: bool) -> None:
    runs: Counter[str] = Counter()
    changed, kernel = make(runs, reads)

    def step() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = changed(X)
        return tape.gradient(y, [X, kernel])

    dx, dw = (tf.function(step) if traced else step)()
    x, w, ones = X.numpy().astype("d"), KERNEL.numpy().astype("d"), np.ones((2, 3))
    np.testing.assert_allclose(dx, 4 * ones @ w.T, rtol=1e-5)
    np.testing.assert_allclose(dw, 4 * x.T @ ones, rtol=1e-5)
    assert sorted(runs.values()) == [1, 1, 1]


@pytest.mark.parametrize("traced", [False, True])
def test_weights_keep_their_gradient_where_a_rule_asks_for_that_of_another_upstream(
    traced: bool,
) -> None:
    def tripled(dy: Any, *, original: Any) -> Any:
        return original(3.0 * dy)

    def step() -> Any:
        with tf.GradientTape() as tape, pb.override({innermost: tripled}):
            tape.watch(X)
            y = innermost(X)
        return tape.gradient(y, [X, KERNEL])

    dx, dw = (tf.function(step) if traced else step)()
    ones = np.ones((2, 3))
    np.testing.assert_allclose(dx, 3 * ones @ KERNEL.numpy().T, rtol=1e-5)
    np.testing.assert_allclose(dw, X.numpy().T @ ones, rtol=1e-5)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("rule", [pb.rules.scale(2.0), lambda dy, *, inputs: inputs[0][:, :3]])
def test_adjacent_overridden_layers_are_all_listed(rule: Any, traced: bool) -> None:
    layers = [keras.layers.Dense(3, name=f"layer_{i}") for i in range(3)]
    model = keras.Sequential([keras.Input((3,)), *layers])
    changed = pb.override({keras.layers.Dense: rule})(model)
    found = pb.targets(tf.function(changed) if traced else changed, X)
    assert {row.expression: row.count for row in found}["keras.layers.Dense"] == 3
