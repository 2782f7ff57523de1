"""DeepLIFT: contributions add up to the difference, in any architecture."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.engines.tensorflow.saliency.kinds import KINDS, LINEAR
from pullback.errors import RuleError, UnsupportedError
from tests.rules.architectures import MODELS, made

BAR = 1e-5


def second(outputs: Any) -> Any:
    return outputs[:, 1]


def contributions(model: Any, x: Any, baseline: Any, target: Any, rules: Any = None) -> Any:
    return pb.saliency(model, x, target, "deeplift", None, "output", baseline, rules=rules)


def plain_gap(function: Any, x: Any, baseline: Any) -> float:
    """The gap that the plain gradient leaves."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        score = second(function(x))
    values = np.asarray((x - baseline) * tape.gradient(score, x), np.float64)
    score0 = second(function(baseline))
    off = values.reshape(len(values), -1).sum(1) - (score - score0)
    return float(np.max(np.abs(off) / np.maximum(np.abs(score), np.abs(score0))))


@pytest.mark.parametrize("name", MODELS)
def test_contributions_add_up_and_those_of_the_gradient_do_not(name: str) -> None:
    model, x, baseline = made(name)
    found = contributions(model, x, baseline, second)
    total = np.asarray(found.values, np.float64).reshape(len(x), -1).sum(1)
    difference = second(model(x)) - second(model(baseline))
    size = np.maximum(np.abs(second(model(x))), np.abs(second(model(baseline))))
    assert np.max(np.abs(total - difference) / size) <= BAR
    assert found.gap.max() <= BAR
    assert plain_gap(model, x, baseline) > 10 * BAR


@pytest.mark.parametrize("name", ["CNN", "transformer", "LSTM"])
def test_the_same_in_a_traced_function(name: str) -> None:
    model, x, baseline = made(name)

    @tf.function
    def traced(x: Any, baseline: Any) -> Any:
        found = contributions(model, x, baseline, second)
        return found.tensor, found.gap

    values, gap = traced(x, baseline)
    expected = contributions(model, x, baseline, second)
    np.testing.assert_allclose(values, expected.values, atol=1e-5)
    assert np.max(np.abs(gap)) <= BAR


def test_known_multipliers() -> None:
    x, baseline = tf.constant([[2.0, -3.0]]), tf.constant([[-1.0, 1.0]])
    found = contributions(
        lambda v: tf.nn.relu(v[:, :1]) * tf.nn.relu(v[:, 1:]), x, baseline, lambda y: y[:, 0]
    )
    # relu: (2 − 0) / 3 and (0 − 1) / −4; the product: each at the mean of the other, 1/2 and 1
    np.testing.assert_allclose(found.values, [[3 * 2 / 3 * 0.5, -4 * 1 / 4 * 1.0]], rtol=1e-6)


def test_several_inputs_and_whole_numbers() -> None:
    def function(given: Any) -> Any:
        table = tf.constant([[1.0], [-2.0]])
        return tf.nn.relu(given["a"] * tf.gather(table, given["index"])) + given["b"] ** 2

    x = {"a": tf.constant([[3.0]]), "b": tf.constant([[2.0]]), "index": tf.constant([0])}
    zero = {"a": tf.constant([[-1.0]]), "b": tf.constant([[1.0]]), "index": tf.constant([0])}
    found = contributions(function, x, zero, lambda y: y[:, 0]).values
    np.testing.assert_allclose([found["a"][0, 0], found["b"][0, 0]], [3.0, 3.0], rtol=1e-6)
    np.testing.assert_array_equal(found["index"], [0.0])  # what is looked up is the same


def test_what_cannot_be_shared_out_is_named() -> None:
    x = tf.constant([[2.0, 3.0]])
    with pytest.raises(RuleError, match=r"Prod.*test_deeplift\.py:\d+.*not known to be linear"):
        contributions(lambda v: tf.reduce_prod(v, 1), x, tf.zeros_like(x), lambda y: y)


