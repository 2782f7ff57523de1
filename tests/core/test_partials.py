"""Partial derivatives by parameter name."""

import numpy as np
import pytest

import pullback as pb
from pullback.errors import RuleResultError, RuleSignatureError
from tests.core.fake_engine import Array, gradient, sum_axes, total

T = np.array([[1.0, 2.0, 3.0], [0.0, 1.0, -1.0]])
P = np.array([[0.5, -1.5, 2.0], [3.0, 0.25, -2.0]])


def loss(y_true, y_pred):
    difference = y_true + -1.0 * y_pred
    return sum_axes(difference * difference, (1,), (2,))


def gradients(function, *values, weight=1.0):
    arrays = [Array(v) for v in values]
    found = gradient(total(weight * function(*arrays)), arrays)
    return [None if g is None else g.data.tolist() for g in found]


def seven(y_true, y_pred):
    return 7.0 * y_pred


def test_the_upstream_is_multiplied_in():
    _, found = gradients(pb.with_partials(loss, y_pred=seven), T, P, weight=10.0)
    assert found == (70.0 * P).tolist()


def test_what_is_not_named_keeps_its_ordinary_gradient():
    found, _ = gradients(pb.with_partials(loss, y_pred=seven), T, P)
    assert found == (2.0 * (T - P)).tolist()


def test_none_stops():
    assert gradients(pb.with_partials(loss, y_true=None, y_pred=seven), T, P)[0] is None


@pytest.mark.parametrize(
    "partial",
    [
        lambda y_pred: 7.0 * y_pred,
        lambda y_pred, y_true: 7.0 * y_pred,
        lambda y_true, y_pred, scale=7.0: scale * y_pred,
        lambda y_true, y_pred, *, outputs: 7.0 * y_pred + 0.0 * outputs.data[:, None],
        lambda *args: 7.0 * args[1],
        lambda a, b: 7.0 * b,
        lambda *, y_pred: 7.0 * y_pred,
    ],
)
def test_a_partial_takes_its_arguments_by_name_or_by_position(partial):
    assert gradients(pb.with_partials(loss, y_pred=partial), T, P)[1] == (7.0 * P).tolist()


def test_an_unknown_parameter_is_named_with_the_known_ones():
    with pytest.raises(
        RuleSignatureError, match="no parameter `y_perd`; its parameters are y_true, y_pred"
    ):
        pb.with_partials(loss, y_perd=seven)


def test_no_partial_at_all():
    with pytest.raises(RuleSignatureError, match="no partial derivative was given"):
        pb.with_partials(loss)


def test_a_partial_that_is_no_function():
    with pytest.raises(
        RuleSignatureError, match="partial derivative for `y_pred` is 3; wanted a function"
    ):
        pb.with_partials(loss, y_pred=3)


@pytest.mark.parametrize("value", [0, 0.0, ""])
def test_a_false_value_is_not_none(value):
    with pytest.raises(RuleSignatureError, match="wanted a function of the same arguments"):
        pb.with_partials(loss, y_pred=value)


def test_a_partial_of_a_wrong_shape_names_itself():
    def wrong(y_true, y_pred):
        return Array(np.ones([3, 2, 3]))

    with pytest.raises(
        RuleResultError, match=r"for `y_pred`, wrong \(.*test_partials.py:\d+\), has shape"
    ):
        gradients(pb.with_partials(loss, y_pred=wrong), T, P)


def test_a_name_that_only_keywords_can_carry():
    def scaled(x, **options):
        return x * options["scale"]

    found = gradients(
        lambda x, s: pb.with_partials(scaled, scale=lambda x: 3.0 * x)(x, scale=s),
        [1.0, 2.0],
        [5.0, 6.0],
    )
    assert found == [[5.0, 6.0], [3.0, 6.0]]


def test_a_function_of_several_outputs_is_refused():
    def two(x):
        return x * 1.0, x * 2.0

    with pytest.raises(RuleSignatureError, match=r"returns a tuple of 2.*wanted one tensor"):
        gradients(lambda x: pb.with_partials(two, x=lambda x: x)(x)[0], [1.0, 2.0])


def test_the_wrapped_function_gives_the_same_value():
    value = pb.with_partials(loss, y_pred=seven)(Array(T), Array(P))
    assert value.data.tolist() == ((T - P) ** 2).sum(1).tolist()
