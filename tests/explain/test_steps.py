"""Models with their loss, training steps, and that nothing is changed."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2)
Y = np.ones((4, 1), np.float32)


def model_of(policy: str = "float32") -> Any:
    keras.utils.set_random_seed(0)
    dtype = keras.DTypePolicy(policy)
    layers = [
        keras.layers.Dense(3, activation="tanh", dtype=dtype),
        keras.layers.BatchNormalization(dtype=dtype),
        keras.layers.Dropout(0.5, dtype=dtype),
        keras.layers.Dense(1, dtype=dtype),
    ]
    return keras.Sequential([keras.Input((2,)), *layers])


def norms(flow: pb.Flow) -> dict[str, float]:
    return {s.name: s.gradient.norm for s in flow.sources if s.kind == "variable" and s.gradient}


def expected(model: Any, loss: Any) -> dict[str, float]:
    with tf.GradientTape() as tape:
        value = loss(Y, model(X))
    variables = tape.watched_variables()
    gradients = tape.gradient(value, variables)
    return {
        v.name.removesuffix(":0"): float(np.linalg.norm(g))
        for v, g in zip(variables, gradients, strict=True)
    }


mean_square = keras.losses.MeanSquaredError()


@pytest.mark.parametrize("loss", ["mse", mean_square, lambda y, p: tf.reduce_mean((y - p) ** 2)])
def test_a_model_with_a_loss(loss: Any) -> None:
    model = model_of()
    flow = pb.explain(model, X, Y, loss=loss)
    assert norms(flow) == pytest.approx(expected(model, mean_square), rel=1e-4)
    assert [s.name for s in flow.sources if s.kind == "argument"] == ["inputs", "y"]


@pytest.mark.parametrize("loss", ["compiled", None])
def test_a_compiled_model_knows_its_loss(loss: Any) -> None:
    model = model_of()
    model.compile("sgd", "mse")
    flow = pb.explain(model, X, Y, loss=loss)
    assert norms(flow) == pytest.approx(expected(model, mean_square), rel=1e-4)


def test_a_loss_of_the_result_alone() -> None:
    flow = pb.explain(
        tf.sin, tf.constant([0.0, 0.0]), loss=lambda found: 3.0 * tf.reduce_sum(found)
    )
    assert flow.sources[0].gradient.max == 3.0


def everything(model: Any) -> list[Any]:
    variables = [*model.variables, *model.metrics_variables, *model.optimizer.variables]
    return [keras.ops.convert_to_numpy(v).copy() for v in variables]


def test_a_training_step_is_explained_and_changes_nothing() -> None:
    model = model_of()
    model.compile("adam", "mse", metrics=["mae"])
    model.fit(X, Y, verbose=0)
    before, random = everything(model), np.random.get_state()[1].copy()
    flow = pb.explain(model.train_step, (X, Y))
    assert all(np.array_equal(a, b) for a, b in zip(before, everything(model), strict=True))
    assert np.array_equal(random, np.random.get_state()[1])
    assert set(norms(flow)) == {v.path for v in model.trainable_variables}
    assert flow.notes == ()
    assert not any(n.type.startswith("ResourceApply") for n in flow.nodes)


def draws(between: Any) -> list[Any]:
    keras.utils.set_random_seed(7)
    first = tf.random.normal((2,))
    between()
    return [first, tf.random.normal((2,)), np.random.rand(2), keras.random.normal((2,))]


def test_random_numbers_go_on_as_if_nothing_had_run() -> None:
    def noisy(x: Any) -> Any:
        return x * tf.random.normal((2,)) * np.random.rand() * keras.random.normal((2,))

    plain = draws(lambda: None)
    explained = draws(lambda: pb.explain(noisy, tf.constant([1.0, 2.0])))
    assert all(np.array_equal(a, b) for a, b in zip(plain, explained, strict=True))


def test_an_optimizer_without_state_gets_none() -> None:
    model = model_of()
    model.compile("adam", "mse")
    flow = pb.explain(model.train_step, (X, Y))
    assert not model.optimizer.built
    assert float(model.metrics[0].result()) == 0.0
    assert set(norms(flow)) == {v.path for v in model.trainable_variables}


def test_the_scale_of_the_loss_is_told() -> None:
    model = model_of("mixed_float16")
    model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)), "mse")
    flow = pb.explain(model.train_step, (X, Y))
    assert "multiplied by 32768" in flow.notes[0]


w, other = tf.Variable([1.0, 2.0]), tf.Variable([5.0, 6.0])
optimizer = keras.optimizers.SGD(0.1)


def step(x: Any) -> Any:
    outside = x * other
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(w * w * x * outside)
    gradients = tape.gradient(loss, [w, other])
    optimizer.apply_gradients([(gradients[0], w)])
    return loss


def test_a_layer_that_is_not_built_is_built_before() -> None:
    flow = pb.explain(keras.layers.Dense(2, use_bias=False, name="fresh"), X)
    assert [n.type for n in flow.nodes] == ["ReadVariableOp", "MatMul"]
    assert list(norms(flow)) == ["fresh/kernel"]


def test_a_variable_that_is_returned_is_read() -> None:
    flow = pb.explain(lambda x: (w, x), tf.constant([1.0]), wrt=[w])
    assert flow.sources[0].gradient.norm == pytest.approx(np.sqrt(2.0))


@pytest.mark.parametrize("fn", [step, tf.function(step)])
def test_a_step_of_ones_own(fn: Any) -> None:
    flow = pb.explain(fn, tf.constant([1.0, 1.0]))
    told = {s.name: s for s in flow.sources}
    assert told["w"].gradient.norm == pytest.approx(np.hypot(10.0, 24.0))
    assert told["other"].gradient is None
    assert w.numpy().tolist() == [1.0, 2.0]
    assert next(n.rule.kind for n in flow.nodes if n.type == "Mul") == "unrecorded"


def test_a_source_that_was_not_watched() -> None:
    def fn(x: Any) -> Any:
        with tf.GradientTape() as tape:
            y = x * x
        return tape.gradient(y, x)

    (source,) = pb.explain(fn, tf.constant([1.0])).sources
    assert source.gradient is None
    assert source.hints == ("not watched",)


def test_what_is_held() -> None:
    layers = [keras.layers.Dense(64, "relu") for _ in range(3)]
    model = keras.Sequential([keras.Input((64,)), *layers])
    for fn in (model, tf.function(lambda x: model(x))):
        flow = pb.explain(fn, tf.ones((10, 64)))
        assert flow.measure_held is not None
        held = flow.measure_held()
        types = [flow.nodes[flow.values[v].node or 0].type for v in held]
        assert (types, sum(held.values())) == (["Relu"] * 3, 3 * 10 * 64 * 4)


def test_a_tape_inside_that_gives_none_is_what_is_explained() -> None:
    w = tf.Variable(2.0, name="w")

    def outside(x: Any) -> Any:
        h = x * w
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(h**2)
        assert tape.gradient(y, w) is None
        return y

    def stopped(x: Any) -> Any:
        with tf.GradientTape() as tape:
            with tape.stop_recording():
                h = x * w
            y = tf.reduce_sum(h**2)
        assert tape.gradient(y, w) is None
        return y

    def unwatched(x: Any) -> Any:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(x**2 * w)
        assert tape.gradient(y, x) is None
        return y

    assert "outside of the block" in pb.explain(outside, X).why(w)
    assert "stop_recording" in pb.explain(stopped, X).why(w)
    assert "tape.watch" in pb.explain(unwatched, X).why("x")


def test_of_a_result_in_whole_numbers_it_is_told_why() -> None:
    said = pb.explain(lambda x: tf.argmax(x, -1), X).why("x")
    assert "the result is int64, made by tf.argmax" in said


def test_of_a_traced_branch_that_was_not_taken_it_is_told_that_a_tape_gives_zeros() -> None:
    w = tf.Variable([1.0, 2.0])

    @tf.function
    def chosen(x: Any) -> Any:
        if tf.reduce_sum(x) > 100.0:
            return tf.reduce_sum(x * w)
        return tf.reduce_sum(x)

    with tf.GradientTape() as tape:
        y = chosen(tf.ones([2]))
    assert tape.gradient(y, w).numpy().tolist() == [0.0, 0.0]
    said = pb.explain(chosen, tf.ones([2])).why(w)
    assert "not taken" in said
    assert "a tape gives zeros" in said
