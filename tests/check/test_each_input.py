"""Each input has a verdict of its own: tested by itself, else undecided with its reason."""

from unittest.mock import patch

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.check.budget import quick_checks_within
from pullback.check.estimate.interval import State
from pullback.check.probe import Facts
from pullback.check.search import directions
from pullback.check.verdict.alone import Alone, Outcome
from pullback.check.verdict.inputs import EachInput
from tests.check.fake import NumpyProbe, course_of, first_problem

RNG = np.random.default_rng(3)
X, W, V = (tf.constant(RNG.uniform(0.3, 1.7, size=4)) for _ in range(3))

# Functions of several inputs and their derivatives by hand.
FUNCTIONS = {
    "sum": (
        lambda x, w: tf.reduce_sum(x * x) + tf.reduce_sum(w),
        [lambda dy, x, w: 2 * x * dy, lambda dy, x, w: 0 * w + dy],
    ),
    "product": (lambda x, w: x * w, [lambda dy, x, w: dy * w, lambda dy, x, w: dy * x]),
    "three": (
        lambda x, w, v: tf.sin(x) * w + v**3,
        [
            lambda dy, x, w, v: dy * tf.cos(x) * w,
            lambda dy, x, w, v: dy * tf.sin(x),
            lambda dy, x, w, v: 3 * v * v * dy,
        ],
    ),
    "energy": (
        lambda x, w, v: x * 9e16 * v + x * w**2 / 2,
        [
            lambda dy, x, w, v: dy * (9e16 * v + w**2 / 2),
            lambda dy, x, w, v: dy * x * w,
            lambda dy, x, w, v: dy * x * 9e16,
        ],
    ),
    "largest": (
        lambda x, w: tf.maximum(x, w),
        [
            lambda dy, x, w: dy * tf.cast(x > w, x.dtype),
            lambda dy, x, w: dy * tf.cast(x <= w, x.dtype),
        ],
    ),
}


def ruled(name, factors=None):
    """A function with its rule, each gradient times a factor."""
    fn, rules = FUNCTIONS[name]
    factors = factors or [1.0] * len(rules)

    def rule(dy, *, inputs):
        return tuple(f * one(dy, *inputs) for f, one in zip(factors, rules, strict=True))

    return pb.with_gradient(fn, rule), (X, W, V)[: len(rules)]


def check(fn, *args, **options):
    return pb.check(fn, *args, modes="none", explain=False, **options)


CASES = [(name, k) for name, (_, rules) in FUNCTIONS.items() for k in range(len(rules))]


@pytest.mark.parametrize(("name", "which"), CASES)
@pytest.mark.parametrize("quick", [True, False])
def test_an_input_that_is_not_moved_is_not_right(name, which, quick):
    """Whatever the way in which nothing comes to be compared for it: here no direction leads along it."""
    fn, args = ruled(name)
    signed = directions.generic

    def without(rng, layout, x):
        u = signed(rng, layout, x)
        u[layout.span(which)] = 0.0
        return u

    with (
        patch.object(directions, "generic", without),
        patch.object(directions, "relative", without),
    ):
        report = check(fn, *args, quick=quick, order=1)
    assert report.verdict == "undecided"
    assert report.inputs[which].ok is None
    assert any(report.inputs[which].leaf.name in reason for reason in report.coverage.reasons)
    assert check(fn, *args, quick=quick, order=1).verdict == "right" or (quick and name == "energy")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_without_a_comparison_there_is_no_right(name):
    """Nothing is said to have been told by trials: every input is undecided."""
    fn, args = ruled(name)
    with patch.object(EachInput, "take", lambda *_: None):
        report = check(fn, *args, order=1)
    assert report.verdict == "undecided"
    assert not any(line.ok for line in report.inputs)


def test_an_input_that_others_hide_needs_its_own_steps():
    fn, args = ruled("energy")
    assert check(fn, *args, order=1).verdict == "right"
    with patch.object(Alone, "judge", lambda self: Outcome(State.OPEN)):
        report = check(fn, *args, order=1)
    assert [line.ok for line in report.inputs] == [True, None, True]
    assert "the effect of `w` is hidden by the rounding of the result" in str(report)


