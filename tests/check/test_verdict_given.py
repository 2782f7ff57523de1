"""What stands or falls at the arguments that are given: entries of any size, few random numbers, short rows, NaN."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb


def plain(fn, *args, **options):
    return pb.check(fn, *args, modes="none", explain=False, **options)


@pytest.mark.parametrize("unit", [1e5, 1e7, 1e9, 1e12])
def test_an_input_is_judged_beside_one_in_a_larger_unit(unit):
    def with_factor(factor):
        return pb.with_gradient(lambda x, y: x + unit * y, lambda dy: (factor * dy, unit * dy))

    for dtype in (tf.float32, tf.float64):
        args = tf.constant(0.3, dtype), tf.constant(0.7, dtype)
        assert plain(with_factor(2.0), *args).verdict == "wrong"
        assert plain(with_factor(1.0), *args).verdict == "right"


def test_an_entry_is_judged_beside_a_larger_one():
    weights = tf.constant([1e9, 1.0, 1.0], tf.float64)

    @pb.custom_gradient
    def weighted(x):
        return tf.reduce_sum(weights * x), lambda dy: dy * weights * [1.0, 3.0, 1.0]

    report = plain(weighted, tf.constant([0.3, 0.5, 0.9], tf.float64))
    assert report.verdict == "wrong"
    assert not report.findings[0].made_up


def test_a_small_error_is_not_taken_for_rounding():
    """1e-5 beside a variance of 0.03, in a row of three."""

    @pb.custom_gradient
    def normed(x):
        x = x - tf.reduce_mean(x, -1, keepdims=True)
        variance = tf.reduce_mean(x * x, -1, keepdims=True)
        scale, unit = tf.math.rsqrt(variance + 1e-5), x * tf.math.rsqrt(variance)

        def rule(dy):
            along = tf.reduce_mean(dy * unit, -1, keepdims=True)
            return scale * (dy - tf.reduce_mean(dy, -1, keepdims=True) - unit * along)

        return x * scale, rule

    report = plain(normed, tf.constant([[0.1, 2.0, -0.4], [0.5, 0.6, 0.9]]))
    assert report.verdict == "wrong"
    assert not report.findings[0].made_up


@pytest.mark.parametrize("seed", range(4))
def test_kinks_in_every_entry(seed):
    """Clipping at 1e-7 and 1 in all of the entries, at which the gradient is that of one side or the other."""
    some = tf.constant([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]])
    others = tf.constant([[0.3, 0.3, 0.4], [0.1, 0.7, 0.2]])
    assert plain(keras.losses.KLDivergence(), some, others, seed=seed).verdict == "right"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("fn", [tf.square, tf.sin])
def test_an_argument_that_is_not_finite_makes_nobody_wrong(fn, value):
    report = plain(fn, tf.constant([value, 1.0]))
    assert report.verdict == "undecided"
    assert "some outputs have no finite value" in report.coverage.reasons


def test_few_random_numbers_are_held_fixed():
    """A mask of one entry is drawn again by chance in every second run."""

    @pb.custom_gradient
    def dropped(x):
        kept = tf.cast(tf.random.uniform(tf.shape(x)) < 0.5, x.dtype)
        return 2.0 * x * kept + x, lambda dy: dy * (2.0 * kept + 1.0)

    for _ in range(12):
        assert plain(dropped, tf.constant([0.3]), order=1).verdict == "right"


def test_second_derivatives_at_given_zeros():
    """sin(x)/x: the noise of the rule next to zero is no reason to leave zero out."""

    @tf.custom_gradient
    def sinc(x):
        zero = tf.equal(x, 0.0)
        safe = tf.where(zero, tf.ones_like(x), x)

        def rule(dy):
            slope = (tf.cos(safe) - tf.sin(safe) / safe) / safe
            return dy * tf.where(zero, tf.zeros_like(x), slope)

        return tf.where(zero, tf.ones_like(x), tf.sin(safe) / safe), rule

    report = plain(sinc, tf.constant([0.0, 1.3, -0.7, 0.0]), order=2)
    assert report.verdict == "wrong"


def test_second_derivatives_at_given_zeros_without_a_branch():
    """The slope of the square as x² / x, which is zero around zero to whoever differentiates it there."""
    square = pb.with_gradient(
        tf.square, lambda dy, *, inputs: 2 * dy * tf.math.divide_no_nan(inputs[0] ** 2, inputs[0])
    )
    assert plain(square, tf.constant([1.0, 2.0, 3.0])).verdict == "right"
    assert plain(square, tf.constant([0.0, 2.0, 3.0])).verdict == "wrong"
    assert plain(square, tf.constant([0.0, 2.0, 3.0]), order=1).verdict == "right"


def upper(dy):
    """All of a symmetric gradient in one triangle."""
    return (
        tf.linalg.band_part(dy, 0, -1)
        + tf.linalg.band_part(dy, 0, -1)
        - tf.linalg.diag(tf.linalg.diag_part(dy))
    )


@pytest.mark.parametrize("domain", ["symmetric", "definite", None])
@pytest.mark.parametrize("shape", [lambda g: g, upper], ids=["symmetric", "in a triangle"])
@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "right"), (1.5, "wrong")])
def test_second_derivatives_within_symmetric_matrices(domain, shape, factor, verdict):
    """Eigenvalues, which are read from one triangle."""

    def rule(dy, *, inputs):
        values, vectors = tf.linalg.eigh(inputs[0])
        values = tf.ones_like(values) + (factor - 1) * (values - tf.stop_gradient(values))
        return shape(tf.matmul(vectors * (dy * values)[..., None, :], vectors, transpose_b=True))

    a = np.random.default_rng(1).normal(size=(3, 3))
    report = plain(pb.with_gradient(tf.linalg.eigvalsh, rule), tf.constant(a @ a.T), domain=domain)
    assert report.verdict == verdict
    assert not report.findings or report.findings[0].kind == "second"


def test_a_loop_inside_the_function_is_looked_into():
    @tf.custom_gradient
    def cube_root(x):
        def better(k, y):
            return k + 1, y - (y**3 - x) / (3.0 * y * y)

        _, y = tf.while_loop(lambda k, _: k < 40, better, (0, 1.0 + x / 3.0))
        return y, lambda dy: dy / (3.0 * y)

    report = pb.check(cube_root, tf.constant([13.9, 9.6, 12.6, 19.6, 7.0, 1.8, 10.5, 7.6]))
    assert "factor `out` too many" in report.diagnosis


@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
@pytest.mark.parametrize("leave", [tf.py_function, tf.numpy_function])
def test_a_rule_that_leaves_the_framework_has_a_verdict(leave, shape):
    def squares(factor):
        """Of one input, and with another one."""

        def slope(x, dy):
            return leave(lambda *ab: factor * np.prod(ab, 0), [x, dy], x.dtype)

        square = pb.with_gradient(tf.square, lambda dy, *, inputs: slope(inputs[0], dy))
        scaled = pb.with_gradient(
            lambda x, k: k * x * x,
            lambda dy, *, inputs: (inputs[1] * slope(inputs[0], dy), dy * inputs[0] ** 2),
        )
        return (square, x), (scaled, x, k)

    x, k = (tf.constant(np.random.default_rng(s).normal(size=shape)) for s in range(2))
    for factor, verdict in ((2.0, "right"), (1.9, "wrong")):
        for fn, *args in squares(factor):
            assert plain(fn, *args, order=1).verdict == verdict
            assert plain(fn, *args, quick=True).verdict == verdict


SLOPES = {"sine": (tf.sin, tf.cos), "cube": (lambda x: x**3, lambda x: 3 * x * x)}


@pytest.mark.parametrize("name", SLOPES)
@pytest.mark.parametrize("size", [3, 40, 1000])
def test_an_error_of_1e_9_in_float64_is_never_right(name, size):
    fn, slope = SLOPES[name]

    def with_error(error):
        return pb.with_gradient(fn, lambda dy, *, inputs: dy * slope(inputs[0]) * (1 + error))

    x = tf.constant(np.random.default_rng(0).normal(size=size))
    assert plain(with_error(0.0), x, order=1).verdict == "right"
    assert plain(with_error(1e-9), x, order=1).verdict != "right"
    if size < 1000:
        assert plain(with_error(1e-9), x, order=1).verdict == "wrong"
