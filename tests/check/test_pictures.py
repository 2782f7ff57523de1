"""The picture of a finding holds the numbers that show it."""

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

X = tf.constant([0.5, 1.0, 2.0])


def picture(fn, *args, **options):
    found = pb.check(fn, *args, **options).findings[0].picture
    assert found is not None
    return found


@pb.custom_gradient
def unmasked(x):
    return tf.nn.relu(x), lambda dy: dy


def test_a_missing_mask_is_a_line_through_the_failing_point():
    line = picture(unmasked, X)
    away = line.along != 0
    assert line.mark < 0
    assert line.mark in line.along
    assert line.along.max() > 2.0, "past the given values"
    np.testing.assert_allclose(line.truth[away], line.along[away] > 0, atol=1e-9)
    np.testing.assert_array_equal(line.rule, 1.0)
    np.testing.assert_array_equal(line.wrong[away], line.along[away] < 0)


def test_a_line_keeps_to_the_domain():
    @pb.custom_gradient
    def doubled(x):
        return tf.math.log(x), lambda dy: 2 * dy / x

    line = picture(doubled, X, domain="positive")
    inside = np.isfinite(line.truth)
    assert not inside[line.along <= 0].any()
    np.testing.assert_allclose(line.truth[inside], 1 / line.along[inside])
    np.testing.assert_allclose(line.rule[inside], 2 / line.along[inside])


def test_what_is_not_finite_is_on_the_line():
    @pb.custom_gradient
    def square(x):
        return x * x, lambda dy: dy * 2 * x * x / x

    line = picture(square, X)
    (place,) = np.flatnonzero(np.isnan(line.rule))
    assert (line.along[place], line.mark) == (0.0, 0.0)
    assert line.wrong[place]
    assert line.wrong.sum() == 1


def test_a_slope_that_only_differences_tell_is_measured_on_the_line():
    """The traced program cannot be differentiated: `numpy_function` has no derivative."""

    @pb.custom_gradient
    def cubed(x):
        y = tf.numpy_function(lambda a: a**3, [x], x.dtype)
        return tf.ensure_shape(y, x.shape), lambda dy: 6 * dy * x**2

    line = picture(cubed, X)
    inner = slice(1, -1)
    np.testing.assert_allclose(
        line.truth[inner], 3 * line.along[inner] ** 2, atol=np.nanmax(line.error)
    )
    assert line.wrong[line.along > 0.5][:-1].all()


@pb.custom_gradient
def no_last_column(x):
    def back(dy):
        return tf.concat([dy[:, :-1], tf.zeros_like(dy[:, -1:])], 1) * 2 * x

    return x * x, back


@pytest.mark.parametrize("shape", [(3, 4), (30, 40)])
def test_wrong_places_are_a_table_around_them(shape):
    x = np.random.default_rng(0).normal(size=shape) + 3
    table = picture(no_last_column, tf.constant(x))
    assert table.along is None
    assert max(table.truth.shape) <= 16
    assert table.wrong[:, -1].all()
    assert not table.wrong[:, :-1].any()
    np.testing.assert_allclose(table.rule[:, :-1], table.truth[:, :-1])


def test_elements_that_are_mixed_are_a_table_of_every_output_by_every_element():
    @pb.custom_gradient
    def softmax(x):
        y = tf.nn.softmax(x)
        return y, lambda dy: dy * y * (1 - y)

    table = picture(softmax, X)
    y = np.exp(X) / np.sum(np.exp(X))
    np.testing.assert_allclose(table.truth, np.diag(y) - np.outer(y, y), atol=1e-7)
    np.testing.assert_array_equal(table.wrong, ~np.eye(3, dtype=bool))
    assert (table.rows, table.columns) == ("out", "x")


def test_nothing_is_drawn_unless_calls_may_be_spent_on_it():
    assert pb.check(unmasked, X, explain=False).findings[0].picture is None
