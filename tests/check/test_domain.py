"""Domains: points are brought inside, directions stay inside, bad descriptions are named."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullback.check.probe import Leaf
from pullback.check.search.domain import parse, symmetric_leaves
from pullback.check.subject import Layout
from pullback.errors import CheckError

ONE = Layout([Leaf("args[0]", "x", (4,), "float64")])
START = np.array([0.2, 0.4, 0.6, 0.8])


@pytest.mark.parametrize(
    "spec, low, high", [("positive", 0, np.inf), ("unit", 0, 1), ((0.1, 0.9), 0.1, 0.9)]
)
@given(st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4))
def test_points_are_brought_inside(spec, low, high, values):
    inside = parse(spec, ONE, START).into(np.array(values))
    assert ((inside > low) & (inside < high)).all()


def test_directions_stay_inside():
    domain = parse("unit", ONE, START)
    u = domain.along(START, np.array([10.0, -10.0, 10.0, 0.01]))
    assert ((START + u / 2 > 0) & (START + u / 2 < 1)).all()
    assert u[3] == 0.01


def test_no_domain_is_everywhere():
    np.testing.assert_array_equal(parse(None, ONE, START).into(-START), -START)


@pytest.mark.parametrize(
    "spec, text",
    [
        ("round", "domain= takes"),
        ((1, 2, 3), "domain= takes"),
        ({"q": "positive"}, "names 'q'"),
        ("negative", "lies outside"),
        (("a", "b"), "domain= takes"),
        ((1, -1), "low < high"),
        ((np.nan, 1), "low < high"),
        ((np.zeros(4), np.ones(4)), "domain= takes"),
        ({0: "positive"}, "names 0"),
        ("symmetric", "for square matrices; x is float64"),
        ({"x": "definite"}, "for square matrices; x is float64"),
    ],
)
def test_bad_descriptions_are_named(spec, text):
    with pytest.raises(CheckError, match=text):
        parse(spec, ONE, START)


def test_a_name_covers_all_that_is_inside_it():
    layout = Layout(
        [
            Leaf('args[0]["b"]', 'p["b"]', (2,), "float64"),
            Leaf('args[0]["w"]', 'p["w"]', (2,), "float64"),
        ]
    )
    domain = parse({"p": "positive", 'p["w"]': (0.0, 1.0)}, layout, START)
    np.testing.assert_array_equal(domain.upper, [np.inf, np.inf, 1.0, 1.0])


@pytest.mark.parametrize(
    "kind, matrix, text",
    [
        ("symmetric", [[1.0, 2.0], [0.0, 1.0]], "symmetric, as"),
        ("definite", [[1.0, 2.0], [2.0, 1.0]], "positive definite, as"),
    ],
)
def test_given_matrices_are_of_the_kind_that_is_claimed(kind, matrix, text):
    layout = Layout([Leaf("args[0]", "a", (2, 2), "float64")])
    with pytest.raises(CheckError, match=f"the given a is not .*{text} domain"):
        parse(kind, layout, np.ravel(matrix))


def test_vectors_beside_matrices_are_left_alone():
    layout = Layout(
        [Leaf("args[0]", "a", (2, 2), "float64"), Leaf("args[1]", "b", (2,), "float64")]
    )
    start = np.array([2.0, 1.0, 1.0, 2.0, 5.0, 6.0])
    assert parse("definite", layout, start).definite == (0,)


def test_symmetric_matrices_are_recognised_and_kept():
    layout = Layout(
        [Leaf("args[0]", "a", (3, 3), "float64"), Leaf("args[1]", "b", (3, 3), "float64")]
    )
    a = np.random.default_rng(0).normal(size=(3, 3))
    start = np.concatenate([(a + a.T).ravel(), a.ravel()])
    assert symmetric_leaves(layout, start) == (0,)
    domain = parse({"a": "symmetric"}, layout, start)
    moved = domain.along(start, np.random.default_rng(1).normal(size=18))[:9].reshape(3, 3)
    np.testing.assert_allclose(moved, moved.T)


def test_definite_matrices_stay_definite():
    layout = Layout([Leaf("args[0]", "a", (3, 3), "float64")])
    a = np.random.default_rng(0).normal(size=(3, 3))
    start = (a @ a.T + np.eye(3)).ravel()
    there = parse("definite", layout, start).into(-5 * start).reshape(3, 3)
    assert (np.linalg.eigvalsh(there) > 0).all()
