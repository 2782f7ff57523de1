"""Margins of comparisons, as a trace of function and rule has them."""

import numpy as np
import tensorflow as tf

import pullback as pb
from pullback._engine import engine_of
from pullback.check.programs.facts import Margins, facts_of
from pullback.check.subject import _first_of

X = tf.constant([0.3, -1.2, 0.7])


def probed(fn, *args):
    probe = engine_of([*args, fn]).probes.make_probe(fn, args, {}, None, 0)
    place = probe.start(), [np.ones(leaf.shape) for leaf in probe.outputs]
    facts = facts_of(probe.traced(*place, as_given=True))
    return facts.margins, _first_of(probe, Margins, *place), place[0]


def ruled(guard):
    @pb.custom_gradient
    def fn(x):
        return x * x, lambda dy: tf.where(guard(x), 0 * dy, 2 * x * dy)

    return fn


def test_both_sides_of_a_comparison_are_computed():
    told, margins, xs = probed(ruled(lambda x: tf.reduce_sum(x) == tf.reduce_prod(x)), X)
    assert told
    assert margins.exact == (True,)
    (x,) = xs
    np.testing.assert_allclose(margins.values(xs), [x.sum() - x.prod()])
    (slope,) = margins.slope(xs, 0, 0)
    np.testing.assert_allclose(slope, 1 - x.prod() / x)


def test_the_middle_of_a_guard_is_one_of_its_places():
    _, margins, xs = probed(ruled(lambda x: tf.abs(x - 1) < 1e-6), X)
    assert margins.exact == (False, True)
    around, middle = margins.values(xs)
    np.testing.assert_allclose(around, np.abs(xs[0] - 1) - 1e-6)
    np.testing.assert_allclose(middle, xs[0] - 1)


def test_thresholds_of_the_arguments_themselves_are_constants():
    assert not probed(ruled(lambda x: x > 3), X)[0]
    assert not probed(ruled(lambda x: x == 0), X)[0]
    assert probed(ruled(lambda x: x == 3), X)[0]


def test_comparisons_in_gradients_of_the_framework_are_not_those_of_the_user():
    assert not probed(lambda x: tf.reduce_max(tf.sin(x)) + tf.norm(x), X)[0]


def test_constants_of_the_arguments_format_are_traced_in_it():
    @pb.custom_gradient
    def fn(x, y):
        return x * y, lambda dy: (tf.where(x * y > 3, 0.0, dy * y), dy * x)

    told, margins, xs = probed(fn, X, X)
    assert told
    assert margins.epsilon == 2.0**-23
    np.testing.assert_allclose(margins.values(xs)[0], xs[0] ** 2 - 3, rtol=1e-6)
