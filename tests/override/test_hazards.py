"""Places where an override would be lost without a word: it works there, or says why it cannot."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import UnreachableOverride
from tests.override.helpers import PLAIN_RELU, SEVEN, X, gradient, times_seven

TARGETS = ["Relu", tf.nn.relu]
DOUBLE = [-14.0] * 3


def inner_tape(function: Any) -> Any:
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x)

    return tf.function(step)(tf.constant(X)).numpy().tolist()


@pytest.mark.parametrize("target", TARGETS)
def test_recompute_grad_recomputes_under_the_override(target: Any) -> None:
    recomputed = tf.recompute_grad(lambda a: tf.nn.relu(a) * 2.0)
    with pb.override({target: times_seven}):
        assert gradient(recomputed) == DOUBLE
        assert gradient(tf.function(recomputed)) == DOUBLE
        assert inner_tape(recomputed) == DOUBLE
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with pb.override({target: times_seven}):
            y = recomputed(x)
    assert tape.gradient(y, x).numpy().tolist() == DOUBLE
    assert gradient(recomputed) == [2.0, 0.0, 2.0]


@pytest.mark.parametrize("target", TARGETS)
def test_py_function_takes_the_override_along(target: Any) -> None:
    def later(a: Any) -> Any:
        return tf.py_function(lambda z: tf.nn.relu(z) * 2.0, [a], tf.float32)

    with pb.override({target: times_seven}):
        assert gradient(later) == DOUBLE
        assert gradient(tf.function(later)) == DOUBLE
        assert inner_tape(later) == DOUBLE


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "graph"])
@pytest.mark.parametrize("target", TARGETS)
def test_inside_a_custom_gradient_it_says_so(target: Any, wrap: Any) -> None:
    @tf.custom_gradient
    def threefold(a: Any) -> Any:
        return tf.nn.relu(a), lambda dy: 3.0 * dy

    with pytest.raises(UnreachableOverride, match=r"inside threefold .*custom gradient of its own"):
        gradient(pb.override({target: times_seven})(wrap(threefold)))
    assert gradient(pb.override({threefold: times_seven})(wrap(lambda x: threefold(x)))) == SEVEN


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "graph"])
def test_inside_a_gradient_of_our_own_it_says_so(wrap: Any) -> None:
    @pb.custom_gradient
    def threefold(a: Any) -> Any:
        return tf.nn.relu(a), lambda dy: 3.0 * dy

    with pytest.raises(UnreachableOverride, match="inside `threefold`, whose own gradient is used"):
        gradient(pb.override({"Relu": times_seven})(wrap(lambda x: threefold(x))))


def matmul_pullback(dy: Any, *, inputs: Any) -> Any:
    return 10.0 * (dy @ tf.transpose(inputs[1])), 100.0 * (tf.transpose(inputs[0]) @ dy)


@pytest.mark.parametrize("target", ["MatMul", tf.matmul])
@pytest.mark.parametrize("traced_before", [False, True])
def test_vectorized_map_with_both_operands_batched(target: Any, traced_before: bool) -> None:
    a, b = np.ones([2, 3, 4], "f"), np.ones([2, 4, 5], "f")
    product = tf.function(lambda p, q: tf.matmul(p, q)) if traced_before else tf.matmul
    with pb.override({target: matmul_pullback}):
        if traced_before:
            product(a[0], b[0])
        da, db = gradient(lambda p, q: tf.vectorized_map(lambda t: product(*t), (p, q)), a, b)
    assert np.unique(da).tolist() == [50.0]
    assert np.unique(db).tolist() == [300.0]


def small_model() -> Any:
    inputs = keras.Input((3,))
    return keras.Model(inputs, keras.layers.Dense(2, activation="relu")(inputs))


def test_building_a_model_says_that_nothing_runs() -> None:
    with (
        pytest.raises(UnreachableOverride, match=r"built here.*apply the override to it"),
        pb.override({"Relu": times_seven}),
    ):
        small_model()


def imported(a: Any) -> Any:
    graph = tf.Graph()
    with graph.as_default():
        tf.nn.relu(tf.compat.v1.placeholder(tf.float32, [3], name="p"), name="r")
    return tf.graph_util.import_graph_def(graph.as_graph_def(), {"p:0": a}, ["r:0"])[0]


def test_an_imported_graph_is_overridden() -> None:
    with pb.override({"Relu": times_seven}):
        assert gradient(tf.function(imported)) == SEVEN
    wrapped = tf.compat.v1.wrap_function(imported, [tf.TensorSpec([3])])
    assert gradient(pb.override({"Relu": times_seven})(wrapped)) == SEVEN
    assert (
        gradient(pb.override({"Relu": times_seven})(wrapped.prune(wrapped.inputs, wrapped.outputs)))
        == SEVEN
    )
    assert gradient(wrapped) == PLAIN_RELU


def test_a_function_of_an_imported_graph_says_why_it_is_out_of_reach() -> None:
    graph = tf.Graph()
    with graph.as_default():
        inner = tf.function(tf.nn.relu)
        tf.identity(inner(tf.compat.v1.placeholder(tf.float32, [3], name="p")), name="r")
    definition = graph.as_graph_def()

    def calls(a: Any) -> Any:
        return tf.graph_util.import_graph_def(definition, {"p:0": a}, ["r:0"])[0]

    with pytest.raises(UnreachableOverride, match="imported graph"):
        pb.override({"Relu": times_seven})(tf.function(calls))(tf.constant(X))


FLAGS, NUMBERS = np.array([True, False, True]), np.array([1, 2, 3])
GIVES_NONE, GETS_NONE = "gives no floating-point tensor", "without any floating-point tensor"
NOWHERE: dict[str, tuple[Any, Any, str]] = {
    "integers out": ("ArgMax", lambda x: tf.argmax(x), GIVES_NONE),
    "integers out of a function": (tf.argmax, lambda x: tf.argmax(x), GIVES_NONE),
    "flags out of a function": (tf.equal, lambda x: tf.equal(x, x), GIVES_NONE),
    "flags in": ("Cast", lambda x: tf.cast(tf.constant(FLAGS), tf.float32) * x, GETS_NONE),
    "flags into a function": (tf.cast, lambda x: tf.cast(FLAGS, tf.float32) * x, GETS_NONE),
    "compared": ("Cast", lambda x: tf.cast(x > 0.0, tf.float32) * x, GETS_NONE),
    "found by a predicate": (
        pb.where(lambda op: op.type == "Cast"),
        lambda x: tf.cast(x > 0.0, tf.float32) * x,
        GETS_NONE,
    ),
    "integers": ("Mul", lambda x: tf.cast(NUMBERS * tf.constant(NUMBERS), tf.float32) + x, ""),
    "random": ("RandomStandardNormal", lambda x: tf.random.normal([3]) * x, GETS_NONE),
}


@pytest.mark.parametrize(
    "wrap",
    [
        lambda f: f,
        tf.function,
        lambda f: tf.function(f).get_concrete_function(tf.constant(X)),
    ],
    ids=["eager", "graph", "without source"],
)
@pytest.mark.parametrize("case", NOWHERE)
def test_where_no_gradient_passes_it_says_so(case: str, wrap: Any) -> None:
    target, function, words = NOWHERE[case]
    if target is tf.equal and wrap is not tf.function:
        wrap = lambda f: f  # noqa: E731  # of a composite function nothing is left without source
    override = pb.override({target: times_seven})
    with pytest.raises(UnreachableOverride, match=words or GIVES_NONE), override:
        gradient(wrap(function))
    assert override.audit.effective == 0


def test_lists_of_tensors_stay_lists_in_a_graph() -> None:
    def function(x: Any) -> Any:
        parts, rows = tf.split(x, 3), tf.unstack(x)
        parts.pop(0)
        rows.append(rows[0])
        return tf.nn.relu(parts[0]) + rows[-1]

    with pb.override({"Relu": times_seven}):
        assert gradient(tf.function(function)) == [1.0, -7.0, 0.0]


def test_check_numerics_at_the_same_time() -> None:
    tf.debugging.enable_check_numerics()
    try:
        with pb.override({"Relu": times_seven}):
            assert gradient(tf.nn.relu) == SEVEN
            assert gradient(tf.function(tf.nn.relu)) == SEVEN
    finally:
        tf.debugging.disable_check_numerics()


def test_a_hash_table_and_a_variable_in_the_function() -> None:
    weight = tf.Variable(2.0)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1], [3.0]), 0.0)
    with pb.override({"Relu": times_seven}):
        found = gradient(
            tf.function(lambda x: tf.nn.relu(x) * weight * table.lookup(tf.constant(1)))
        )
    assert found == [-42.0] * 3
