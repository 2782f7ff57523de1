"""What cannot be checked says why, and what to write."""

import pytest

from pullback.check.probe import Leaf, refusals
from pullback.errors import CheckError

LEAF = Leaf("args[0]", "x", (3,), "float32")
EMPTY = Leaf("args[0]", "x", (0, 3), "float32")


class Callable:
    """Its instances can be called."""

    def __call__(self, x):
        return x


REFUSED = {
    "no function": (lambda: refusals.require_function(3.0), r"got float\. Write `pb.check\(fn"),
    "a class": (
        lambda: refusals.require_function(Callable),
        r"Callable is a class, .* `pb.check\(Callable\(\.\.\.\)",
    ),
    "unknown name": (
        lambda: refusals.require_known("f", ["q"], [LEAF]),
        "wrt='q' names no input of f .* Those are: x",
    ),
    "nothing to name": (
        lambda: refusals.require_known("f", ["q"], []),
        "Those are: there are none",
    ),
    "empty": (
        lambda: refusals.require_movable("f", [EMPTY], "x: float32[0, 3]"),
        r"it was given x: float32\[0, 3\]",
    ),
    "no arguments": (lambda: refusals.require_movable("f", [], ""), "it was given no arguments"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_what_came(case):
    run, text = REFUSED[case]
    with pytest.raises(CheckError, match=text):
        run()


def test_what_can_be_checked_passes():
    assert refusals.require_function(Callable()) == "Callable"
    assert refusals.require_function(test_what_can_be_checked_passes).startswith("test_what")
    refusals.require_known("f", ["x"], [LEAF])
    refusals.require_known("f", None, [])
    refusals.require_movable("f", [EMPTY, LEAF], "")


def test_errors_to_raise_name_the_function_and_the_remedy():
    error = refusals.raised("f", ValueError("no"), "x: float32[3]", "no")
    assert (
        str(error) == "f raised ValueError when called with the given arguments (x: float32[3]): no"
    )
    assert "it returned int32[2]" in str(refusals.no_output("f", "int32[2]"))
    assert "even with set_seed. Make its randomness an argument" in str(
        refusals.not_repeatable("f", "set_seed")
    )
