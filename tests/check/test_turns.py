"""Where comparisons of computed values turn: the point is found, and is where it should be."""

import numpy as np
import pytest

from pullback.check.probe import Leaf, OutsideDomain
from pullback.check.search.turns import turns
from pullback.check.subject import Layout

X = np.array([0.3, -1.2, 0.7, 2.1])


class Fake:
    """Margins of NumPy functions, each with its gradient for one entry."""

    epsilon = 2.0**-52

    def __init__(self, *margins):
        self.functions, self.slopes, self.exact = zip(*margins, strict=True)
        self.calls = 0

    def values(self, x):
        self.calls += 1
        return [np.atleast_1d(fn(x)) for fn in self.functions]

    def slope(self, x, which, entry):
        self.calls += 1
        return self.slopes[which](x, entry)


def one(x, entry, value):
    return np.where(np.arange(x.size) == entry, value, 0.0)


SUM = (np.sum, lambda x, entry: np.ones_like(x), True)
NORM = (lambda x: np.linalg.norm(x) - 1e-3, lambda x, entry: x / np.linalg.norm(x), False)
NEAR_ONE = (
    lambda x: np.abs(x - 1) - 1e-6,
    lambda x, entry: one(x, entry, np.sign(x - 1)),
    False,
)
WHOLE = (lambda x: np.mod(x, 1), lambda x, entry: one(x, entry, 1.0), True)
FIRST = (lambda x: x[0] - 5, lambda x, entry: one(x, 0, 1.0), True)
LAST = (lambda x: x[3] ** 2 - 9, lambda x, entry: one(x, 3, 2 * x), True)
NEVER = (lambda x: x * x + 1, lambda x, entry: one(x, entry, 2 * x), False)
BOTH = (lambda x: x - 0.5, lambda x, entry: one(x, entry, 1.0), False)


def found(*margins, x=X):
    layout, fake = Layout([Leaf("args[0]", "x", x.shape, "float64")]), Fake(*margins)
    return [point.x for point in turns(fake, layout, x)], fake.calls


def test_a_sum_is_exactly_zero():
    (x,), calls = found(SUM)
    assert np.sum(x) == 0
    assert calls < 25


def test_a_length_is_just_inside():
    (x,), _ = found(NORM)
    assert 0 < np.linalg.norm(x) < 1e-3


def test_a_narrow_gap_is_not_jumped_over():
    (x,), _ = found(NEAR_ONE)
    assert np.count_nonzero(np.abs(x - 1) < 1e-6) == 1


def test_where_zero_is_met_there_are_other_roots():
    (x,), _ = found(WHOLE, x=np.array([0.3]))
    assert x[0] == np.round(x[0]) != 0


def test_what_does_not_disturb_each_other_is_one_point():
    (x,), _ = found(FIRST, LAST)
    assert x[0] == 5
    assert x[3] == 3
    assert len(found(FIRST, SUM, LAST)[0]) == 2


@pytest.mark.parametrize("margin", [NEVER, BOTH])
def test_what_never_turns_or_has_both_outcomes_gives_no_point(margin):
    points, calls = found(margin)
    assert not points
    assert calls < 40


def test_a_way_out_of_the_domain_ends():
    def guarded(x):
        if np.sum(x) < 1.5:
            raise OutsideDomain("too small")
        return np.sum(x)

    assert found((guarded, SUM[1], True))[0] == []
