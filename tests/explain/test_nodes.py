"""What is told of each node: type, place, layer, what is around it, whose rule ran."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

X = np.array([1.0, 3.0], np.float32)


@tf.custom_gradient
def tripled(x: Any) -> Any:
    def rule(dy: Any) -> Any:  # the rule
        return 3.0 * dy

    return tf.sin(x), rule


@tf.RegisterGradient("ExplainNodesTanh")
def tanh_rule(op: Any, dy: Any) -> Any:
    return dy


def nodes(flow: pb.Flow, kind: str) -> list[Any]:
    return [n for n in flow.nodes if n.rule.kind == kind]


@pytest.mark.parametrize("traced", [False, True])
def test_a_custom_gradient_is_told_with_its_line(traced: bool) -> None:
    def fn(x: Any) -> Any:
        return tripled(x) * 2.0

    flow = pb.explain(tf.function(fn) if traced else fn, tf.constant(X))
    (node,) = nodes(flow, "custom")
    assert node.rule.name == "tripled"
    assert "# the rule" in node.rule.place.code
    assert node.place.code == "return tripled(x) * 2.0"
    assert flow.sources[0].gradient.max == 6.0


def test_tensorflows_own_custom_gradients_are_the_engines() -> None:
    flow = pb.explain(tf.nn.silu, tf.constant(X))
    assert {n.rule.kind for n in flow.nodes} == {"engine"}


@pytest.mark.parametrize("traced", [False, True])
def test_pullbacks_gradients_and_overrides_are_told(traced: bool) -> None:
    def half(dy: Any) -> Any:
        return 0.5 * dy

    sine = pb.with_gradient(tf.sin, half)

    def fn(x: Any) -> Any:
        return tf.nn.relu(sine(x))

    fn = tf.function(fn) if traced else fn
    flow = pb.explain(pb.override({"Relu": half})(fn), tf.constant(X))
    (own,), (overridden,) = nodes(flow, "pullback"), nodes(flow, "override")
    assert own.rule.name == "sin"
    assert (overridden.type, overridden.rule.name, overridden.rule.target) == (
        "Relu",
        "half",
        "'Relu'",
    )
    assert own.rule.place == overridden.rule.place
    assert flow.sources[0].gradient.max == 0.25


def test_an_override_around_explain_is_told() -> None:
    with pb.override({tf.nn.relu: lambda dy: dy}):
        flow = pb.explain(lambda x: tf.nn.relu(-x), tf.constant(X))
    assert [n.type for n in nodes(flow, "override")] == ["Relu"]
    assert flow.sources[0].gradient.max == 1.0


def test_gradients_that_are_looked_up_by_name_are_custom() -> None:
    @tf.function
    def fn(x: Any) -> Any:
        with tf.compat.v1.get_default_graph().gradient_override_map({"Tanh": "ExplainNodesTanh"}):
            return tf.tanh(x)

    (node,) = nodes(pb.explain(fn, tf.constant(X)), "custom")
    assert (node.type, node.rule.name) == ("Tanh", "tanh_rule")


def test_where_gradients_end() -> None:
    def fn(x: Any) -> Any:
        return tf.raw_ops.OnesLike(x=x) + tf.stop_gradient(x) + tf.round(x) * x

    flow = pb.explain(fn, tf.constant(X))
    assert [n.type for n in nodes(flow, "none")] == ["OnesLike"]
    assert [n.type for n in nodes(flow, "stopped")] == ["StopGradient"]
    assert [n.gradients for n in flow.nodes if n.type == "Round"] == [(None,)]


def test_what_ran_unrecorded() -> None:
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            with tape.stop_recording():
                y = tf.exp(x)
            z = tf.reduce_sum(y * x)
        return tape.gradient(z, x)

    flow = pb.explain(step, tf.constant(X))
    assert [n.type for n in nodes(flow, "unrecorded")] == ["Exp"]
    assert flow.sources[0].gradient.max == pytest.approx(np.exp(3.0), rel=1e-5)


def test_what_is_around_a_node() -> None:
    @tf.function
    def loop(x: Any) -> Any:
        for _ in tf.range(2):
            x = -tf.square(x) if tf.reduce_sum(x) > 0 else tf.exp(x)
        return x

    flow = pb.explain(loop, tf.constant(X))
    inside = {n.type: n.inside for n in flow.nodes}
    assert inside["Square"] == ("loop", "while, step 1", "then of cond")
    assert inside["Exp"] == ("loop", "while, step 2", "else of cond")


def test_what_is_around_a_node_that_runs_at_once() -> None:
    def step(i: Any, x: Any) -> Any:
        return i + 1, tf.cond(tf.reduce_sum(x) > 0, lambda: -tf.square(x), lambda: tf.exp(x))

    def loop(x: Any) -> Any:
        return tf.while_loop(lambda i, x: i < 2, step, (0, x))[1]

    inside = {n.type: n.inside for n in pb.explain(loop, tf.constant(X)).nodes}
    assert inside["Square"] == ("while, step 1", "then of cond")
    assert inside["Exp"] == ("while, step 2", "else of cond")


@pytest.mark.parametrize("traced", [False, True])
def test_layers_are_told_outermost_first(traced: bool) -> None:
    inner = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(2, "tanh", name="d")], name="inner"
    )
    model = keras.Sequential([keras.Input((2,)), inner, keras.layers.ReLU(name="r")], name="outer")
    flow = pb.explain(tf.function(model) if traced else model, X[None])
    layers = {n.type: n.layer for n in flow.nodes}
    assert layers["Tanh"] == ("outer", "inner", "d")
    assert layers["Relu"] == ("outer", "r")


def test_a_function_that_was_traced_before_still_tells_layers() -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, "tanh", name="d")], name="m")
    traced = tf.function(lambda x: model(x))
    traced(X[None])
    layers = {n.type: n.layer for n in pb.explain(traced, X[None]).nodes}
    assert layers["Tanh"] == ("m", "d")


def test_each_edge_has_its_gradient_and_each_value_their_sum() -> None:
    flow = pb.explain(
        lambda x: x * tf.constant([2.0, 2.0]) + x * tf.constant([5.0, 5.0]), tf.constant(X)
    )
    edges = [
        e.gradient.max for e in flow.edges if e.value == flow.sources[0].values[0] and e.gradient
    ]
    assert edges == [2.0, 5.0]
    assert flow.values[flow.sources[0].values[0]].gradient.max == 7.0


def test_sizes_count_what_is_not_finite() -> None:
    flow = pb.explain(lambda x: tf.sqrt(x) / x, tf.constant([0.0, 4.0]))
    divided = next(n for n in flow.nodes if n.type == "RealDiv")
    size = flow.values[divided.outputs[0]].size
    assert (size.nan, size.inf, size.max, size.count) == (1, 0, 0.5, 2)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.complex64, tf.bfloat16])
@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e25])
def test_sizes_of_small_and_large_numbers(dtype: Any, scale: float) -> None:
    x = tf.cast(tf.constant([3.0 * scale, 0.0, 4.0 * scale], tf.float64), dtype)
    size = pb.explain(tf.identity, x).values[0].size
    assert size is not None
    assert size.norm == pytest.approx(5.0 * scale, rel=1e-2)
    assert (size.max, size.zeros) == (pytest.approx(4.0 * scale, rel=1e-2), pytest.approx(1 / 3))
    assert size.is_finite


def test_only_xla_makes_a_nan() -> None:
    @tf.function(jit_compile=True)
    def fn(a: Any) -> Any:
        return tf.reduce_sum(tf.where(a > 0, tf.sqrt(a), 0.0))

    flow = pb.explain(fn, tf.constant([0.0, 1.0]))
    assert flow.sources[0].gradient.is_finite
    assert {n.type: n.compiled[0].nan for n in flow.nodes if n.compiled} == {"Sqrt": 1}
    assert "compiled by XLA" in flow.notes[0]
