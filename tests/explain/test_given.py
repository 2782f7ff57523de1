"""Whether a gradient is the one that the framework gave: decided on evenly spread entries where there are many."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pullback.explain.sizes import size_of, size_of_rows
from pullback.explain.sources import Given

LARGE = 1 << 19  # more entries than are kept


def given(array: Any) -> Given:
    return Given(SimpleNamespace(dtype=array.dtype, array=array), lambda g: g.array, _size)


def _size(gradient: Any) -> Any:
    return size_of(gradient.array)


def is_far(swept: Any, truth: Any) -> bool:
    found = given(truth).gap(SimpleNamespace(array=swept), size_of(swept))
    return found is not None and found.is_wide(float(np.abs(truth).max()), 0.0)


def numbers(count: int) -> Any:
    return np.random.default_rng(1).normal(size=count).astype(np.float32)


@pytest.mark.parametrize("count", [7, LARGE])
def test_the_same_numbers_have_no_gap(count: int) -> None:
    assert (
        given(numbers(count)).gap(SimpleNamespace(array=numbers(count)), size_of(numbers(count)))
        is None
    )


@pytest.mark.parametrize("count", [7, LARGE])
def test_the_order_of_sums_is_no_difference(count: int) -> None:
    x = numbers(count)
    assert not is_far(x * np.float32(1 + 1e-6), x)


@pytest.mark.parametrize("count", [7, LARGE])
@pytest.mark.parametrize(
    "change",
    [
        lambda x: -x,
        lambda x: 1.1 * x,
        lambda x: x[::-1],
        lambda x: np.where(np.arange(x.size) == 3, np.nan, x),
        lambda x: np.where(np.arange(x.size) == 3, np.inf, x),
        lambda x: np.where(np.arange(x.size) == 3, 10 * x.max(), x),
        lambda x: x[:, None],
    ],
)
def test_what_differs_is_seen(change: Any, count: int) -> None:
    x = numbers(count)
    assert is_far(change(x).astype(np.float32), x)


@pytest.mark.parametrize("count", [1, 1 << 16, (1 << 16) + 1, LARGE + 5])
def test_sizes_of_many_blocks_are_those_of_the_whole(count: int) -> None:
    x = numbers(count)
    x[::3] = 0
    size = size_of(x)
    assert size.norm == pytest.approx(np.linalg.norm(x.astype(np.float64)), rel=1e-5)
    assert (size.max, size.zeros, size.count) == (np.abs(x).max(), np.mean(x == 0), count)


def test_rows_that_are_named_twice_are_summed() -> None:
    size = size_of_rows(np.ones((3, 2), np.float32), np.array([4, 1, 4]), 20)
    assert (size.max, size.zeros, size.count) == (2.0, 0.8, 20)