# of an input: a function that adds up beside others, and its slope
HIDDEN = {
    "affine": (lambda w: w, tf.ones_like),
    "square": (lambda w: w * w, lambda w: 2 * w),
    "sine": (tf.sin, tf.cos),
    "ReLU": (tf.nn.relu, lambda w: tf.cast(w > 0, w.dtype)),
}
SCALES = [1e-16, 1e-13, 1e-10, 1e-7, 1e7, 1e12]
KINDS = [(name, scale, "float64") for name in HIDDEN for scale in SCALES]
KINDS += [("square", scale, "float32") for scale in SCALES]


@pytest.mark.parametrize(("name", "scale", "dtype"), KINDS)
def test_a_factor_two_is_never_right_and_a_right_rule_never_wrong(name, scale, dtype):
    g, slope = HIDDEN[name]
    args = [tf.cast(x, dtype) for x in (X, W, V)]
    unit = tf.constant(scale, dtype)

    def with_factors(a, b, c):
        def rule(dy, *, inputs):
            x, w, v = inputs
            return a * 2 * x * dy, b * unit * slope(w) * dy, c * tf.cos(v) * dy

        return pb.with_gradient(
            lambda x, w, v: (
                tf.reduce_sum(x * x) + unit * tf.reduce_sum(g(w)) + tf.reduce_sum(tf.sin(v))
            ),
            rule,
        )

    assert check(with_factors(1.0, 1.0, 1.0), *args, order=1).verdict != "wrong"
    for factors in ((1.0, 0.5, 1.0), (1.0, 1.0, 0.5)):
        report = check(with_factors(*factors), *args, order=1)
        assert report.verdict != "right"
        assert report.verdict == "wrong" or "hidden by the rounding" in str(report)
        if report.verdict == "wrong" and factors[1] != 1.0:
            assert report.inputs[1].ok is False


@pytest.mark.parametrize("scale", [1e-4, 1e-7, 1e-10])
def test_weight_decay_beside_a_large_loss(scale):
    """The mean square of numbers of 2e5 hides short steps along the weights; along them it is a parabola."""

    def loss(pred, target, w):
        return tf.reduce_mean((pred - target) ** 2) + scale * tf.reduce_sum(w**2)

    def with_factor(factor):
        def rule(dy, *, inputs):
            gap = 2 * (inputs[0] - inputs[1]) / 4 * dy
            return gap, -gap, factor * scale * inputs[2] * dy

        return pb.with_gradient(loss, rule)

    rng = np.random.default_rng(0)
    pred, target = (tf.constant(2e5 * rng.normal(size=4)) for _ in range(2))
    assert check(with_factor(2.0), pred, target, W).verdict == "right"
    wrong = check(with_factor(1.0), pred, target, W)
    assert wrong.verdict == "wrong"
    assert wrong.findings[0].path == "args[2]"
    assert wrong.findings[0].wanted == pytest.approx(2 * wrong.findings[0].got, rel=1e-3)


def test_one_beside_1e30():
    for factor, verdict in ((1.0, "right"), (3.0, "wrong"), (0.0, "wrong")):
        fn = pb.with_gradient(lambda x: 1e30 + x, lambda dy, factor=factor: factor * dy)
        assert check(fn, X, order=1).verdict == verdict


def test_wide_steps_do_not_pass_over_a_kink():
    """Half of the slope is what wide steps see of a ReLU; a sine they do not see at all."""
    for fn, claims in (
        (lambda x: 1e30 + tf.nn.relu(x), (0.5, 1.0)),
        (lambda x: 1e30 + x + 5 * tf.sin(x), (1.0,)),
    ):
        for claim in claims:
            report = check(pb.with_gradient(fn, lambda dy, claim=claim: claim * dy), X, order=1)
            assert report.verdict == "undecided"
            assert "hidden by the rounding" in str(report)


NOTHING = {
    "unused": (lambda x, w: x * x, X, W),
    "inactive": (lambda x, w: x * x + w * tf.nn.relu(-x), X, W),
    "at rest": (lambda x, w: x * x + tf.nn.relu(w - 2.5), X, W),
    "steps": (lambda x, w: x * x + tf.floor(w), X, W),
    "shift": (lambda x, w: tf.nn.softmax(x + tf.reduce_sum(w)), X, W),
    "mean": (lambda x, w: (x + w) - tf.reduce_mean(x + w), X, W[:1]),
}


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("name", NOTHING)
def test_an_input_without_effect_is_right(name, quick):
    fn, *args = NOTHING[name]
    report = check(fn, *args, quick=quick)
    assert report.verdict == "right", str(report)
    assert report.calls <= 30 or not quick


