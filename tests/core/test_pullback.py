"""The backward half of a call."""

import pytest

from pullback._pullback import split_second
from tests.core.fake_engine import Array


def second(ddx):
    return ddx


@pytest.mark.parametrize(
    "returned, gradients, has_second",
    [
        ("dx", "dx", False),
        (("dx", "dy"), ("dx", "dy"), False),
        (("dx", second), "dx", True),
        ((("dx", "dy"), second), ("dx", "dy"), True),
        (("dx", "dy", second), ("dx", "dy"), True),
        (({"x": "dx"}, second), {"x": "dx"}, True),
        ((), (), False),
        (["dx", second], ["dx", second], False),
        (None, None, False),
    ],
)
def test_an_explicit_second_order_rule_is_split_off(returned, gradients, has_second):
    found = split_second(returned)
    assert found == (gradients, second if has_second else None)


def test_a_tensor_that_can_be_called_is_still_a_tensor():
    class Odd(Array):
        def __call__(self):
            raise AssertionError

    odd = Odd([1.0])
    assert split_second(("dx", odd)) == (("dx", odd), None)
