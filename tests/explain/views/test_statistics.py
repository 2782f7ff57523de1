"""A group of operations in numbers."""

import math

import pytest

from pullback.explain.flow import Rule
from pullback.explain.views.layers import Group, grouped
from pullback.explain.views.statistics import Statistics, Survey
from tests.explain.views.flows import Builder, chain, size


def in_layer() -> Builder:
    """Two results of a layer with norms 3 and 4; 5 and 12 passed to two inputs, 7 to a variable."""
    b = Builder()
    x, y = b.source("x", 5.0), b.source("y", 12.0)
    w = b.source("w", 7.0, "variable")
    layer = ("m", "mix")
    constant = b.value()  # whose gradient goes to nobody
    passed = [size(5.0), size(7.0), size(100.0)]
    inner = b.op("Mul", x, w, constant, norm=9.0, passed=passed, layer=layer, held=True)
    left = b.op("Add", inner, y, norm=3.0, passed=[size(9.0), size(12.0)], layer=layer, seconds=2.0)
    right = b.op("Neg", inner, norm=4.0, layer=layer, rule=Rule("custom"), held=True)
    b.op("Sum", left, right, layer=("m", "sum"), shape=())
    return b


def of_layer(b: Builder, name: str) -> Statistics:
    flow = b.flow()
    (found,) = [g for _, g in grouped(flow).walk() if g.name == name]
    return Survey(flow).of(found)


def test_norms_are_those_of_what_crosses_the_border() -> None:
    found = of_layer(in_layer(), "mix")
    assert found.arriving == pytest.approx(5.0)  # 3 and 4
    assert found.passed == pytest.approx(13.0)  # 5 and 12
    assert found.weights == pytest.approx(7.0)


def test_time_bytes_and_rules_are_summed() -> None:
    found = of_layer(in_layer(), "mix")
    assert found.operations == 3
    assert found.seconds == pytest.approx(2.0002)
    assert found.bytes == 2 * 4 * 4
    assert found.rules == {"engine": 2, "custom": 1}
    assert found.marks == ("custom",)


def test_a_result_that_is_not_finite_is_told() -> None:
    b = Builder()
    x = b.op("Log", b.source("x"), layer=("m", "log"))
    b.op("Sum", x, layer=("m", "sum"))
    flow = b.flow()
    assert Survey(flow).of(grouped(flow)).is_finite
    b.values[x] = b.value_with(x, size(1.0, nan=1))
    assert not of_layer(b, "log").is_finite


def test_a_group_is_marked_by_what_arrives_at_it_and_in_it() -> None:
    flow = chain([1e-7, 1.0, 1.0, 1.0])
    survey, groups = Survey(flow), {g.name: g for _, g in grouped(flow).walk()}
    assert survey.of(groups["dense_0"]).marks == ("vanishing",)
    assert survey.of(groups["dense_0…3"]).marks == ("vanishing",)
    assert survey.of(groups["dense_1"]).marks == ()


def test_a_group_without_gradient_has_no_norm() -> None:
    b = Builder()
    b.op("Shape", b.source("x"), norm=None, layer=("m", "shape"))
    b.op("Sum", 0)
    found = of_layer(b, "m")
    assert (found.arriving, found.passed, found.weights, found.norm) == (None,) * 4
    assert Survey(b.flow()).is_aside(Group("", "flow", (), (0,)))
    assert not math.isnan(found.seconds)