def test_an_effect_that_is_hidden_and_left_out_is_not_right():
    fn = pb.with_gradient(lambda x, w: 1e12 * x + w, lambda dy: (1e12 * dy, 0.0 * dy))
    assert check(fn, X, W, order=1).verdict != "right"


def test_what_cannot_be_moved_is_undecided():
    report = check(tf.maximum, X, tf.constant(-np.inf, tf.float64))
    assert report.verdict == "undecided"
    assert [line.ok for line in report.inputs] == [True, None]
    assert "cannot be moved" in str(report)


def test_without_a_program_steps_beyond_the_size_of_an_input_condemn_nobody():
    def fn(x, w):
        return [np.sum(x**2) + 1e-14 * np.sum(w)]

    def case(factor):
        probe = NumpyProbe(
            fn,
            lambda xs, ws: [ws[0] * 2 * xs[0], factor * 1e-14 * ws[0] * np.ones(3)],
            [np.full(3, 10.0), np.ones(3)],
            facts=Facts(),
        )
        course = course_of(probe)
        return first_problem(course), course.each_input.tested

    assert case(1.0) == (None, {0, 1})
    assert case(2.0) == (None, {0})


def test_quick_says_what_it_had_no_calls_for():
    fn, args = ruled("energy", [1.0, 2.0, 1.0])
    with quick_checks_within(24):
        report = check(fn, *args, quick=True)
    assert report.verdict == "undecided"
    assert report.calls <= 24
    assert "quick=True" in str(report)


# Outputs, each of which has an upstream of its own.


@pytest.mark.parametrize("scale", [1e-3, 1e-9, 1e-12])
def test_what_a_small_output_contributes_is_missed(scale):
    @pb.custom_gradient
    def both(x):
        return tf.exp(x), scale * tf.sin(x), lambda da, db: da * tf.exp(x)

    report = pb.check(both, tf.constant([0.3, -1.2, 0.7]), modes="none")
    assert report.diagnosis == (
        "the gradient for `x` leaves out what `out[1]` contributes (its upstream gradient is not used)"
    )


def test_an_empty_input_has_no_tick_and_costs_no_verdict():
    report = pb.check(lambda x, y: (tf.sin(x), tf.sin(y)), tf.zeros([0, 3]), tf.constant(3.0))
    assert report.ok, str(report)
    assert [line.ok for line in (*report.inputs, *report.outputs)] == [None, True, None, True]


# Rules that TensorFlow does not run.


@tf.custom_gradient
def stock(x, scale=1.0):
    return x**2 * scale, lambda dy: 77.0 * dy


@pytest.mark.parametrize("nested", [False, True])
def test_a_rule_that_is_ignored_for_a_keyword_is_a_finding(nested):
    x = tf.constant([0.3, -1.2, 0.7])
    report = (
        pb.check(lambda x: stock(x=tf.sin(x)) + x, x)
        if nested
        else pb.check(stock, kwargs={"x": x})
    )
    assert report.findings[0].kind == "ignored"
    assert report.diagnosis.startswith(
        "the rule of `stock` is not run: the framework ignores it where"
    )


def test_a_setting_that_is_passed_by_keyword_is_no_finding():
    report = pb.check(lambda x: stock(x, scale=3.0), tf.constant([0.3, -1.2]), explain=False)
    assert report.findings[0].kind != "ignored"


# Words.


def test_parts_of_complex_numbers_are_no_axis():
    @pb.custom_gradient
    def square(z):
        wrong = tf.math.conj(2.0 * z) + tf.complex(0.0, 0.3 * tf.math.sin(tf.math.imag(z)))
        return z * z, lambda dy: dy * wrong

    z = tf.constant([1 + 2j, 0.3 - 1j, 0.5 + 0.7j], tf.complex64)
    assert "[0, 1]" not in pb.check(square, z).diagnosis


def test_a_factor_is_told_where_entries_are_hidden_one_by_one():
    @pb.custom_gradient
    def energy(m, v):
        c = 9e16
        return m * c + m * v**2 / 2, lambda d: (d * (c + v**2 / 2), d * 2 * m * v)

    report = pb.check(energy, tf.constant(2.0), tf.constant(3.0))
    assert report.diagnosis == (
        "the gradient for `v` is 2× what it should be along a direction; rounding hides its entries one by one"
    )
