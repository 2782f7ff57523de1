"""`checkpoint`: generators, variables that change before the gradient, and second runs that come to other values."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import RecomputationError

checkpoint = pb.functions.checkpoint
X = tf.constant([[0.5, -1.0, 2.0], [-0.25, 1.5, 0.75]])
RUNS: dict[str, Callable[..., Any]] = {
    "eager": lambda step: step,
    "graph": tf.function,
    "XLA": lambda step: tf.function(step, jit_compile=True),
}
RUN = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)


def stepped(function: Callable[[Any], Any]) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = function(X)
    return y, tape.gradient(y, X)


GENERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "normal": lambda generator, x: x * generator.normal([2, 3]),
    "uniform": lambda generator, x: x * generator.uniform([2, 3]),
    "skip": lambda generator, x: (generator.skip(5), x * generator.normal([2, 3]))[1],
    "two": lambda generator, x: x * generator.normal([3]) + x * generator.normal([3]),
}


@RUN
@pytest.mark.parametrize("draw", GENERATORS.values(), ids=GENERATORS)
def test_a_generator_draws_once(draw: Callable[[Any, Any], Any], run: Any) -> None:
    used, other = (tf.random.Generator.from_seed(7) for _ in range(2))
    ran = run(lambda: stepped(checkpoint(lambda x: draw(used, x))))
    plain = run(lambda: draw(other, X))
    for _ in range(2):
        y, gradient = ran()
        wanted = plain()  # the same numbers, and the same again in the next step
        np.testing.assert_allclose(y, wanted, rtol=1e-5)
        np.testing.assert_allclose(gradient * X, wanted, rtol=1e-5)
        np.testing.assert_array_equal(used.state, other.state)


def binomial(generator: Any) -> Any:
    counts, chances = tf.constant([9.0, 9.0, 9.0]), tf.constant([0.5, 0.5, 0.5])
    return generator.binomial(tf.constant([3]), counts, chances, dtype=tf.float32)


@pytest.mark.parametrize("run", [RUNS["eager"], RUNS["graph"]], ids=["eager", "graph"])
def test_an_operation_with_a_state_draws_once(run: Any) -> None:
    used, other = (tf.random.Generator.from_seed(7) for _ in range(2))
    ran = run(lambda: stepped(checkpoint(lambda x: x * binomial(used))))
    for _ in range(2):
        y, gradient = ran()
        wanted = X * binomial(other)
        np.testing.assert_allclose(y, wanted, rtol=1e-5)
        np.testing.assert_allclose(gradient * X, wanted, rtol=1e-5)
        np.testing.assert_array_equal(used.state, other.state)


def test_a_generator_draws_once_with_the_tape_outside() -> None:
    used, other = (tf.random.Generator.from_seed(7) for _ in range(2))
    run = tf.function(checkpoint(lambda x: x * used.normal([2, 3]) * binomial(used)))
    y, gradient = stepped(run)
    np.testing.assert_allclose(gradient * X, y, rtol=1e-5)
    wanted = X * other.normal([2, 3]) * binomial(other)
    np.testing.assert_allclose(y, wanted, rtol=1e-5)
    np.testing.assert_array_equal(used.state, other.state)


@RUN
def test_checkpoints_in_checkpoints_draw_the_same(run: Any) -> None:
    inner = checkpoint(lambda x: tf.nn.dropout(x, 0.5))
    outer = checkpoint(lambda x: inner(tf.nn.dropout(x, 0.3)) * 2.0)
    y, gradient = run(lambda: stepped(outer))()
    np.testing.assert_allclose(gradient * X, y, rtol=1e-6)


def counted(x: Any, runs: list[int]) -> Any:
    runs.append(1)
    return x * float(len(runs))


CHANGING: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "counter": lambda: lambda x, runs=[]: counted(x, runs),
    "NumPy": lambda: lambda x: x * np.random.normal(size=[2, 3]).astype("f"),
    "permutation": lambda: lambda x, turns=[0]: tf.gather(x, turning(turns), axis=1),
}


def turning(turns: list[int]) -> Any:
    turns[0] += 1
    return np.roll([0, 1, 2], turns[0])


@RUN
@pytest.mark.parametrize("make", CHANGING.values(), ids=CHANGING)
def test_other_values_in_the_second_run_are_refused(make: Any, run: Any) -> None:
    with pytest.raises(RecomputationError, match=r"other values|another constant"):
        run(lambda: stepped(checkpoint(make())))()


@RUN
def test_the_same_values_are_accepted(run: Any) -> None:
    noise = np.array([[np.nan, np.inf, 3.0], [1e30, -2.0, 0.0]], "f")
    y, gradient = run(lambda: stepped(checkpoint(lambda x: x * noise)))()
    np.testing.assert_array_equal(gradient, noise)
    np.testing.assert_array_equal(y, X * noise)


WRITTEN = {
    "assign": lambda w: w.assign([5.0, 5.0, 5.0]),
    "assign_add": lambda w: w.assign_add([5.0, 5.0, 5.0]),
    "scatter": lambda w: w.scatter_nd_update([[1]], [5.0]),
}


@RUN
@pytest.mark.parametrize("write", WRITTEN.values(), ids=WRITTEN)
def test_a_variable_that_changes_before_the_gradient(write: Any, run: Any) -> None:
    w = tf.Variable([2.0, 3.0, -1.0])

    def step() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = checkpoint(lambda x: tf.sin(x * w) * w)(X)
        write(w)
        return tape.gradient(y, [X, w])

    old, x = np.array([2.0, 3.0, -1.0]), X.numpy().astype(float)
    to_x, to_w = run(step)()
    np.testing.assert_allclose(to_x, np.cos(x * old) * old**2, rtol=1e-5)
    wanted = np.sum(np.sin(x * old) + x * old * np.cos(x * old), 0)
    np.testing.assert_allclose(to_w, wanted, rtol=1e-5)


@pytest.mark.parametrize("jit", [False, True], ids=["graph", "XLA"])
def test_a_variable_that_changes_after_a_traced_function(jit: bool) -> None:
    w = tf.Variable(2.0)
    run = tf.function(checkpoint(lambda x: tf.sin(x * w)), jit_compile=jit)
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = run(X)
    w.assign(5.0)
    np.testing.assert_allclose(tape.gradient(y, X), 2.0 * np.cos(2.0 * X), rtol=1e-5)


def test_a_table_that_changes_before_the_gradient_is_refused() -> None:
    table = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        y = checkpoint(lambda ids: tf.gather(table, ids) ** 2)(tf.constant([0, 1]))
    table.assign_add(tf.ones([2, 2]))
    with pytest.raises(RecomputationError, match="came to other values"):
        tape.gradient(y, table)


@pytest.mark.parametrize("jit", [False, True], ids=["graph", "XLA"])
def test_a_table_that_changes_in_a_graph(jit: bool) -> None:
    table = tf.Variable([[1.0, 2.0], [3.0, 4.0]])

    @tf.function(jit_compile=jit)
    def step() -> Any:
        with tf.GradientTape() as tape:
            y = checkpoint(lambda ids: tf.gather(table, ids) ** 2)(tf.constant([0, 1]))
        table.assign_add(tf.ones([2, 2]))
        return tf.convert_to_tensor(tape.gradient(y, table))

    np.testing.assert_allclose(step(), [[2.0, 4.0], [6.0, 8.0]])
