"""Stretches of a sequence that repeat."""

from hypothesis import given
from hypothesis import strategies as st

from pullback.explain.views.repeats import LEAST, repeats

ITEMS = st.lists(st.integers(0, 2), max_size=40)


@given(ITEMS)
def test_nothing_is_lost_and_nothing_comes_twice(items: list[int]) -> None:
    found = repeats(items)
    covered = [k for part in found for k in range(part.start, part.stop)]
    assert covered == list(range(len(items)))


@given(ITEMS)
def test_the_blocks_of_a_repeat_are_equal(items: list[int]) -> None:
    for part in repeats(items):
        blocks = [items[k : k + part.period] for k in range(part.start, part.stop, part.period)]
        assert all(block == blocks[0] for block in blocks)
        assert part.count == len(blocks)
        assert part.count == 1 or part.count >= LEAST


def test_the_shortest_period_is_taken() -> None:
    (only,) = repeats([1, 2] * 6)
    assert (only.period, only.count) == (2, 6)


def test_twice_stays_as_it_is() -> None:
    assert [part.count for part in repeats([1, 2, 1, 2])] == [1, 1, 1, 1]
