"""The one change to a rule that makes it right is named, with its line; each mistake is made on purpose."""

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb


def normal(*shape):
    return tf.constant(np.random.default_rng(len(shape)).normal(size=shape))


def ruled(fn, rule):
    """A function with a wrong rule of its inputs, its result and the upstream."""

    @tf.custom_gradient
    def with_rule(*xs):
        y = fn(*xs)
        return y, lambda dy: rule(*xs, y, dy)

    return with_rule


def row_norms(x, w, y, dy):
    return dy[:, None] * w, tf.reduce_sum(dy[:, None] * x, 1)


def groups(x, y, dy):
    every = [0, 1]
    return dy - tf.reduce_mean(dy, every, keepdims=True)


def mean_for_sum(x, y, dy):
    total = tf.reduce_mean(dy, 1, keepdims=True)
    return dy - tf.exp(y) * total


def turned(x):
    return tf.exp(tf.complex(0.3 * x, x))


def imaginary(x, y, dy):
    inner = tf.math.real(turned(x))
    slope = tf.math.imag(tf.constant(0.3 + 1j, tf.complex128) * turned(x))
    return dy * tf.cos(inner) * slope


def permuted(x, y, dy):
    order = tf.argsort(x)
    return tf.gather(dy, order)


def bare_reshape(x, y, dy):
    return tf.reshape(dy, [2, 3, 4])


def halved(a, y, dy):
    left = tf.linalg.matmul(y, tf.linalg.band_part(dy, -1, 0), transpose_a=True)
    phi = tf.linalg.band_part(left, -1, 0)
    s = tf.linalg.triangular_solve(y, phi, adjoint=True)
    s = tf.transpose(tf.linalg.triangular_solve(y, tf.transpose(s), adjoint=True))
    return 0.5 * (s + tf.transpose(s))


def strange(x, y, dy):
    return dy * tf.cos(x) * (1 + 0.3 * tf.sin(5 * x + tf.reduce_sum(x) ** 2))


def periodic(x, y, dy):
    return tf.roll(dy, 1, 0) + tf.roll(dy, -1, 0) - 2 * dy


def other_branch(x, y, dy):
    return tf.where(x[0] * x[1] > 0, 3 * x * dy, 2 * x * dy)


def unmasked(x, w, y, dy):
    kept = dy * tf.cast((y > 0) & (y < 1), dy.dtype)
    return kept * w, tf.reduce_sum(dy * x)


def unscaled(x, y, dy):
    g = dy * tf.cos(x)
    return g * tf.math.cosh(x)


def wrong_einsum(a, b, y, dy):
    return tf.einsum("ij,jk->ik", dy, b), tf.einsum("ji,jk->ik", a, dy)


def padded(x):
    p = tf.pad(x, [[1, 1]])
    return p[2:] + p[:-2] - 2 * x


