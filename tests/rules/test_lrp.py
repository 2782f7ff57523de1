"""Layer-wise relevance propagation against its definition, and that nothing is lost."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import RuleError
from pullback.rules._ready import ReadyRule
from tests.rules.architectures import MODELS, examples, made, randomised
from tests.rules.lrp_by_hand import convolution, folded, share

L = keras.layers
BAR = 1e-5
RULES = {
    "epsilon": (pb.rules.lrp_epsilon(0.1), 0.1),
    "gamma": (pb.rules.lrp_gamma(0.25), 0.25),
    "z_plus": (pb.rules.lrp_z_plus, None),
    "alpha_beta": (pb.rules.lrp_alpha_beta(2.0, 1.0), (2.0, 1.0)),
}
FIRST = {
    "z_b": (pb.rules.lrp_z_b(-3.0, 4.0), (-3.0, 4.0)),
    "flat": (pb.rules.lrp_flat, None),
    "w_square": (pb.rules.lrp_w_square, None),
}


def gradient(function: Any, x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return np.asarray(tape.gradient(y, x), np.float64)


def weights_of(layer: Any) -> list[Any]:
    return [np.asarray(w, np.float64) for w in layer.weights]


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, atol=BAR * np.abs(expected).max(), rtol=0)


def adds_up(inputs: Any, lost: Any, output: Any) -> None:
    """The sums may cancel: what counts is the largest of them."""
    size = np.max(np.abs([inputs, lost, output]), 0)
    assert np.max(np.abs(inputs + lost - output) / size) <= BAR


def with_score(model: Any, head: Any) -> Any:
    """The model, randomised, with a score that is not near zero, where float32 would have few digits of it."""
    randomised(model)
    head.bias.assign([2.0])
    return model


def relu(z: Any) -> Any:
    return np.maximum(z, 0)


@pytest.mark.parametrize(
    ("rule", "first", "mode"),
    [
        *((rule, first, "eager") for rule in RULES for first in (*RULES, *FIRST)),
        *(("gamma", first, "traced") for first in (*RULES, *FIRST)),
    ],
)
def test_dense_net(rule: str, first: str, mode: str) -> None:
    layers = [L.Dense(7, activation="relu"), L.Dense(5, activation="tanh"), L.Dense(1)]
    model = with_score(keras.Sequential([keras.Input((6,)), *layers]), layers[-1])
    x = examples((6,), 1)[0]
    first_rule, first_option = {**RULES, **FIRST}[first]
    rules = {layers[0]: first_rule, layers[1]: RULES[rule][0], layers[2]: RULES[rule][0]}
    overridden = pb.override(rules)(model)
    found = gradient(tf.function(overridden) if mode == "traced" else overridden, x)[0]
    found = found if first in FIRST else found * x.numpy()[0]

    a = x.numpy()[0].astype(np.float64)
    (w0, b0), (w1, b1), (w2, b2) = map(weights_of, layers)
    a1 = relu(a @ w0 + b0)
    a2 = np.tanh(a1 @ w1 + b1)
    output = a2 @ w2 + b2
    third = share(rule, a2, w2, b2, output, RULES[rule][1])
    second = share(rule, a1, w1, b1, third.inputs, RULES[rule][1])
    expected = share(first, a, w0, b0, second.inputs, first_option)
    close(found, expected.inputs)
    lost = sum(each.bias + each.stabiliser for each in (third, second, expected))
    adds_up(found.sum(), lost, output[0])


@pytest.mark.parametrize("first", [*RULES, *FIRST])
@pytest.mark.parametrize("rule", RULES)
def test_convolutions_with_batch_normalisation(rule: str, first: str) -> None:
    convs = [L.Conv2D(4, 3), L.Conv2D(3, 3, padding="same", use_bias=False)]
    norms = [L.BatchNormalization(), L.BatchNormalization()]
    head = L.Dense(1)
    steps = [convs[0], norms[0], L.ReLU(), convs[1], norms[1], L.ReLU(), L.Flatten(), head]
    model = with_score(keras.Sequential([keras.Input((6, 5, 2)), *steps]), head)
    for norm in norms:  # some channels are turned around
        norm.gamma.assign(norm.gamma * [-1.0, *[1.0] * (norm.gamma.shape[0] - 1)])
    x = examples((6, 5, 2), 1)[0]
    first_rule, first_option = {**RULES, **FIRST}[first]
    middle, option = RULES[rule]
    rules = {convs[0]: first_rule, norms[0]: first_rule, convs[1]: middle, norms[1]: middle}
    found = gradient(pb.override({**rules, head: pb.rules.lrp_epsilon()})(model), x)[0]
    found = found if first in FIRST else found * x.numpy()[0]

    a = x.numpy().astype(np.float64).ravel()
    (k0, b0), (k1,), (w, b) = map(weights_of, (*convs, head))
    w0, c0 = folded(convolution(k0, (6, 5), same=False), b0, *weights_of(norms[0]), 1e-3)
    w1, c1 = folded(convolution(k1, (4, 3), same=True), 0.0, *weights_of(norms[1]), 1e-3)
    a1 = relu(a @ w0 + c0)
    a2 = relu(a1 @ w1 + c1)
    output = a2 @ w + b
    top = share("epsilon", a2, w, b, output, 1e-6)
    second = share(rule, a1, w1, c1, top.inputs, option)
    expected = share(first, a, w0, c0, second.inputs, first_option)
    close(found.ravel(), expected.inputs)
    lost = sum(each.bias + each.stabiliser for each in (top, second, expected))
    adds_up(found.sum(), lost, output[0])


@pytest.mark.parametrize("rule", RULES)
def test_residual_block(rule: str) -> None:
    conv, norm, head = L.Conv2D(3, 3, padding="same"), L.BatchNormalization(), L.Dense(1)
    i = keras.Input((4, 4, 3))
    y = L.ReLU()(L.Add()([i, norm(conv(i))]))
    model = with_score(keras.Model(i, head(L.Flatten()(y))), head)
    x = examples((4, 4, 3), 1)[0]
    middle, option = RULES[rule]
    rules = {conv: middle, norm: middle, head: middle}
    found = gradient(pb.override(rules)(model), x)[0] * x.numpy()[0]

    a = x.numpy().astype(np.float64).ravel()
    (kernel, bias), (w, b) = weights_of(conv), weights_of(head)
    weights, shift = folded(convolution(kernel, (4, 4), same=True), bias, *weights_of(norm), 1e-3)
    branch = a @ weights + shift
    after = relu(a + branch)
    top = share(rule, after, w, b, after @ w + b, option)
    # A sum is LRP-0: each term has relevance in proportion, and nothing where the output is zero.
    passed = np.divide(top.inputs, a + branch, where=after > 0, out=np.zeros_like(after))
    inside = share(rule, a, weights, shift, passed * branch, option)
    close(found.ravel(), passed * a + inside.inputs)


COMPOSITES: dict[str, dict[str, Any]] = {
    "epsilon": {},
    "epsilon_gamma": {},
    "epsilon_plus": {},
    "epsilon_gamma_box": {"low": -6.0, "high": 6.0},
    "epsilon_plus_flat": {},
}
OF_IMAGES = [name for name, (_, shape) in MODELS.items() if len(shape) == 3 and name != "mixture"]


def second(outputs: Any) -> Any:
    return outputs[:, 1]


def relevances(model: Any, x: Any, composite: Any, **options: Any) -> Any:
    more = COMPOSITES[composite] if isinstance(composite, str) else {}
    return pb.saliency(
        model, x, second, "lrp", None, "output", composite=composite, **more, **options
    )


def nothing_is_lost(name: str, composite: str) -> None:
    model, x, _ = made(name)
    found = relevances(model, x, composite)
    total = np.asarray(found.values, np.float64).reshape(len(x), -1).sum(1)
    adds_up(total, sum(found.leaks.values()), second(model(x)).numpy())
    assert found.gap.max() <= BAR


@pytest.mark.parametrize(
    ("name", "composite"),
    [
        *(("ResNet", composite) for composite in COMPOSITES),
        *((name, "epsilon_gamma_box") for name in OF_IMAGES if name != "ResNet"),
    ],
)
def test_inputs_biases_and_stabilisers_add_up_to_the_score(name: str, composite: str) -> None:
    nothing_is_lost(name, composite)


@pytest.mark.parametrize("name", ["transformer", "LSTM", "GRU", "subclassed", "mixture"])
def test_they_add_up_with_attention_and_gates(name: str) -> None:
    nothing_is_lost(name, "epsilon")


def plain_gradient(dy: Any, *, inputs: Any, outputs: Any, original: Any, op: Any) -> Any:
    del inputs, outputs, op
    return original(dy)


def test_the_plain_gradient_in_place_of_a_rule_shows() -> None:
    rule = ReadyRule("lrp_none", plain_gradient, {})
    model, x, _ = made("CNN")
    plain = {L.Conv2D: rule, L.Dense: rule}
    with pytest.warns(UserWarning, match="differs from the score less what biases took"):
        found = relevances(model, x, plain)
    assert found.gap.max() > 100 * BAR


def test_the_first_layer_is_the_one_that_is_called_first() -> None:
    """In this model, the head is the first attribute."""

    class HeadFirst(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.head, self.stem = L.Dense(2), L.Dense(4, activation="relu")

        def call(self, x: Any) -> Any:
            return self.head(self.stem(x))

    model, x = HeadFirst(), examples((3,))[0]
    model(x)
    found = relevances(model, x, "epsilon_plus_flat").values
    np.testing.assert_allclose(found, np.repeat(found[:, :1], 3, 1), rtol=1e-5)


@pytest.mark.parametrize("composite", ["epsilon_gamma_box", "epsilon_plus_flat"])
def test_units_of_pixels_and_padding_count_before_the_first_layer_only(composite: str) -> None:
    i = keras.Input((5, 5, 2))
    x = L.Conv2D(4, 3, activation="relu")(L.ZeroPadding2D(1)(L.Rescaling(0.5, 0.1)(i)))
    x = L.Conv2D(3, 3, activation="relu")(L.ZeroPadding2D(1)(L.Rescaling(3.0)(x)))
    model = randomised(keras.Model(i, L.Dense(2)(L.Flatten()(x))))
    found = relevances(model, examples((5, 5, 2))[0], composite)
    assert np.max(np.abs(found.gap)) <= BAR


def test_one_example_is_as_good_as_two() -> None:
    model, x, _ = made("transformer")
    both, one = relevances(model, x, "epsilon"), relevances(model, x[:1], "epsilon")
    close(one.values, both.values[:1])
    assert len(one.values) == len(one.gap) == 1
    assert one.gap.max() <= BAR


def test_a_normalisation_is_folded_only_where_it_is_all_that_follows() -> None:
    conv, norm = L.Dense(3), L.BatchNormalization()
    i = keras.Input((4,))
    z = conv(i)
    model = randomised(keras.Model(i, L.Dense(1)(L.Add()([z, norm(z)]))))
    x = examples((4,), 1)[0]
    rule = pb.rules.lrp_gamma(1.0)
    found = gradient(pb.override({conv: rule, norm: rule})(model), x)[0] * x.numpy()[0]
    (w, b), (top, _) = weights_of(conv), weights_of(model.layers[-1])
    g, _, _, variance = weights_of(norm)
    a = x.numpy()[0].astype(np.float64)
    multiplier = top[:, 0] * (1 + g / np.sqrt(variance + 1e-3))
    close(found, share("gamma", a, w, b, multiplier * (a @ w + b), 1.0).inputs)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pb.rules.lrp_epsilon(-1.0), "epsilon=-1.0; wanted zero or more"),
        (lambda: pb.rules.lrp_gamma(-1.0), "gamma=-1.0; wanted zero or more"),
        (lambda: pb.rules.lrp_z_b(1.0, 0.0), "wanted low below high"),
        (lambda: pb.rules.lrp_alpha_beta(2.0, -1.0), "beta=-1.0; wanted zero or more"),
        (lambda: pb.rules.lrp_alpha_beta(2.0, 0.5), "wanted alpha − beta = 1"),
    ],
)
def test_wrong_options(make: Any, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        make()


@pytest.mark.parametrize(
    ("layer", "message"),
    [(L.ReLU(), "rule for dense layers"), (L.SeparableConv1D(2, 2), "no kernel of its own")],
)
def test_wrong_layers(layer: Any, message: str) -> None:
    x = examples((3, 2), 1)[0]
    layer(x)
    with pytest.raises(RuleError, match=message):
        gradient(pb.override({layer: pb.rules.lrp_gamma()})(layer), x)


def test_what_is_no_layer() -> None:
    with pytest.raises(RuleError, match="rule for layers"):
        gradient(pb.with_gradient(tf.square, pb.rules.lrp_flat), tf.constant([1.0]))
