"""Stories as data: both sides are asked, errors are kept, only true numbers count."""

import math

import numpy as np
import pytest

from pullback.tour import Line, Story, find_stories
from pullback.tour._render import print_story, short
from pullback.tour._story import agrees, plain


def double(x: float) -> float:
    return x + x


def broken(x: float) -> float:
    raise ValueError(f"in user code:\n    ValueError: cannot double {x}")


def ask(fn) -> float:
    return fn(2.0)


def test_both_sides_are_asked_and_compared_with_the_truth() -> None:
    (told,) = Story("Twice?", stock=abs, ours=double, lines=[Line("of 2", ask, 4.0)]).tell()
    assert (told.stock.right, told.ours.right, float(told.ours.value)) == (False, True, 4.0)


def test_an_error_is_an_answer_that_is_not_right() -> None:
    (told,) = Story("Twice?", stock=broken, ours=double, lines=[Line("of 2", ask, 4.0)]).tell()
    assert not told.stock.right
    assert told.stock.error.endswith("cannot double 2.0")


@pytest.mark.parametrize(
    ("value", "truth", "right"),
    [
        (1.0, 1.0 + 1e-9, True),
        (1.0, 1.1, False),
        (math.nan, math.nan, False),
        ([np.ones(2), None], [[1, 1], None], True),
        ([np.ones(2), None], [[1, 1], [0, 0]], False),
        ([np.ones(2)], [[1, 1], [1, 1]], False),
        (np.ones([1, 2]), [1, 1], False),
        ({"a": 1.0}, {"a": 1.0}, True),
        ({"a": 1.0}, {"b": 1.0}, False),
        ("word", "word", True),
    ],
)
def test_agreement_needs_structure_shape_and_numbers(value, truth, right: bool) -> None:
    assert agrees(plain(value), truth, rtol=1e-6) is right


@pytest.mark.parametrize(
    ("value", "text"),
    [(np.float32(1 / 3), "0.33333"), ([np.ones(2), None], "[[1, 1], None]"), ({"a": 2}, "a: 2")],
)
def test_values_are_short(value, text: str) -> None:
    assert short(plain(value)) == text


def test_a_story_shows_the_message_without_its_stack(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story("Twice?", stock=broken, ours=double, lines=[Line("of 2", ask, 4.0)], moral="Add.")
    assert print_story(story, story.tell())
    out = capsys.readouterr().out
    assert "cannot double" in out
    assert "in user code" not in out
    assert "Add." in out


def test_a_story_that_does_not_come_true_fails() -> None:
    story = Story("Twice?", stock=double, ours=abs, lines=[Line("of 2", ask, 4.0)])
    with pytest.raises(SystemExit, match="1"):
        story.show()


def test_the_stories_are_found_in_their_order() -> None:
    names = [path.name for path in find_stories()]
    assert len(names) >= 12
    assert names == sorted(names)