SQUARE = normal(4, 4)
CASES = {
    "axis": (
        lambda x, w: tf.reduce_sum(x * w, 1),
        row_norms,
        [SQUARE, normal(4)],
        "axis 0 in place of 1 in Sum of `dy[:, None] * w, tf.reduce_sum(dy[:, None] * x, 1)`",
    ),
    "axes": (
        lambda x: x - tf.reduce_mean(x, 1, keepdims=True),
        groups,
        [normal(3, 4)],
        "axis 1 in place of [0, 1] in Mean of `dy - tf.reduce_mean(dy, every, keepdims=True)`",
    ),
    "operation": (
        tf.nn.log_softmax,
        mean_for_sum,
        [normal(3, 5)],
        "Sum in place of Mean of `total = tf.reduce_mean(dy, 1, keepdims=True)`",
    ),
    "part": (
        lambda x: tf.sin(tf.math.real(turned(x))),
        imaginary,
        [normal(5)],
        "Real in place of Imag of `slope = ",
    ),
    "permutation": (tf.sort, permuted, [normal(6)], "the inverse permutation of `order` in"),
    "order of axes": (
        lambda x: tf.transpose(tf.reshape(x, [2, 3, 2, 2]), [0, 2, 1, 3]),
        bare_reshape,
        [normal(2, 3, 4)],
        "the upstream with its axes in the order [0, 2, 1, 3] in `tf.reshape(dy, [2, 3, 4])`",
    ),
    "diagonal": (
        lambda a: tf.linalg.cholesky(0.5 * (a + tf.transpose(a))),
        halved,
        [SQUARE @ tf.transpose(SQUARE) + tf.eye(4, dtype=tf.float64)],
        "with its diagonal halved in",
    ),
    "number": (
        tf.sin,
        strange,
        [normal(5)],
        "0 in place of 0.3 in `dy * tf.cos(x) * (1 + 0.3",
    ),
    "ends": (padded, periodic, [normal(6)], "zeros moved in, where the ends are joined, in Roll"),
    "branch": (
        tf.square,
        other_branch,
        [tf.constant([0.3, 0.7, -1.2, 2.0], tf.float64)],
        "taken as false everywhere in `tf.where(x[0] * x[1] > 0, 3 * x * dy, 2 * x * dy)`",
    ),
    "another tensor": (
        lambda x, w: tf.clip_by_value(x * w, 0.0, 1.0),
        unmasked,
        [normal(5, 3), tf.constant(1.3, tf.float64)],
        "`kept` in place of the upstream in `kept * w, tf.reduce_sum(dy * x)`",
    ),
    "equation": (
        lambda a, b: tf.einsum("ij,jk->ik", a, b),
        wrong_einsum,
        [SQUARE, SQUARE + 1],
        "equation=ij,kj->ik in Einsum no. 1 of",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_to_change_is_said(name):
    fn, rule, args, said = CASES[name]
    finding = pb.check(ruled(fn, rule), *args, modes="none").findings[0]
    assert said in finding.diagnosis


def test_what_is_left_out_is_named():
    """Near the point it is a factor, which no tensor of the function is."""
    rule = ruled(tf.sin, lambda x, y, dy: unscaled(x, y, dy))
    (finding,) = pb.check(rule, normal(2, 3), modes="none").findings
    assert "left out of Mul of `g * tf.math.cosh(x)`" in finding.diagnosis


def test_a_condition_that_was_never_met_is_no_repair():
    """Near the point any other bound of the condition would do."""

    def rule(x, y, dy):
        return tf.where(tf.reduce_sum(x) > 0, 2.2 * x * dy, 2 * x * dy)

    x = tf.constant([0.3, 0.7, -1.2, 2.0], tf.float64)
    (finding,) = pb.check(ruled(tf.square, rule), x, modes="none").findings
    assert (
        "would be right with the result of Greater taken as false everywhere" in finding.diagnosis
    )


def test_digits_that_cancel_are_no_format():
    def rule(x, y, dy):
        large = 1000 * tf.exp(x)
        return dy * ((large + 2 * x) - large)

    x = tf.constant([20.0, 21.0, 22.5, 24.0], tf.float64)
    (finding,) = pb.check(ruled(tf.square, rule), x, domain=(15, 30), modes="none").findings
    assert "loses its digits in Sub of `dy * ((large + 2 * x) - large)`" in finding.diagnosis


def test_a_scan_that_runs_in_the_direction_of_the_function():
    def run(z):
        found = [z[0]]
        for t in range(1, 6):
            found.append(z[t] + 0.9 * found[-1])
        return tf.stack(found)

    (finding,) = pb.check(ruled(run, lambda x, y, dy: run(dy)), normal(6), modes="none").findings
    assert "applied forwards, not transposed" in finding.diagnosis


def test_a_gradient_that_the_function_stops_is_not_blamed_on_the_engine():
    def stopped(x):
        return x * tf.stop_gradient(tf.sigmoid(x))

    (finding,) = pb.check(stopped, normal(4), modes="none").findings
    assert "the function stops the gradient at test_repairs.py:" in finding.diagnosis
    assert "against=" in finding.diagnosis
    assert "engine" not in finding.diagnosis


def test_a_slip_of_an_explanation_is_told(monkeypatch):
    from pullback.check.diagnosis import diagnose

    def broken(case):
        raise ZeroDivisionError("of ours")
        yield

    monkeypatch.setattr(diagnose, "PLAIN", (broken, *diagnose.PLAIN))
    report = pb.check(ruled(tf.sin, lambda x, y, dy: -dy * tf.cos(x)), normal(4), modes="none")
    assert "wrong sign" in report.diagnosis
    assert "one explanation could not be tried: ZeroDivisionError: of ours" in str(report)
