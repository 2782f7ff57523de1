"""Programs of many kinds of code, traced or seen while they run, in two formats: gradients are those of the tape."""

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.engines.tensorflow.programs import PROGRAMS, loops
from pullback.program.run import ALL_BUT_LOOPS, CALLS, EVERY, run_program
from pullback.program.sweep import Options, sweep

X, Y = tf.constant([0.3, -1.2, 0.7]), tf.constant([1.0, 2.0, 3.0])
M = tf.constant(np.random.default_rng(0).normal(size=(3, 4)), tf.float32)
S = tf.constant(np.random.default_rng(1).normal(size=(2, 3, 4)), tf.float32)
LOGITS = tf.constant(np.random.default_rng(2).normal(size=(2, 6, 4)), tf.float32)
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


def aligned(x):
    """TensorFlow has this loss as a definition that calls others, with loops in it."""
    labels, lengths = tf.constant([[1, 2, 1], [2, 2, 1]]), [3, 3]
    return tf.nn.ctc_loss(labels, x, lengths, [6, 6], logits_time_major=False, blank_index=0)


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
    "alignment": (aligned, LOGITS),
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


def tensors_in_lists(x):
    """A list that is read and one that is written; the state is read once more after the loop."""
    read = tf.TensorArray(x.dtype, 3).unstack(x)

    def body(i, state, written):
        state = 0.9 * state + tf.sin(read.read(i))
        return i + 1, state, written.write(i, state * x[0])

    start = (0, 0.5, tf.TensorArray(x.dtype, 3))
    _, state, written = tf.while_loop(lambda i, *_: i < 3, body, start)
    return written.stack() * state


def loop_in_loop(x):
    def body(i, a):
        inner = tf.while_loop(lambda j, _: j <= i, lambda j, b: (j + 1, tf.sin(b) * x), (0, a))
        return i + 1, inner[1] + a

    return tf.while_loop(lambda i, _: i < 3, body, (0, x))[1]


def list_in_loop(x):
    return tf.map_fn(lambda a: tf.reduce_sum(tf.map_fn(lambda b: a * tf.sin(b), x)), x)


def cond_in_loop(x):
    def body(i, a):
        return i + 1, tf.cond(i % 2 == 0, lambda: tf.exp(-a) * x, lambda: a * a)

    return tf.while_loop(lambda i, _: i < 4, body, (0, x))[1]


def cond_with_variable_in_loop(x):
    def body(i, a):
        return i + 1, tf.cond(i % 2 == 0, lambda: a * W, lambda: a * a + W)

    return tf.while_loop(lambda i, _: i < 3, body, (0, x))[1]


def loop_in_cond(x):
    return tf.cond(x[0] > 0, lambda: loop(x), lambda: x)


def rows_of_a_variable(x):
    """What arrives at the variable is sparse in every step."""
    return tf.while_loop(
        lambda i, _: i < 3, lambda i, a: (i + 1, a * tf.gather(W, [i, i, 0])), (0, x)
    )[1]


def calls_in_loop(x):
    return tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, inner(a) * W), (0, x))[1]


def growing(x):
    """The state has another shape in every step."""
    shapes = (tf.TensorShape([]), tf.TensorShape([None]))
    body = lambda i, a: (i + 1, tf.concat([a, tf.sin(a[-1:])], 0))  # noqa: E731
    return tf.while_loop(lambda i, _: i < 3, body, (0, x), shape_invariants=shapes)[1]


def until_small(x):
    halved = tf.while_loop(lambda a: tf.reduce_max(tf.abs(a)) > 0.1, lambda a: (a * 0.5,), (x,))
    return halved[0] * x


def stopped_in_loop(x):
    body = lambda i, a: (i + 1, a * x + tf.stop_gradient(a))  # noqa: E731
    return tf.while_loop(lambda i, _: i < 3, body, (0, x))[1]


def stock_in_loop(x):
    return tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, stock(a) * x), (0, x))[1]


# whether the loop is one operation of TensorFlow: run, and differentiated
LOOPS = {
    "loop": (loop, True),
    "lists": (tensors_in_lists, True),
    "scan": (CASES["scan"][0], True),
    "loop in a loop": (loop_in_loop, True),
    "list in a loop": (list_in_loop, True),
    "cond in a loop": (cond_in_loop, True),
    "cond with a variable in a loop": (cond_with_variable_in_loop, False),
    "loop in a cond": (loop_in_cond, True),
    "loop in a function": (tf.function(loop, autograph=False), True),
    "rows of a variable": (rows_of_a_variable, True),
    "calls in a loop": (calls_in_loop, False),
    "growing": (growing, True),
    "until numbers meet": (until_small, True),
    "stopped": (stopped_in_loop, True),
    "stopped, which is left out": (stopped_in_loop, False, Options(stops=False)),
    "custom gradient": (stock_in_loop, False),
    "custom gradient, which is left out": (stock_in_loop, False, Options(own=False)),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_as_one_operation_are_as_operation_by_operation(name, monkeypatch):
    function, is_one, *options = LOOPS[name]
    program, given = PROGRAMS.trace(function, [X]), []

    def loop_vjp(*args):
        given.append(loops.loop_vjp(*args))
        return given[-1]

    monkeypatch.setattr(PROGRAMS, "loop_vjp", loop_vjp)
    found = []
    for entered in (EVERY, ALL_BUT_LOOPS):
        made = run_program(PROGRAMS, program, [X], entered=entered)
        found.append((made.results, sweep(made, starts(made), None, *options)))
    # of the first argument and of the variables that the program captured
    (values, gradients), (also_values, also) = found
    assert_same(also_values, values)
    assert_same(also, gradients)
    assert gradients[0] is not None
    assert any(g is not None for g in given) is is_one


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
