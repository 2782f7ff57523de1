"""Programs of many kinds of code, traced or seen while they run, in two formats: gradients are those of the tape."""

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.engines.tensorflow.programs import PROGRAMS
from pullback.program.run import CALLS, EVERY, run_program
from pullback.program.sweep import Options, sweep

X, Y = tf.constant([0.3, -1.2, 0.7]), tf.constant([1.0, 2.0, 3.0])
M = tf.constant(np.random.default_rng(0).normal(size=(3, 4)), tf.float32)
S = tf.constant(np.random.default_rng(1).normal(size=(2, 3, 4)), tf.float32)
W = tf.Variable([1.0, 2.0, 3.0])
COUNT = tf.Variable(0.0, trainable=False)


@pb.custom_gradient
def ours(x, y):
    return tf.sin(x) * y, lambda dz: (2 * dz * tf.cos(x) * y, dz * tf.sin(x))


@tf.custom_gradient
def stock(x):
    e = tf.exp(x)  # which the result does not need
    return tf.sin(x), lambda dy: dy * e


@tf.custom_gradient
def with_variable(x):
    def grad(dy, variables=None):
        return 3 * dy * W, [dy * x for _ in variables]

    return x * W, grad


@tf.function(autograph=False)
def inner(x):
    return tf.sin(x) * x


def nested(x):
    return inner(inner(x) * 2.0) + tf.function(inner, autograph=False)(x)


def loop(x):
    return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * tf.sin(x)), (0, x))[1]


def case(x):
    branches = [lambda: x * 2, lambda: tf.exp(x), lambda: stock(x)]
    return tf.switch_case(tf.cast(x[2] * 4, tf.int32), branches)


def assigned(x):
    COUNT.assign_add(1.0)
    return x * COUNT


def indexed(x):
    """What arrives at the table is sparse."""
    return tf.gather(x, [0, 0, 2]) * tf.gather(W, [0, 1, 1])


def ragged(x):
    rows = tf.RaggedTensor.from_row_splits(x, [0, 2, 3])
    return tf.reduce_sum(rows * rows, axis=1)


def sparse(x):
    held = tf.SparseTensor([[0, 0], [1, 2], [2, 1]], x, [3, 3])
    return tf.sparse.sparse_dense_matmul(held, tf.ones([3, 2])) * tf.reduce_sum(x)


def straight_through(x):
    return x + tf.stop_gradient(tf.round(x) - x)


def model(*layers):
    return tf.keras.Sequential(layers)


DENSE = tf.keras.layers.Dense
NORMED = model(DENSE(4, activation="relu"), tf.keras.layers.BatchNormalization(), DENSE(2))
RECURRENT = tf.keras.layers.LSTM(3)
CASES = {
    "plain": (lambda x, y: tf.reduce_sum(tf.sin(x) * y), X, Y),
    "several results": (lambda x: [tf.sin(x), tf.math.top_k(x, 2).values, x[:1]], X),
    "ours": (ours, X, Y),
    "ours in a function": (tf.function(ours, autograph=False), X, Y),
    "stock": (stock, X),
    "stock in a function": (tf.function(stock, autograph=False), X),
    "stock in a cond": (lambda x: tf.cond(x[0] > 0, lambda: stock(x), lambda: x), X),
    "with a variable": (with_variable, X),
    "nested functions": (nested, X),
    "variable": (lambda x: x * W * W, X),
    "written variable": (assigned, X),
    "gather of a variable": (indexed, X),
    "cond": (lambda x: tf.cond(x[0] > 0, lambda: x * 2, lambda: x * 3), X),
    "case": (case, X),
    "loop": (loop, X),
    "map": (lambda x: tf.map_fn(lambda a: tf.sin(a) * a, x), X),
    "scan": (lambda x: tf.scan(lambda a, b: a * b, x), X),
    "XLA": (tf.function(lambda x: tf.tanh(x) * x, jit_compile=True), X),
    "stopped": (straight_through, X),
    "ragged": (ragged, X),
    "sparse": (sparse, X),
    "complex": (lambda x: tf.abs(tf.signal.fft(tf.complex(x, x * x))), X),
    "matrices": (lambda m: tf.linalg.svd(m, compute_uv=False), M),
    "NumPy": (lambda x: tf.numpy_function(np.sin, [x], tf.float32) * x, X),
    "recorded Python": (lambda x: tf.py_function(tf.sin, [x], x.dtype) * x, X),
    "model": (NORMED, M),
    "recurrent model": (RECURRENT, S),
    "checked function": (pb.functions.norm, X),
}


