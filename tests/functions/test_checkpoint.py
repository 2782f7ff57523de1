"""`checkpoint`: what is replayed, what is kept, what it takes and refuses."""

import functools
import gc
import pickle
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import ArgumentError, RecomputationError, UnsupportedError

checkpoint = pb.functions.checkpoint
X = tf.constant([[0.5, -1.0, 2.0], [-0.25, 1.5, 0.75]])
W = tf.Variable([[0.5, -1.0, 2.0], [1.0, 0.5, -0.5], [-0.75, 0.25, 1.0]])

RUNS = {
    "eager": lambda step: step,
    "graph": tf.function,
    "XLA": lambda step: tf.function(step, jit_compile=True),
}
RUN = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)


def block(x: Any, training: Any = None, mask: Any = None, more: Any = None) -> Any:
    h = tf.tanh(tf.matmul(x, W))
    return h if more is None else {"a": h * more["scale"], "b": (h, None)}


def gradients(function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
    with tf.GradientTape() as tape:
        tape.watch(X)
        found = function(X, *args, **kwargs)
        leaves = [y for y in tf.nest.flatten(found) if y is not None]
        total = tf.add_n([tf.reduce_sum(tf.square(y)) for y in leaves])
    return tape.gradient(total, [X, W])


def assert_same(found: Any, wanted: Any) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-6)


@RUN
def test_variables_keywords_and_structures(run: Any) -> None:
    options = {"training": True, "mask": None, "more": {"scale": tf.constant(2.0)}}
    found = run(lambda: gradients(checkpoint(block), **options))()
    assert_same(found, gradients(block, **options))


class Layered:
    @checkpoint
    def method(self, x: Any) -> Any:
        return block(x)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Layered().method,
        lambda: checkpoint(lambda x: block(x)),
        lambda: checkpoint(tf.function(block)),
        lambda: checkpoint(policy="matmuls")(block),
        lambda: pickle.loads(pickle.dumps(checkpoint(block))),
    ],
    ids=["method", "lambda", "tf.function", "decorator with a policy", "pickled"],
)
@RUN
def test_anything_callable(make: Callable[[], Any], run: Any) -> None:
    assert_same(run(lambda: gradients(make()))(), gradients(block))


@RUN
def test_closed_over_tensors_have_their_gradient(run: Any) -> None:
    def closing(x: Any) -> Any:
        y = tf.sin(x)
        return checkpoint(lambda: block(y) * y)()

    def plain(x: Any) -> Any:
        return block(tf.sin(x)) * tf.sin(x)

    assert_same(run(lambda: gradients(closing))(), gradients(plain))


@RUN
@pytest.mark.parametrize(
    "policy", ["nothing", "matmuls", "everything", ["Tanh"], 16, lambda op: op.type == "Tanh"]
)
def test_policies_have_the_same_gradient(policy: Any, run: Any) -> None:
    assert_same(run(lambda: gradients(checkpoint(block, policy=policy)))(), gradients(block))


def test_a_policy_sees_operations() -> None:
    seen = []

    def keep(op: Any) -> bool:
        seen.append((op.type, op.shape, op.bytes))
        return False

    tf.function(checkpoint(block, policy=keep))(X)
    assert ("MatMul", (2, 3), 24) in seen
    assert ("Tanh", (2, 3), 24) in seen


def products_in(policy: Any) -> int:
    """The matrix products that a step of a graph needs."""

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = checkpoint(lambda v: tf.sin(tf.matmul(tf.exp(v), W)), policy=policy)(x)
        return tape.gradient(y, x)

    graph = step.get_concrete_function(X).graph
    needed, left = set(), [t.op for t in graph.outputs]
    while left:
        op = left.pop()
        if op not in needed:
            needed.add(op)
            left += [t.op for t in op.inputs]
    return sum(op.type == "MatMul" for op in needed)


def test_kept_products_are_not_computed_again() -> None:
    assert products_in("nothing") == 2  # the second run's, and the gradient's
    assert products_in("matmuls") == 2  # the first run's, and the gradient's
    assert products_in("everything") == 2


DROPOUTS: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "tf.nn": lambda: lambda x: tf.nn.dropout(x, 0.5),
    "keras": lambda: functools.partial(keras.layers.Dropout(0.5, seed=3), training=True),
    "normal": lambda: lambda x: x * tf.random.normal(tf.shape(x)),
    "shuffle": lambda: lambda x: x * tf.random.shuffle(tf.range(1.0, 4.0)),
}


@RUN
@pytest.mark.parametrize("name", DROPOUTS)
def test_random_numbers_are_replayed(name: str, run: Any) -> None:
    if name == "shuffle" and run is RUNS["XLA"]:
        name = "normal"  # XLA has no other
    noisy = checkpoint(DROPOUTS[name]())

    def step() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = noisy(X)
        return tape.gradient(y, X), y

    ran = run(step)
    gradient, y = ran()
    np.testing.assert_allclose(gradient * X, y, rtol=1e-6)  # each is linear in x
    assert any(np.abs(y - ran()[1]).max() > 0.01 for _ in range(12))  # and new in the next steps


@RUN
def test_statistics_are_written_once(run: Any) -> None:
    layer = keras.layers.BatchNormalization(momentum=0.9)
    layer.build((None, 3))

    def step() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = tf.reduce_sum(checkpoint(lambda x: layer(x, training=True) ** 3)(X))
        return tape.gradient(y, [X, layer.gamma.value])

    found = run(step)()
    np.testing.assert_allclose(layer.moving_mean, 0.1 * np.mean(X, 0), rtol=1e-5)
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = tf.reduce_sum(layer(X, training=True) ** 3)
    np.testing.assert_allclose(found[0], tape.gradient(y, X), rtol=1e-4, atol=1e-4)


