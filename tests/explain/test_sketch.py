"""Directions of gradients, compared by a few numbers of each."""

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.explain.sketch import WIDTH, cosine, sketch_of


def angle(one: np.ndarray, other: np.ndarray) -> float:
    found = cosine(sketch_of(one), sketch_of(other))
    assert found is not None
    return found


@pytest.mark.parametrize("size", [1, 7, WIDTH, 1000, 600_000])
def test_scaled_and_reversed_gradients(size: int) -> None:
    g = np.random.default_rng(size).normal(size=size).astype(np.float32)
    assert angle(g, 3 * g) == pytest.approx(1.0)
    assert angle(g, -g) == pytest.approx(-1.0)


@pytest.mark.parametrize("size", [2, 7, WIDTH])
def test_few_entries_are_compared_exactly(size: int) -> None:
    one, other = np.random.default_rng(size).normal(size=(2, size))
    exact = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert angle(one, other) == pytest.approx(exact)


def test_many_entries_are_compared_well_enough() -> None:
    one, other = np.random.default_rng(3).normal(size=(2, 600_000))
    assert abs(angle(one, other)) < 0.4
    assert angle(one, one + 0.3 * other) == pytest.approx(1 / np.hypot(1, 0.3), abs=0.05)
    equal = np.ones(600_000)
    assert abs(angle(equal, np.repeat([1.0, -1.0], 300_000))) < 0.4  # blocks do not repeat


def test_what_has_no_direction() -> None:
    assert cosine(sketch_of(np.zeros(3)), sketch_of(np.ones(3))) is None
    assert cosine((), ()) is None
    assert angle(np.array([1.0, np.nan, 2.0]), np.array([1.0, 5.0, 2.0])) < 1.0


def test_complex_numbers_have_two_parts() -> None:
    assert angle(np.array([1 + 0j]), np.array([1j])) == pytest.approx(0.0)


def test_a_reversed_gradient_is_another_one() -> None:
    w = tf.Variable([[1.0, -2.0], [0.5, 3.0]], name="w")

    def model(x):
        return tf.nn.relu(x @ w)

    x = tf.constant([[1.0, 2.0]])
    plain = pb.explain(model, x)
    reversed_ = pb.explain(pb.override({tf.nn.relu: pb.rules.reverse()})(model), x)
    found = plain.compare(reversed_)
    assert {p.name: round(p.cosine, 4) for p in found.sources} == {"x": -1.0, "w": -1.0}
    assert "2 of 2 sources" in str(found)
    assert plain.compare(plain).differing == ()