def leaves(result):
    return [tf.convert_to_tensor(t) for t in tf.nest.flatten(result, expand_composites=True)]


def by_tape(function, args):
    with tf.GradientTape() as tape:
        tape.watch(args)
        results = leaves(function(*args))
    return results, tape.gradient(results, args)


def assert_same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        assert (one is None) == (other is None)
        if other is not None:
            one, other = map(tf.convert_to_tensor, (one, other))
            np.testing.assert_allclose(one, other, 2e-5, 1e-6)


def starts(made):
    found = {}
    for number, value in zip(made.outputs, made.results, strict=True):
        if value.dtype.is_floating or value.dtype.is_complex:
            found.setdefault(number, []).append(tf.ones_like(value))
    return found


@pytest.mark.parametrize("dtype", ["", "float64"])
@pytest.mark.parametrize("seen", [False, True], ids=["traced", "seen"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_the_tape(name, seen, dtype):
    function, *args = CASES[name]
    program = PROGRAMS.trace(function, args, seen=seen)
    before, count = W.numpy(), COUNT.numpy()
    made = run_program(PROGRAMS, program, args, dtype=dtype)
    gradients = sweep(made, starts(made), made.inputs[: len(args)])
    np.testing.assert_array_equal(W, before)
    np.testing.assert_array_equal(COUNT, count)
    COUNT.assign(count - seen * 1.0)  # what was seen while it ran has counted
    if name == "written variable":
        COUNT.assign(count)
    values, wanted = by_tape(function, args)
    if dtype and name not in ("NumPy", "recorded Python"):
        floating = [y for y in made.results if y.dtype.is_floating]
        assert all(y.dtype == tf.float64 for y in floating)
    assert_same(made.results, values)
    assert_same(gradients, wanted)


@pytest.mark.parametrize("name", ["loop", "cond", "case", "map", "scan", "nested functions"])
def test_loops_and_branches_may_be_single_events(name):
    function, *args = CASES[name]
    program = PROGRAMS.trace(function, args)
    made = run_program(PROGRAMS, program, args, entered=CALLS)
    gradients = sweep(made, starts(made), made.inputs[: len(args)])
    values, wanted = by_tape(function, args)
    assert_same(made.results, values)
    assert_same(gradients, wanted)
    assert len(made.events) <= len(run_program(PROGRAMS, program, args, entered=EVERY).events)


@pytest.mark.parametrize("seen", [False, True], ids=["traced", "seen"])
def test_a_functions_own_derivative_leaves_custom_gradients_out(seen):
    made = run_program(PROGRAMS, PROGRAMS.trace(ours, [X, Y], seen=seen), [X, Y])
    found = sweep(made, starts(made), made.inputs[:2], Options(own=False))
    assert_same(found, [tf.cos(X) * Y, tf.sin(X)])
    made = run_program(PROGRAMS, PROGRAMS.trace(straight_through, [X], seen=seen), [X])
    assert_same(
        sweep(made, starts(made), made.inputs[:1], Options(stops=False)), [tf.zeros_like(X)]
    )


@pytest.mark.parametrize("seen", [False, True], ids=["traced", "seen"])
def test_lines_are_those_of_the_user(seen):
    program = PROGRAMS.trace(CASES["gather of a variable"][0], [X], seen=seen)
    lines = {node.place.code for node in program.nodes if node.place}
    assert lines == {"return tf.gather(x, [0, 0, 2]) * tf.gather(W, [0, 1, 1])"}


def test_what_numpy_decides_is_seen_only():
    def decides(x):
        return x * 2 if np.sum(x) > 0 else x * 3

    assert_same(
        run_program(PROGRAMS, PROGRAMS.trace(decides, [X], seen=True), [X]).results, [3 * X]
    )