def test_statistics_are_written_once_with_the_tape_outside() -> None:
    layer = keras.layers.BatchNormalization(momentum=0.9)
    layer.build((None, 3))
    run = tf.function(checkpoint(lambda x: layer(x, training=True) ** 3))
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = run(X)
    assert tape.gradient(y, X) is not None
    np.testing.assert_allclose(layer.moving_mean, 0.1 * np.mean(X, 0), rtol=1e-5)


def test_nothing_in_between_is_kept() -> None:
    seen: list[weakref.ref[Any]] = []

    def deep(x: Any) -> Any:
        for _ in range(5):
            x = tf.matmul(tf.sin(x), W)
            seen.append(weakref.ref(x))
        return x * 2.0

    with tf.GradientTape() as tape:
        tape.watch(X)
        y = checkpoint(deep)(X)
    gc.collect()
    assert sum(reference() is not None for reference in seen) == 0
    assert tape.gradient(y, X) is not None


@pytest.mark.parametrize("run", [lambda step: step, tf.function], ids=["eager", "graph"])
def test_a_second_run_that_differs_names_the_operation(run: Any) -> None:
    runs = []

    def fickle(x: Any) -> Any:
        runs.append(1)
        return tf.sin(x) if len(runs) % 2 else tf.cos(x)

    with pytest.raises(RecomputationError, match="was Sin in the first run, and found Cos"):
        run(lambda: gradients(checkpoint(fickle)))()


def test_random_numbers_in_a_loop_are_refused() -> None:
    @checkpoint
    def looped(x: Any) -> Any:
        return tf.while_loop(
            lambda i, _: i < 3, lambda i, y: (i + 1, tf.nn.dropout(y, 0.5)), (0, x)
        )[1]

    with pytest.raises(UnsupportedError, match=r"draws random numbers .* inside a tf.while_loop"):
        tf.function(lambda: gradients(looped))()


def test_a_traced_function_that_draws_is_refused() -> None:
    noisy = tf.function(lambda x: tf.nn.dropout(x, 0.5))
    noisy(X)  # from here on it is one operation
    with pytest.raises(UnsupportedError, match=r"RandomUniform.*python_function"):
        gradients(checkpoint(lambda x: noisy(x) * 1.0))


def test_inside_a_loop() -> None:
    def looped(step: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x: tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, step(y)), (0, x))[1]

    found = tf.function(lambda: gradients(looped(checkpoint(block))))()
    assert_same(found, gradients(looped(block)))


def test_bfloat16() -> None:
    def low(x: Any) -> Any:
        return tf.cast(
            tf.tanh(tf.matmul(tf.cast(x, tf.bfloat16), tf.cast(W, tf.bfloat16))), tf.float32
        )

    assert_same(gradients(checkpoint(low)), gradients(low))


def test_rewrapped_on_each_call_nothing_stays() -> None:
    def step() -> None:
        gradients(checkpoint(lambda x: block(x)))

    step()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(50):
        step()
    gc.collect()
    assert len(gc.get_objects()) - before < 200


LOAD = """
import sys, pathlib, keras, numpy as np, tensorflow as tf
import pullback.keras
folder = pathlib.Path(sys.argv[1])
model, x = keras.saving.load_model(folder / "model.keras"), np.load(folder / "x.npy")
with tf.GradientTape() as tape:
    y = model(x)
    loss = tf.reduce_sum(y)
np.save(folder / "y.npy", y)
np.save(folder / "g.npy", tape.gradient(loss, model.trainable_variables[0]))
assert type(model.layers[0]).__name__ == "Checkpoint"
"""


def test_a_keras_layer_that_saves(tmp_path: Path) -> None:
    inner = keras.layers.Dense(3, activation="gelu")
    model = keras.Sequential([keras.Input([3]), pb.keras.Checkpoint(inner), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(np.asarray(X), np.ones([2, 1], "f"), verbose="0")
    assert inner.kernel in model.trainable_variables or any(
        v is inner.kernel for v in model.trainable_variables
    )
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again(X), model(X), rtol=1e-6)
    # In a process that has imported nothing but Keras and pullback's layers.
    np.save(tmp_path / "x.npy", X)
    command = [sys.executable, "-c", LOAD, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), model(X), rtol=1e-6)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(X))
    np.testing.assert_allclose(np.load(tmp_path / "g.npy"), tape.gradient(loss, inner.kernel), 1e-5)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: checkpoint(3), "got 3; wanted something to call"),
        (lambda: checkpoint(block, policy="all"), "policy='all'.*'matmuls'"),
        (lambda: checkpoint(block, policy=-1), "policy=-1"),
        (lambda: checkpoint(block, policy=[3]), r"policy=\[3\]"),
        (lambda: checkpoint(block, policy=["Matmull"])(X), "no operation 'Matmull'.*'MatMul'"),
    ],
)
def test_an_error_says_what_is_wanted(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()


def test_results_in_bfloat16_are_compared_with_those_of_the_first_run() -> None:
    x = tf.cast([0.5, -1.0], tf.bfloat16)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = pb.functions.checkpoint(lambda x: tf.tanh(x) * x)(x)
    wide = np.array([0.5, -1.0])
    wanted = np.tanh(wide) + wide / np.cosh(wide) ** 2
    np.testing.assert_allclose(tf.cast(tape.gradient(y, x), tf.float32), wanted, rtol=0.02)
