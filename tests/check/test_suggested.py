"""What the given arguments suggest is noticed, and kept by points that are made up."""

import numpy as np
import pytest

from pullback.check.probe import Facts, Leaf
from pullback.check.search.suggested import suggested_by
from pullback.check.subject import Layout
from tests.check.fake import NumpyProbe, course_of, first_problem

RNG = np.random.default_rng(0)
WILD = RNG.normal(size=(3, 4)) * 7


def of(start, *, signs=True, names="x"):
    """What one or several arguments suggest."""
    arrays = start if isinstance(start, list) else [start]
    leaves = [
        Leaf(f"args[{k}]", name, np.shape(a), "float64")
        for k, (a, name) in enumerate(zip(arrays, names.split(), strict=True))
    ]
    layout = Layout(leaves)
    return suggested_by(layout, layout.join(arrays).copy(), signs=signs)


def kept(start, moved=WILD, **options):
    return of(start, **options).into(np.ravel(moved)).reshape(np.shape(moved))


SHARES = np.abs(WILD) / np.abs(WILD).sum(-1, keepdims=True)
UNITS = WILD / np.linalg.norm(WILD, axis=-1, keepdims=True)


def test_positive_stays_positive():
    assert (kept(np.abs(WILD)) >= 0).all()
    assert (kept(-np.abs(WILD)) <= 0).all()
    np.testing.assert_array_equal(kept(RNG.normal(size=(3, 4))), WILD)


def test_signs_are_left_where_the_program_branches_on_them():
    np.testing.assert_array_equal(kept(np.abs(WILD), signs=False), WILD)


def test_whole_numbers_stay_whole():
    there = kept(np.round(WILD), signs=False)
    np.testing.assert_array_equal(there, np.round(there))


def test_shares_still_sum_to_one():
    there = kept(SHARES)
    np.testing.assert_allclose(there.sum(-1), 1)
    assert (there >= 0).all()
    np.testing.assert_allclose(kept(SHARES, np.zeros((3, 4))).sum(-1), 1)


def test_shares_of_single_precision_are_noticed():
    there = kept(SHARES.astype(np.float32).astype(float))
    np.testing.assert_allclose(there.sum(-1), 1)


def test_rows_of_length_one_keep_it():
    np.testing.assert_allclose(np.linalg.norm(kept(UNITS), axis=-1), 1)
    np.testing.assert_allclose(np.linalg.norm(kept(UNITS, np.zeros((3, 4))), axis=-1), 1)


def test_sorted_rows_stay_sorted():
    assert (np.diff(kept(np.sort(RNG.normal(size=(3, 4)))), axis=-1) >= 0).all()


def test_few_entries_suggest_nothing_by_chance():
    for start in ([0.3, 0.7], [-0.6, 0.8], [-1.0, 2.0], [-0.5, 0.5, 0.7]):
        np.testing.assert_array_equal(
            kept(np.array(start), np.array(start)[::-1] * 3), np.array(start)[::-1] * 3
        )


@pytest.mark.parametrize("names", ["lo hi", "minimum maximum", "x_min x_max", "left right"])
def test_bounds_stay_in_order_by_their_names(names):
    found = of([np.array([0.1]), np.array([0.9])], names=names, signs=False)
    np.testing.assert_array_equal(found.into(np.array([5.0, -2.0])), [-2.0, 5.0])


def test_many_places_in_order_stay_in_order():
    low = RNG.normal(size=6)
    found = of([low, low + 1], names="a b", signs=False)
    x, y = np.split(found.into(RNG.normal(size=12)), 2)
    assert (x <= y).all()


def test_few_places_in_order_are_chance_unless_named():
    found = of([np.array([0.1]), np.array([0.9])], names="a b", signs=False)
    np.testing.assert_array_equal(found.into(np.array([5.0, -2.0])), [5.0, -2.0])


def test_bounds_that_meet_are_set_apart():
    """As far as those that were given: between equal bounds there is nothing."""
    found = of([np.array([0.25]), np.array([0.75])], names="lo hi", signs=False)
    np.testing.assert_array_equal(found.into(np.array([2.0, 2.0])), [1.75, 2.25])


def test_what_is_kept_is_told():
    assert of(SHARES).describe() == ["x positive, summing to one"]
    assert of([np.array([0.1]), np.array([0.9])], names="lo hi", signs=False).describe() == [
        "lo < hi"
    ]


def visited(start, facts, fn=np.sin, slope=np.cos):
    """Every point of a full check."""
    probe = NumpyProbe(
        lambda x: [fn(x)], lambda xs, ws: [ws[0] * slope(xs[0])], [start], facts=facts
    )
    assert first_problem(course_of(probe, order=1)) is None
    return np.array(probe.visited)


def test_points_keep_the_sign_unless_the_program_branches_on_it():
    start, quiet = np.array([0.3, 1.2, 2.2, 0.7]), Facts(branches_on_sign=False)
    assert (visited(start, quiet) >= 0).all()
    assert (visited(start, Facts()) < 0).any()


def test_points_leave_what_is_suggested_at_thresholds_of_the_program():
    start = np.array([[0.2, 0.3, 0.5]])
    inside = visited(start, Facts(branches_on_sign=False))
    np.testing.assert_allclose(inside.reshape(-1, 3).sum(-1), 1)
    beyond = visited(start, Facts((4.0,), branches_on_sign=False))
    assert (beyond > 4.0).any()