def test_a_rule_can_be_given() -> None:
    def share(dy: Any, *, inputs: Any) -> Any:
        values = inputs[0]
        return dy[:, None] * tf.reverse(values + tf.reverse(values, [0]), [1]) / 2, None

    x, baseline = tf.constant([[2.0, 3.0]]), tf.constant([[1.0, 5.0]])
    found = contributions(
        lambda v: tf.reduce_prod(v, 1), x, baseline, lambda y: y, rules={"Prod": share}
    )
    np.testing.assert_allclose(found.gap, [0.0], atol=1e-6)


def test_a_gradient_of_its_own_is_not_taken_for_a_share() -> None:
    @tf.custom_gradient
    def cut(x: Any) -> Any:
        return tf.exp(x), lambda dy: dy

    x = tf.constant([[2.0]])
    with pytest.raises(UnsupportedError, match="custom gradient"):
        contributions(cut, x, tf.zeros_like(x), lambda y: y[:, 0])


def test_statistics_of_the_batch_are_refused() -> None:
    def normalised(x: Any) -> Any:
        return tf.raw_ops.FusedBatchNormV3(
            x=x, scale=[1.0], offset=[0.0], mean=[], variance=[], is_training=True
        )[0]

    x = tf.ones((1, 2, 2, 1))
    with pytest.raises(RuleError, match="training=False"):
        contributions(normalised, x, tf.zeros_like(x), lambda y: y[:, 0, 0, 0])


def test_every_activation_that_differs_is_in_the_audit() -> None:
    model, x, baseline = made("CNN")
    audit = contributions(model, x, baseline, second).audit
    assert audit.complete
    assert {"Relu", "MaxPool", "tf.nn.silu", "tf.nn.gelu"} <= {row.name for row in audit.rows}


def test_no_operation_is_linear_and_not() -> None:
    assert LINEAR.isdisjoint(KINDS)


@pytest.mark.parametrize(
    "op", sorted(op for op, kind in KINDS.items() if kind in ("activation", "function"))
)
def test_the_rule_of_every_activation_is_exact(op: str) -> None:
    x, baseline = tf.constant([[0.75, 0.6]]), tf.constant([[0.2, -0.3]])
    if op in ("Acosh", "Log", "Sqrt", "Rsqrt", "Reciprocal", "Inv", "Digamma", "Lgamma", "Ndtri"):
        x, baseline = 0.3 + abs(x) * 0.9, 0.3 + abs(baseline)
    if op == "Acosh":
        x, baseline = x + 1.0, baseline + 1.0
    more: dict[str, Any] = {
        "Pow": {"y": 3.0},
        "ClipByValue": {"clip_value_min": -0.1, "clip_value_max": 0.7},
    }
    raw = getattr(tf.raw_ops, op)
    names = {
        "Pow": "x",
        "ClipByValue": "t",
        "Relu": "features",
        "Relu6": "features",
        "Elu": "features",
    }
    names |= dict.fromkeys(["LeakyRelu", "Selu", "Softplus", "Softsign"], "features")
    found = contributions(
        lambda v: tf.reduce_sum(raw(**{names.get(op, "x"): v}, **more.get(op, {})), 1),
        x,
        baseline,
        lambda y: y,
    )
    assert abs(float(found.gap[0])) <= BAR


def test_rescale_is_the_slope_where_nothing_differs() -> None:
    x = tf.constant([[0.5], [0.5]])
    with pb.override({"Tanh": pb.rules.rescale()}), tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.tanh(x)[0]
    np.testing.assert_allclose(tape.gradient(y, x)[0], 1 - np.tanh([0.5]) ** 2, rtol=1e-6)


def test_an_example_close_to_its_baseline_is_not_lost_in_rounding() -> None:
    """Δy/Δx would be 0 or 60 here."""
    x = tf.constant([[1e-9], [0.0]])
    with pb.override({"Sigmoid": pb.rules.rescale()}), tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.sigmoid(x)[0]
    np.testing.assert_allclose(tape.gradient(y, x)[0], [0.25], rtol=1e-6)


def test_keras_layers_of_models_are_left_as_they_are() -> None:
    model, x, baseline = made("CNN")
    before = keras.ops.convert_to_numpy(model(x))
    contributions(model, x, baseline, second)
    np.testing.assert_array_equal(before, model(x))
