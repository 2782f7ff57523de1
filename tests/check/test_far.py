"""How far out a gradient is finite: rules that overflow where the function does not."""

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

# Where exp overflows.
MOST = {"float32": 88.72, "float64": 709.78}
X = np.array([-1.7, 1.3, 0.4])


def softplus(x):
    return tf.where(x > 30, x, tf.math.log1p(tf.exp(tf.minimum(x, 30.0))))


def overflowing(dy, *, inputs):
    e = tf.exp(inputs[0])
    return dy * e / (1 + e)


RIGHT = {
    "softplus": (softplus, lambda dy, *, inputs: dy * tf.sigmoid(inputs[0])),
    "exp": (tf.exp, lambda dy, *, outputs: dy * outputs),
    "square": (tf.square, lambda dy, *, inputs: 2 * dy * inputs[0]),
    "sigmoid": (tf.sigmoid, lambda dy, *, outputs: dy * outputs * (1 - outputs)),
}


def check(fn, x, **options):
    return pb.check(fn, x, modes="none", explain=False, **options)


@pytest.mark.parametrize("dtype", MOST)
@pytest.mark.parametrize("scale", [1.0, -1.0])
def test_a_rule_that_overflows_where_the_function_does_not_is_wrong(dtype, scale):
    fn = pb.with_gradient(
        lambda x: softplus(scale * x),
        lambda dy, *, inputs: scale * overflowing(dy, inputs=[scale * inputs[0]]),
    )
    report = check(fn, tf.constant(X, dtype))
    assert report.verdict == "wrong"
    (finding,) = report.findings
    assert (finding.kind, finding.made_up) == ("nonfinite", True)
    side, place = finding.diagnosis.split("where x ")[1].split(",")[0].split()
    assert side == "><"[scale < 0]
    assert float(place) == pytest.approx(scale * MOST[dtype], rel=5e-3)


def test_the_gradient_of_a_branch_that_is_not_taken_counts_too():
    report = check(
        lambda x: tf.where(x > 30, x, tf.math.log1p(tf.exp(x))), tf.constant(X, tf.float32)
    )
    assert report.verdict == "wrong"
    assert "x > 88" in report.diagnosis


def test_far_from_the_given_arguments_it_is_a_note():
    fn = pb.with_gradient(softplus, overflowing)
    report = check(fn, tf.constant([0.01, 0.02], tf.float32))
    assert report.verdict == "right"
    assert any("x > 88" in note for note in report.coverage.notes)
    assert not any(
        "x > " in note for note in check(fn, tf.constant(X, tf.float32), quick=True).coverage.notes
    )


@pytest.mark.parametrize("dtype", MOST)
@pytest.mark.parametrize("name", RIGHT)
def test_right_rules_are_finite_as_far_as_the_function_is(name, dtype):
    report = check(pb.with_gradient(*RIGHT[name]), tf.constant(X, dtype))
    assert report.verdict == "right", str(report)
    assert not any("finite" in note for note in report.coverage.notes)


def test_values_stay_where_they_are_meant():
    """Positive arguments are not tried with the other sign, nor beyond a domain."""
    fn = pb.with_gradient(
        lambda x: tf.sigmoid(-x),
        lambda dy, *, inputs: -overflowing(dy, inputs=inputs) * tf.sigmoid(-inputs[0]),
    )
    assert check(fn, tf.constant(X, tf.float32), domain=(-50.0, 50.0)).verdict == "right"
    assert check(fn, tf.constant(X, tf.float32)).verdict == "wrong"


@pytest.mark.parametrize("fn", [tf.sqrt, lambda x: tf.reduce_sum(tf.sqrt(x))], ids=["sqrt", "sum"])
def test_what_is_not_finite_as_given_says_nothing_of_farther_out(fn):
    report = check(fn, tf.constant([0.0, 1.0]))
    assert report.verdict == "undecided"
    assert "is not finite where" not in str(report)
