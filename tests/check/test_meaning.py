"""The words for rules that were never meant to be derivatives."""

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.check.diagnosis.meant import meaning
from pullback.cli.checking.judge import judged
from pullback.cli.checking.outcome import Item
from pullback.cli.checking.reach import Found
from pullback.cli.guess.calls import Guess
from pullback.engines.tensorflow.probing import make_probe

X = tf.constant(np.random.default_rng(0).normal(size=(3, 4)), tf.float32)
ALPHA = tf.constant(0.7)
TURN = tf.constant(1j, tf.complex64)
WEIGHTS = tf.constant(np.linspace(0.2, 2.0, 12).reshape(3, 4), tf.float32)


def identity(rule):
    """`x` as it is, with a rule of the upstream and the other arguments; none flows to these."""

    @tf.custom_gradient
    def unchanged(x, other=None):
        return tf.identity(x), lambda dy: (rule(dy, other), None)

    return unchanged


RULES = {
    "reversal": (lambda dy, alpha: -alpha * dy, ALPHA, "reverses the gradient: -1 times `other`"),
    "scale": (lambda dy, alpha: 2 * alpha * dy, ALPHA, "scales the gradient: 2 times `other`"),
    "square": (lambda dy, alpha: alpha**2 * dy, ALPHA, "a factor that depends on its inputs"),
    "turn": (lambda dy, turn: turn * dy, TURN, "times `other` times the upstream"),
    "weights": (lambda dy, w: w * dy, WEIGHTS, "in proportion to it: weighted, masked or mixed"),
    "constant": (lambda dy, _: -0.3 * dy, ALPHA, "reverses the gradient: -0.3 times the upstream"),
    "norm": (lambda dy, c: tf.clip_by_norm(dy, c), ALPHA, "clipped, normalised or noisy"),
    "value": (lambda dy, _: tf.clip_by_value(dy, -1, 1), ALPHA, "clipped, normalised or noisy"),
    "unit": (lambda dy, _: dy / tf.norm(dy), ALPHA, "clipped, normalised or noisy"),
    "mask": (lambda dy, w: tf.where(w > 1, dy, 0.0), WEIGHTS, "part of the upstream: a mask"),
    "stop": (lambda dy, _: None, ALPHA, "gives no gradient"),
}


@pytest.mark.parametrize("name", RULES)
def test_what_a_rule_does_to_its_upstream(name):
    rule, other, words = RULES[name]
    x = tf.cast(X, other.dtype)
    told = meaning(make_probe(identity(rule), (x, other), {}, None, 0))
    assert told.startswith("returns `x` as it is, and ")
    assert words in told


def custom(function, rule):
    @tf.custom_gradient
    def of_x(x):
        return function(x), lambda dy: rule(x, dy)

    return of_x


def noisy(x, dy):
    """Noise in the format of the arguments alone, so that nothing runs in another one."""
    return dy + 0.1 * tf.random.normal(tf.shape(x))


FLAT = "straight-through: the function does not change with small steps of `x`, and its rule"
SAME = "returns `x` as it is, and"
NOT = "its rule is not in proportion to its upstream, as no derivative is"
# What `pb.check` and the command line say alike.
SAID = {
    "round": (tf.round, lambda x, dy: dy, f"{FLAT} gives a gradient, the upstream unchanged"),
    "clipped": (
        tf.identity,
        lambda x, dy: tf.clip_by_value(dy, -0.1, 0.1),
        f"{SAME} changes the upstream, and not in proportion to it: clipped, normalised or noisy",
    ),
    "clipped, of a function": (
        tf.sin,
        lambda x, dy: tf.clip_by_value(dy * tf.cos(x), -0.1, 0.1),
        f"{NOT} (clipped, normalised?)",
    ),
    "reversed": (
        tf.identity,
        lambda x, dy: -0.3 * dy,
        f"{SAME} reverses the gradient: -0.3 times the upstream",
    ),
    "scaled": (
        tf.identity,
        lambda x, dy: 2 * dy,
        f"{SAME} scales the gradient: 2 times the upstream",
    ),
    "noise": (
        tf.identity,
        noisy,
        f"{SAME} changes the upstream, and not in proportion to it: clipped, normalised or noisy",
    ),
    "surrogate": (
        lambda x: tf.cast(x > 0, x.dtype),
        lambda x, dy: dy / (1 + tf.abs(x)) ** 2,
        "a surrogate: the function does not change with small steps of `x`, and its rule gives a gradient",
    ),
    "guided": (
        tf.nn.relu,
        lambda x, dy: tf.where((x > 0) & (dy > 0), dy, 0.0),
        "its rule treats positive and negative upstreams differently, as no derivative does (guided?)",
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_a_check_says_it_as_the_command_line_does_and_names_against(name):
    function, rule, said = SAID[name]
    report = pb.check(custom(function, rule), X, modes="none")
    assert report.verdict == "wrong"
    assert report.diagnosis.startswith(f"{said}. If that is meant, ")
    assert "against=" in report.diagnosis
    item = Item(name, "rules.py", 1)
    found = Found(custom(function, rule), Guess((X,), {}, {"x": "by name"}))
    assert judged(item, found, {}).text.startswith(f"{said}. If it is meant, say so")


@pytest.mark.parametrize(
    ("function", "rule", "said"),
    [
        (tf.sin, lambda x, dy: -dy * tf.cos(x), "has the wrong sign"),
        (tf.sin, lambda x, dy: dy * dy * tf.cos(x), "has a factor the upstream"),
        (tf.sin, lambda x, dy: dy, "is the upstream as it came"),
    ],
)
def test_a_mistake_is_told_as_one(function, rule, said):
    assert said in pb.check(custom(function, rule), X, modes="none").diagnosis


def test_with_the_function_that_is_meant_it_is_right():
    rounded = custom(tf.round, lambda x, dy: dy)
    assert pb.check(rounded, X, against=tf.identity, modes="none").ok


def test_another_input_is_diagnosed_as_ever():
    @tf.custom_gradient
    def quantized(x, scale):
        def quantized_pullback(dy):
            return dy, 2 * tf.reduce_sum(dy * tf.round(x))

        return tf.round(x) * scale, quantized_pullback

    report = pb.check(quantized, X, tf.constant(1.5), modes="none")
    assert [finding.kind for finding in report.findings] == ["passed", "factor"]
    assert "2× too large" in report.findings[1].diagnosis


@pytest.mark.parametrize("share", [1e-9, 1e-7, 1e-3])
def test_a_function_whose_change_rounding_hides_is_not_called_flat(share):
    @tf.custom_gradient
    def regularised(x, w):
        """The factor 2 is missing in the gradient for `w`."""
        total = tf.reduce_sum(x * x) + share * tf.reduce_sum(w * w)
        return total, lambda dy: (2 * dy * x, share * dy * w)

    report = pb.check(regularised, tf.constant([1000.0, 1200.0]), tf.constant([0.3, 0.5]))
    assert report.verdict == "wrong"
    assert report.diagnosis == "the gradient for `w` is 2× too small: a factor 2 is missing"
