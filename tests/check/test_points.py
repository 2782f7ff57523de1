"""Points and directions hold what their names promise."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pullback.check.probe import Leaf
from pullback.check.search import directions, points
from pullback.check.subject import Layout


def layout(*sizes):
    return Layout([Leaf(f"args[{k}]", "xyz"[k], (n,), "float64") for k, n in enumerate(sizes)])


def special(sizes=(6, 5), constants=(), seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=sum(sizes))
    return {p.kind.name: p for p in points.special(rng, layout(*sizes), x, constants)}


def test_named_points_hold_what_they_promise():
    found = special()
    assert (found["NEGATIVE"].x < 0).all()
    assert not found["ALL_ZEROS"].x.any()
    for name, sign in (("ZEROS_AMONG_NEGATIVES", -1), ("ZEROS_AMONG_POSITIVES", 1)):
        x = found[name].x
        assert 0 < np.count_nonzero(x == 0) < 11
        assert (x[x != 0] * sign > 0).all()
    assert len(np.unique(found["TIES"].x)) == 1
    assert len(np.unique(found["GRID"].x)) < 10
    assert np.abs(found["VERY_LARGE"].x).max() > 10


def test_every_leaf_has_a_zero_among_others():
    for seed in range(20):
        x = special((3, 1), seed=seed)["ZEROS_AMONG_NEGATIVES"].x
        assert (x[:3] == 0).any()
        assert (x[3:] == 0).any()


def test_thresholds_are_met_and_surrounded():
    found = special((40,), constants=(1.5,))
    at, between = found["AT_THRESHOLDS"], found["BETWEEN_THRESHOLDS"]
    assert {1.5, -1.5} <= set(at.x[at.placed])
    assert (between.x > 1.5).any()
    assert (between.x < -1.5).any()
    assert ((between.x > -1.5) & (between.x < 1.5)).any()
    assert (found["ABOVE_THRESHOLDS"].x > 1.5).all()
    assert (np.abs(found["WITHIN_THRESHOLDS"].x) < 1.5).all()
    assert (found["BELOW_THRESHOLDS"].x < -1.5).all()


@given(st.integers(0, 10_000), st.sampled_from([0, 1, 2]))
def test_another_point_keeps_the_sign_of_leaves_of_one_sign(seed, attempt):
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.uniform(0.1, 2, 5), -rng.uniform(0.1, 2, 5)])
    there = points.another(rng, layout(5, 5), x, attempt)
    assert (np.sign(there) == np.sign(x)).all()
    assert (there != x).all()


def test_relative_directions_never_change_a_sign():
    x = np.array([1e-9, 1.0, -5.0, 1e6])
    u = directions.relative(np.random.default_rng(0), layout(4), x)
    assert (np.sign(x + u / 2) == np.sign(x)).all()


def test_tie_keeping_directions_move_equals_equally():
    x = np.array([1.0, 2.0, 1.0, 2.0, 0.0])
    u = directions.tie_keeping(np.random.default_rng(3), layout(5), x)
    assert u[0] == u[2]
    assert u[1] == u[3]


def test_sparse_directions_move_one_entry_of_each_special_value():
    x = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 0.3])
    mask = x != 0.3
    u = directions.sparse_at(np.random.default_rng(0), layout(6), x, mask)
    assert np.count_nonzero(u[x == 0]) == 1
    assert np.count_nonzero(u[x == 1]) == 1
    assert u[5] != 0


def test_symmetric_directions_are_symmetric():
    square = Layout([Leaf("args[0]", "a", (3, 3), "float64")])
    u = np.random.default_rng(0).normal(size=9)
    made = square.symmetric(u, (0,)).reshape(3, 3)
    np.testing.assert_array_equal(made, made.T)
