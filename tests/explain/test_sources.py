"""What one can ask about, and what the engine knows of it beyond the gradient."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

X = np.array([1.0, 3.0], np.float32)
w = tf.Variable([1.0, 2.0])
u = tf.Variable([5.0, 6.0])
read_before = tf.convert_to_tensor(w)


def source(flow: pb.Flow, name: str) -> Any:
    return next(s for s in flow.sources if s.name == name)


def test_every_kind_of_source_is_named() -> None:
    captured = tf.constant([2.0, 2.0])

    def fn(x: Any, parts: Any, k: Any) -> Any:
        return x * parts["a"] * w * captured * tf.cast(k, tf.float32)

    flow = pb.explain(fn, X, {"a": tf.constant(X)}, 3, kwargs=None)
    kinds = {s.name: s.kind for s in flow.sources}
    assert kinds == {
        "x": "argument",
        'parts["a"]': "argument",
        "w": "variable",
        "captured": "tensor",
        "k": "argument",
    }
    assert (
        flow.why("k")
        == "`k`: gets no gradient: it is a Python int, not a tensor. Pass `tf.constant(...)`."
    )
    assert source(flow, "captured").gradient.norm == pytest.approx(np.linalg.norm(X * X * [3, 6]))


def test_integers_are_sources_without_a_gradient() -> None:
    flow = pb.explain(lambda x, i: tf.gather(x, i), tf.constant(X), tf.constant([1]))
    assert source(flow, "i").dtype == "int32"
    assert source(flow, "i").gradient is None


def test_a_variable_read_out_of_sight_is_recognised() -> None:
    for variable in (tf.Variable([3.0, 4.0], name="v"), tf.Variable(3.0, name="v")):
        flow = pb.explain(lambda x, v=variable: x * v, tf.constant(X))
        found = source(flow, "v")
        assert [flow.values[v].gradient for v in found.values if flow.values[v].gradient]
        assert found.gradient.norm == pytest.approx(
            np.linalg.norm(X) if variable.shape.rank else X.sum()
        )


def test_two_arguments_that_are_one_tensor_are_two_sources() -> None:
    x = tf.constant(X)
    flow = pb.explain(lambda a, b: a * a * b, x, x)
    assert source(flow, "a").gradient.norm == pytest.approx(np.linalg.norm(2 * X * X))
    assert source(flow, "b").gradient.norm == pytest.approx(np.linalg.norm(X * X))


@pytest.mark.parametrize("wrt", ["b", ["b"], "args[1]"])
def test_wrt_limits_by_name(wrt: Any) -> None:
    flow = pb.explain(lambda a, b: a * b, tf.constant(X), tf.constant(X), wrt=wrt)
    assert [s.name for s in flow.sources] == ["b"]


def test_wrt_adds_and_limits_by_object() -> None:
    held = [tf.constant(X)]
    flow = pb.explain(lambda a: a * held[0] * w, tf.constant(X), wrt=[u, held[0]])
    assert [(s.kind, s.gradient is None) for s in flow.sources] == [
        ("variable", True),
        ("tensor", False),
    ]
    assert [position for thing, position in flow.objects if thing is u] == [0]


def test_a_numpy_detour_moves_the_result() -> None:
    flow = pb.explain(lambda x, z: tf.constant(np.sin(x)) * z, tf.constant(X), tf.constant(X))
    assert source(flow, "x").moves is True
    assert source(flow, "z").moves is None


def branch(x: Any, a: Any, b: Any) -> Any:
    if tf.reduce_sum(x) > 0:
        return x * a
    return x * b  # not run


def ternary(x: Any, a: Any, b: Any) -> Any:
    return x * a if tf.reduce_sum(x) > 0 else x * b  # not run


def branch_function(x: Any, a: Any, b: Any) -> Any:
    return tf.cond(
        tf.reduce_sum(x) > 0,
        lambda: x * a,
        lambda: x * b,  # not run
    )


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("fn", [branch, ternary, branch_function])
def test_a_line_that_did_not_run_is_named(fn: Any, traced: bool) -> None:
    flow = pb.explain(tf.function(fn) if traced else fn, *[tf.constant(X)] * 3)
    found = source(flow, "b")
    assert found.gradient is None
    assert found.moves is False
    assert "# not run" in found.place.code
    assert source(flow, "a").place is None


def test_a_variable_in_a_branch_not_taken_is_named() -> None:
    def fn(x: Any) -> Any:
        return tf.cond(tf.reduce_sum(x) > 0, lambda: x * w, lambda: x * u)

    for each in (fn, tf.function(fn)):
        assert "x * u" in source(pb.explain(each, tf.constant(X)), "u").place.code


def test_hints() -> None:
    def assigned(x: Any) -> Any:
        w.assign(x * 2)
        return w * 3

    assert source(pb.explain(assigned, tf.constant(X)), "x").hints == ("assigned inside",)
    assert w.numpy().tolist() == [1.0, 2.0]
    flow = pb.explain(lambda x: x * read_before + w.shape[0], tf.constant(X))
    assert source(flow, "w").hints == ("read before",)
    fixed = tf.Variable([1.0, 2.0], trainable=False, name="fixed")
    assert source(pb.explain(lambda x: x * fixed, tf.constant(X)), "fixed").hints == (
        "not trainable",
    )


def test_a_frozen_layer_is_told_with_its_layer() -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="d")], name="m")
    model.layers[0].trainable = False
    kernel = next(s for s in pb.explain(model, X[None]).sources if s.name.endswith("kernel"))
    assert kernel.layer == ("m", "d")
    assert kernel.hints == ("frozen layer",)
    assert not kernel.trainable
    assert kernel.gradient is not None
