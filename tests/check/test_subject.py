"""Leaves and the one vector they are joined into."""

import numpy as np
import pytest

from pullback.check.probe import Leaf
from pullback.check.subject import Layout

LEAVES = (
    Leaf("args[0]", "x", (2, 3), "float64"),
    Leaf('args[1]["w"]', 'p["w"]', (2,), "complex128", is_complex=True),
    Leaf("args[2]", "s", (), "float32"),
)


def arrays():
    return [np.arange(6.0).reshape(2, 3), np.array([1 + 2j, 3 + 4j]), np.array(7.0)]


def test_joining_and_splitting_undo_each_other():
    layout = Layout(LEAVES)
    assert layout.size == 6 + 4 + 1
    for before, after in zip(arrays(), layout.split(layout.join(arrays())), strict=True):
        np.testing.assert_array_equal(before, after)


def test_the_inner_product_is_the_real_one():
    layout = Layout(LEAVES)
    left, right = arrays(), [a * (2 - 1j if np.iscomplexobj(a) else 2) for a in arrays()]
    expected = sum(np.sum(np.real(np.conj(a) * b)) for a, b in zip(left, right, strict=True))
    assert layout.join(left) @ layout.join(right) == pytest.approx(expected)


def test_none_is_zero():
    assert not Layout(LEAVES).join([None, None, None]).any()


@pytest.mark.parametrize(
    "position, path",
    [(0, "args[0][0,0]"), (5, "args[0][1,2]"), (8, 'args[1]["w"][1]'), (10, "args[2]")],
)
def test_positions_are_named_by_path(position, path):
    assert Layout(LEAVES).locate(position) == path
